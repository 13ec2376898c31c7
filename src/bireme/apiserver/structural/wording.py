"""The sentences of schema validation, and values as Go prints them."""

import re
from decimal import Decimal
from typing import Any, Final

import msgspec

from bireme.apiserver.errors import FieldError
from bireme.apiserver.structural.strictness import quoted

WHOLE: Final = "<nil>"
"""The path of an object as a whole, as the server writes it."""

_HTML: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def is_int64(value: int) -> bool:
    return -(2**63) <= value < 2**63


def printed(value: Any) -> str:
    """A value inside of a message."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool) or value is None:
        return as_json(value)
    return number(value) if isinstance(value, int | float) else as_json(value)


def as_json(value: Any) -> str:
    text = msgspec.json.encode(value, order="sorted").decode()
    return re.sub("[<>&]", lambda match: _HTML[match[0]], text)


def number(value: float) -> str:
    """An integer that is too large was read as a float; a float gets an exponent from a million on."""
    if isinstance(value, int) and is_int64(value):
        return str(value)
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    power = len(digits) + int(exponent) - 1
    if -5 < power < 6:
        return (
            f"{float(value):f}".rstrip("0").rstrip(".") if float(value).is_integer() else repr(float(value))
        )
    text = "".join(map(str, digits))
    mantissa = f"{text[0]}.{text[1:]}".rstrip(".")
    return f"{'-' if sign else ''}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, f"Invalid value: {printed(value)}: {detail}")


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueTypeInvalid", field, f"Invalid value: {printed(value)}: {detail}")


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {printed(value)}")


def not_supported(field: str, value: Any, supported: list[Any]) -> FieldError:
    listed = ", ".join(quoted(each if isinstance(each, str) else as_json(each)) for each in supported)
    body = f"Unsupported value: {printed(value)}: supported values: {listed}"
    return FieldError("FieldValueNotSupported", field, body)


def too_long(field: str, most: int) -> FieldError:
    body = f"Too long: may not be more than {most} byte{'' if most == 1 else 's'}"
    return FieldError("FieldValueTooLong", field, body)


def too_many(field: str, count: int, most: int) -> FieldError:
    body = f"Too many: {count}: must have at most {most} item{'' if most == 1 else 's'}"
    return FieldError("FieldValueTooMany", field, body)
