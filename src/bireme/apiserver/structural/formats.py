"""The formats that a CRD's schema may ask of a string; each function tells whether a text has it.

Texts come from anybody: those of the long formats are checked in linear time, others are refused above
MOST_LETTERS.
"""

import ipaddress
import re
import string
from collections.abc import Callable
from datetime import date
from email.utils import parseaddr
from typing import Final
from urllib.parse import urlsplit

Format = Callable[[str], bool]

MOST_LETTERS: Final = 4096
"""A text that is longer has none of these formats, but for those in _LONG."""
_LONG: Final = ("byte", "password", "uri")
_MOST_EMAIL: Final = 512
_MOST_COMMENTS: Final = 16

_LETTER: Final = r"a-zA-Z0-9\u0080-\U0010ffff"
_HOST: Final = re.compile(
    rf"[{_LETTER}$+<=>^`|~](-?[{_LETTER}$+<=>^`|~]{{0,62}})?"
    rf"|([{_LETTER}$+<=>^`|~]([{_LETTER}$+<=>^`|~-]{{0,61}}[{_LETTER}$+<=>^`|~])?\.)+[a-zA-Z\u0080-\U0010ffff]{{2,63}}"
)
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_GO_DURATION: Final = re.compile(r"[-+]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
# Possessive, and only from the first digit on: a long number without a unit is read once.
_AMOUNT: Final = re.compile(r"(?<![0-9])[0-9]++\s*+([A-Za-zµ]+)", re.ASCII)
_UNITS: Final = ("ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk")
_UNIT_BEGINNINGS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_CARD: Final = re.compile(
    r"4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(0[0-5]|[68][0-9])[0-9]{11}|(2131|1800|35\d{3})\d{11}"
)
_BYTE: Final = "(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])"


def _matches(pattern: str, flags: re.RegexFlag = re.ASCII) -> Format:
    whole = re.compile(pattern, flags)
    return lambda text: whole.fullmatch(text) is not None


def _uuid(third: str, fourth: str) -> Format:
    return _matches(
        f"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}", re.IGNORECASE | re.ASCII
    )


def _hostname(text: str) -> bool:
    if _HOST.fullmatch(text) is None or len(text.encode()) > 255:
        return False
    return all(len(label.encode()) <= 63 for label in text.split("."))


def _ip(text: str) -> bool:
    """An address; numbers may begin with zeros, as they long could."""
    try:
        ipaddress.ip_address(re.sub(r"(?<![0-9a-fA-F:])0+(?=\d)", "", text) if "." in text else text)
    except ValueError:
        return False
    return "%" not in text


def _ipv4(text: str) -> bool:
    return "." in text and _ip(text)


def _ipv6(text: str) -> bool:
    return ":" in text and _ip(text)


def _cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    if not slash or not _ip(address) or not (length.isascii() and length.isdigit()):
        return False
    return int(length) <= (128 if ":" in address else 32)


def _email(text: str) -> bool:
    # parseaddr takes quadratic time, and calls itself at each bracket.
    if len(text) > _MOST_EMAIL or text.count("(") > _MOST_COMMENTS:
        return False
    name, address = parseaddr(text)
    local, at, domain = address.rpartition("@")
    if not (local and at and domain) or text.count("@") != 1 or ".." in address:
        return False
    if any(letter.isspace() for letter in address) or local[0] == "." or local[-1] == ".":
        return False
    return address == text.strip() or bool(name) or text.strip() == f"<{address}>"


def _uri(text: str) -> bool:
    """An absolute URI, or an absolute path, as in a request."""
    if not text or any(
        letter in string.whitespace or ord(letter) < 0x20 or letter == "\x7f" for letter in text
    ):
        return text.startswith("/") and not any(ord(letter) < 0x20 or letter == "\x7f" for letter in text)
    try:
        urlsplit(text).port  # noqa: B018 - reading it checks it
    except ValueError:
        return False
    if re.search(r"%(?![0-9a-fA-F]{2})", text.split("?")[0]):
        return False
    return text.startswith("/") or re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", text) is not None


def _date(text: str) -> bool:
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII) is None:
        return False
    try:
        # Year 0 is one to Go, and a leap year, as is 4.
        date.fromisoformat(text if text[:4] != "0000" else f"0004{text[4:]}")
    except ValueError:
        return False
    return True


