"""The formats of names and labels; each function returns what is wrong, in the words of the API server.

What they return is shared: never change it. Labels, and the names of volumes and containers, are few and
written often, so answers are kept.

`bireme.api.names` knows the same formats as plain yes and no.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

NameFormat = Callable[[str], list[str]]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_KEY_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY_NAME})?"

_IS_LABEL: Final = re.compile(_LABEL)
_IS_SUBDOMAIN: Final = re.compile(_SUBDOMAIN)
_IS_KEY_NAME: Final = re.compile(_KEY_NAME)
_IS_VALUE: Final = re.compile(_VALUE)

_ENDS: Final = "and must start and end with an alphanumeric character"
_KEY_NAME_RULE: Final = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', " + _ENDS
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', " + _ENDS
)


def _regex_error(rule: str, regex: str, *examples: str) -> str:
    # The comma before "or" is the API server's own.
    listed = " or ".join(f"'{each}', " for each in examples)
    return f"{rule} (e.g. {listed}regex used for validation is '{regex}')"


def _length(value: str, most: int) -> list[str]:
    return [f"must be no more than {most} bytes"] if len(value.encode()) > most else []


def dns_subdomain(value: str) -> list[str]:
    """The format of most names."""
    errors = _length(value, 253)
    if _IS_SUBDOMAIN.fullmatch(value) is None:
        errors.append(_regex_error(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return errors


@lru_cache(4096)
def dns_label(value: str) -> list[str]:
    """The format of a namespace's and a Service's name."""
    errors = _length(value, 63)
    if _IS_LABEL.fullmatch(value) is not None:
        return errors
    if _IS_SUBDOMAIN.fullmatch(value) is not None:
        return [*errors, "must not contain dots"]
    rule = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}"
    return [*errors, _regex_error(rule, _LABEL, "my-name", "123-abc")]


def path_segment(value: str) -> list[str]:
    """The format of the names of Roles and RoleBindings."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{each}'" for each in "/%" if each in value]


@lru_cache(4096)
def label_key(value: str) -> list[str]:
    """The format of label keys, annotation keys and finalizers."""
    *prefixes, name = value.split("/")
    if len(prefixes) > 1:
        rule = _regex_error(_KEY_NAME_RULE, _KEY_NAME, "MyName", "my.name", "123-abc")
        tail = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {rule}{tail}"]
    return [*(error for prefix in prefixes for error in _key_prefix(prefix)), *_key_name(name)]


def _key_prefix(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    return [f"prefix part {error}" for error in dns_subdomain(prefix)]


def _key_name(name: str) -> list[str]:
    errors = ["must be non-empty"] if not name else _length(name, 63)
    if _IS_KEY_NAME.fullmatch(name) is None:
        errors.append(_regex_error(_KEY_NAME_RULE, _KEY_NAME, "MyName", "my.name", "123-abc"))
    return [f"name part {error}" for error in errors]


@lru_cache(4096)
def label_value(value: str) -> list[str]:
    errors = _length(value, 63)
    if _IS_VALUE.fullmatch(value) is None:
        errors.append(_regex_error(_VALUE_RULE, _VALUE, "MyValue", "my_value", "12345"))
    return errors


def name_prefix(value: str) -> str:
    """A generateName as it is checked: its last dash stands for what is appended."""
    return f"{value[:-2]}a" if len(value) > 1 and value.endswith("-") else value
