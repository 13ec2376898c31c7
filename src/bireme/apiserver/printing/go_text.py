"""Values as Go writes them."""

import math
from decimal import Decimal
from typing import Any, Final

import msgspec

_ESCAPED: Final = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"})


def printed(value: Any) -> str:
    """As fmt.Print does, but for objects and lists, which are written as JSON."""
    if value is None:
        return "<no value>"
    if isinstance(value, dict | list):
        return msgspec.json.encode(_raw(value), order="deterministic").decode().translate(_ESCAPED)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _float(value, -4) if isinstance(value, float) else str(value)


def _raw(value: Any) -> Any:
    """A value with its fractions written out: Go's JSON has its own way with them."""
    if isinstance(value, dict):
        return {key: _raw(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_raw(each) for each in value]
    return msgspec.Raw(_float(value, -6).replace("e-0", "e-").encode()) if isinstance(value, float) else value


def _float(value: float, least: int) -> str:
    """`least` is the exponent of ten below which there is an exponent to see."""
    if not math.isfinite(value) or not value:
        return repr(value).removesuffix(".0")
    number = Decimal(repr(value)).normalize()
    exponent = number.adjusted()
    return f"{number:f}" if least <= exponent < 21 else f"{number.scaleb(-exponent):f}e{exponent:+03d}"