def _date_time(text: str) -> bool:
    day, t, rest = text.lower().partition("t")
    moment = _TIME.fullmatch(rest.split("t")[0])
    return (
        bool(t)
        and _date(day)
        and moment is not None
        and moment[1] <= "23"
        and moment[2] <= "59"
        and moment[3] <= "59"
    )


def _duration(text: str) -> bool:
    if _GO_DURATION.fullmatch(text):
        return True
    units = [unit.lower() for unit in _AMOUNT.findall(text)]
    return any(unit in _UNITS or unit.startswith(_UNIT_BEGINNINGS) for unit in units)


def _card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text)
    if _CARD.fullmatch(digits) is None:
        return False
    doubled = [int(digit) * (1 + index % 2) for index, digit in enumerate(reversed(digits))]
    return sum(each - 9 if each > 9 else each for each in doubled) % 10 == 0


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\t\n\f\r -]+", "", text)
    if re.fullmatch("[0-9]{9}[0-9X]", digits) is None:
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum((index + 1) * value for index, value in enumerate(values)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\t\n\f\r -]+", "", text)
    if re.fullmatch("[0-9]{13}", digits) is None:
        return False
    return sum(int(digit) * (1, 3)[index % 2] for index, digit in enumerate(digits)) % 10 == 0


def _short_name(text: str) -> bool:
    return len(text) <= 63 and re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", text) is not None


def _long_name(text: str) -> bool:
    label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    return len(text) <= 253 and re.fullmatch(rf"{label}(\.{label})*", text) is not None


_HEX2: Final = "(?:[0-9a-fA-F]{2})"
_HEX4: Final = "[0-9a-f]{4}"
FORMATS: Final[dict[str, Format]] = {
    "bsonobjectid": _matches("[0-9a-fA-F]{24}"),
    "byte": _matches("([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "cidr": _cidr,
    "creditcard": _card,
    "date": _date,
    "datetime": _date_time,
    "duration": _duration,
    "email": _email,
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "k8slongname": _long_name,
    "k8sshortname": _short_name,
    "mac": _matches(rf"({_HEX2}([:-]))({_HEX2}\2){{4}}({_HEX2}\2{_HEX2}\2)?{_HEX2}"
                    rf"|({_HEX2}{{2}}\.){{2}}({_HEX2}{{2}}\.)?{_HEX2}{{2}}"),
    "password": lambda _: True,
    "rgbcolor": _matches(rf"rgb\(\s*{_BYTE}\s*,\s*{_BYTE}\s*,\s*{_BYTE}\s*\)"),
    "ssn": _matches("[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}"),
    "uri": _uri,
    "uuid": _uuid(_HEX4, _HEX4),
    "uuid3": _uuid("3[0-9a-f]{3}", _HEX4),
    "uuid4": _uuid("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
    "uuid5": _uuid("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
}  # fmt: skip
_OF_NUMBERS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


def known(schema_types: tuple[str, ...], name: str) -> str:
    """A format that the server heeds, or an empty string: it ignores the others."""
    only = schema_types[0] if len(schema_types) == 1 else ""
    if only in _OF_NUMBERS:
        return name if name in _OF_NUMBERS[only] else ""
    return name if only in ("", "string") and name.replace("-", "") in FORMATS else ""


def of_text(name: str) -> Format | None:
    """Return the check of a format by its name, None for one that is not heeded."""
    return _CHECKS.get(name.replace("-", ""))


def _bounded(check: Format) -> Format:
    return lambda text: len(text) <= MOST_LETTERS and check(text)


_CHECKS: Final = {name: check if name in _LONG else _bounded(check) for name, check in FORMATS.items()}
