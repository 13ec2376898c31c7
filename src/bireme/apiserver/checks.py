"""What is wrong with single values of Kubernetes' own kinds, in the words of the API server."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from bireme.apiserver import formats
from bireme.apiserver.errors import FieldError, invalid_value, not_supported, required

MOST_DATA_BYTES: Final = 1024 * 1024
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_LONGEST_PORT_NAME: Final = 15
_PORT_NAME: Final = re.compile("[-a-z0-9]+")
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or"
    " 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_VARIABLE: Final = re.compile("[ -<>-~]+")
_VARIABLE_RULE: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)


def duplicate(field: str, value: object) -> FieldError:
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {msgspec.json.encode(value).decode()}")


def not_found(field: str, value: object) -> FieldError:
    """The value names something that is not there."""
    return FieldError("FieldValueNotFound", field, f"Not found: {msgspec.json.encode(value).decode()}")


def label_name(field: str, name: str) -> Iterator[FieldError]:
    """A name that is needed, and is a DNS label."""
    if not name:
        yield required(field)
        return
    for problem in formats.dns_label(name):
        yield invalid_value(field, name, problem)


def subdomain(field: str, name: str) -> Iterator[FieldError]:
    for problem in formats.dns_subdomain(name):
        yield invalid_value(field, name, problem)


def port_number(field: str, port: object) -> Iterator[FieldError]:
    if not (isinstance(port, int) and 1 <= port <= 65535):
        yield invalid_value(field, port, "must be between 1 and 65535, inclusive")


def port_name(field: str, name: str) -> Iterator[FieldError]:
    for problem in _port_name_problems(name):
        yield invalid_value(field, name, problem)


def _port_name_problems(name: str) -> Iterator[str]:
    if len(name) > _LONGEST_PORT_NAME:
        yield f"must be no more than {_LONGEST_PORT_NAME} bytes"
    if _PORT_NAME.fullmatch(name) is None:
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if re.search("[a-z]", name) is None:
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def port_number_or_name(field: str, port: int | str) -> Iterator[FieldError]:
    return port_name(field, port) if isinstance(port, str) else port_number(field, port)


def protocol(field: str, value: object) -> Iterator[FieldError]:
    if value not in _PROTOCOLS:
        yield not_supported(field, value, _PROTOCOLS)


def is_variable_name(name: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None


def variable_name(field: str, name: str) -> Iterator[FieldError]:
    """The name of an environment variable."""
    if not name:
        yield required(field)
    elif not is_variable_name(name):
        yield invalid_value(field, name, _VARIABLE_RULE)


def config_keys(field: str, keys: Iterable[str]) -> Iterator[FieldError]:
    """The keys of a ConfigMap's or a Secret's data."""
    for key in keys:
        for problem in _config_key_problems(key):
            yield invalid_value(f"{field}[{key}]", key, problem)


def _config_key_problems(key: str) -> Iterator[str]:
    if len(key.encode()) > 253:
        yield "must be no more than 253 bytes"
    if _CONFIG_KEY.fullmatch(key) is None:
        yield _CONFIG_KEY_RULE
    if key in (".", ".."):
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def one_of(field: str, value: Any, supported: Iterable[str]) -> Iterator[FieldError]:
    """A value out of a few; `supported` in the order of the alphabet."""
    choice = tuple(supported)
    if value not in choice:
        yield not_supported(field, value, choice)


def immutable(field: str, new: Any, old: Any) -> Iterator[FieldError]:
    if new != old:
        yield invalid_value(field, new, "field is immutable")
