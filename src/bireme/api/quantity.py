"""Kubernetes quantities, exact: `500m`, `1.5Gi`, `2e3`.

The value is kept as a whole number of billionths, Kubernetes' finest unit; what is finer is rounded
away from zero, as Kubernetes does. Nothing is ever a float.
"""

import re
from decimal import ROUND_UP, Decimal, InvalidOperation
from functools import lru_cache
from typing import Final, Literal

import msgspec

Format = Literal["BinarySI", "DecimalSI", "DecimalExponent"]

NANOS_PER_UNIT: Final = 10**9
_MAX: Final = (2**63 - 1) * NANOS_PER_UNIT

_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_BY_EXPONENT: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_FORM: Final = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([eE][+-]?[0-9]{1,9})|([KMGTPE]i|[numkMGTPE]))?"
)


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


class Quantity(msgspec.Struct, frozen=True, order=True):
    """An exact amount. Ordered by value; equal amounts in different notations are not `==`."""

    nanos: int
    format: Format = "DecimalSI"

    def units(self) -> int:
        """Whole units, rounded up: the way to read what somebody asks for."""
        return -(-self.nanos // NANOS_PER_UNIT)

    def units_available(self) -> int:
        """Whole units, rounded down: the way to read what somebody can give."""
        return self.nanos // NANOS_PER_UNIT

    def millis(self) -> int:
        """Thousandths, rounded up: the way to read a CPU request."""
        return -(-self.nanos // 10**6)

    def millis_available(self) -> int:
        """Thousandths, rounded down: the way to read allocatable CPU."""
        return self.nanos // 10**6

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos + other.nanos, self.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos - other.nanos, self.format)

    def __str__(self) -> str:
        """Kubernetes' canonical form: the largest suffix that leaves no fraction."""
        if self.format == "BinarySI":
            return _format_binary(self.nanos)
        return _format_decimal(self.nanos, exponent_form=self.format == "DecimalExponent")


ZERO: Final = Quantity(0)


@lru_cache(maxsize=4096)
def parse_quantity(text: str | float) -> Quantity:
    """Read a quantity as written in YAML, a bare number included; raise QuantityError."""
    if isinstance(text, bool):
        raise QuantityError(f"{text!r} is not a quantity")
    match = _FORM.fullmatch(str(text))
    if match is None:
        raise QuantityError(f"{text!r} is not a quantity")
    number, exponent, suffix = match.groups()
    if suffix in _BINARY:
        return Quantity(_nanos(Decimal(number), _BINARY[suffix]), "BinarySI")
    if exponent:
        return Quantity(_scaled(Decimal(number), int(exponent[1:])), "DecimalExponent")
    return Quantity(_scaled(Decimal(number), _DECIMAL[suffix or ""]), "DecimalSI")


def _scaled(number: Decimal, exponent: int) -> int:
    if not number:
        return 0
    if number.adjusted() + exponent > 40:
        return _MAX if number > 0 else -_MAX
    if number.adjusted() + exponent < -40:
        return 1 if number > 0 else -1
    return _nanos(number.scaleb(exponent), 1)


def _nanos(number: Decimal, factor: int) -> int:
    try:
        exact = (number * factor * NANOS_PER_UNIT).to_integral_value(rounding=ROUND_UP)
    except InvalidOperation as error:
        raise QuantityError(f"{number} is out of range") from error
    return max(-_MAX, min(_MAX, int(exact)))


def _format_binary(nanos: int) -> str:
    units, fraction = divmod(abs(nanos), NANOS_PER_UNIT)
    if fraction or units < 1024:
        return _format_decimal(nanos, exponent_form=False)
    sign = "-" if nanos < 0 else ""
    for suffix, factor in reversed(_BINARY.items()):
        if units % factor == 0:
            return f"{sign}{units // factor}{suffix}"
    return f"{sign}{units}"


def _format_decimal(nanos: int, *, exponent_form: bool) -> str:
    if nanos == 0:
        return "0"
    amount, exponent = nanos, -9
    while amount % 1000 == 0 and exponent < 18:
        amount, exponent = amount // 1000, exponent + 3
    if exponent_form:
        return f"{amount}e{exponent}" if exponent else str(amount)
    return f"{amount}{_DECIMAL_BY_EXPONENT[exponent]}"
