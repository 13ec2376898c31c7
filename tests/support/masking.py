"""Make two servers' answers comparable: what is by chance gets a name instead of a value."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple


class Mask(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str


def _mask(pattern: str, replacement: str) -> Mask:
    return Mask(re.compile(pattern, re.MULTILINE), replacement)


_MONTHS: Final = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"

MASKS: Final = (
    _mask(r"^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ .*\n", ""),  # kubectl's own log
    _mask(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", "<uid>"),
    _mask(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| [+-]\d{4})", "<time>"),
    _mask(rf"\b\w{{3}}, \d\d (?:{_MONTHS}) \d{{4}} \d\d:\d\d:\d\d [+-]\d{{4}}", "<time>"),
    _mask(r'(resourceVersion"?: ?"?|Resource Version: +|resourceVersion=)\d+', r"\1<version>"),
    _mask(r"https://(?:127\.0\.0\.1|localhost|\[::1\]):\d+", "<server>"),
    _mask(r"(?<![\w.])(?:127\.0\.0\.1|localhost):\d+", "<server>"),
    _mask(r"\b10\.\d+\.\d+\.\d+\b *", "<ip> "),
    _mask(r"/\S*/(LIVE|MERGED)-\d+/", r"\1/"),  # temporary folders of `kubectl diff`
    _mask(r"kubectl-edit-\w*\.yaml", "kubectl-edit.yaml"),
    # An age: "5s", "3m20s", "2m" at the full minute and from ten on, "6y310d". Not "250m": that is a
    # quantity, and nothing here lives for an hour.
    _mask(r"(?<=[\s(])(?:\d{1,2}m(?:\d+s)?|\d+s|\d+y(?:\d+d)?)(?: +|(?=$|[\s)]))", "<age> "),
    _mask(r"\b(AGE|LAST SEEN) +", r"\1 "),  # as wide as the longest of them
    _mask(r"[ \t]+$", ""),
)


_MANAGERS: Final = re.compile(r"^( *)managedFields:\n((?:\1(?:- |  ).*\n)+)", re.MULTILINE)


def _sorted_managers(found: re.Match[str]) -> str:
    """A server puts them in the order of their times, in seconds: which of them are alike is chance."""
    entries = re.split(rf"^(?={found[1]}- )", found[2], flags=re.MULTILINE)
    return f"{found[1]}managedFields:\n{''.join(sorted(entries))}"


def mask(text: str) -> str:
    text = _MANAGERS.sub(_sorted_managers, text)
    for pattern, replacement in MASKS:
        text = pattern.sub(replacement, text)
    return text


def without(text: str, patterns: Sequence[str]) -> str:
    """Leave out what one of the patterns matches."""
    for pattern in patterns:
        text = re.sub(pattern, "", text)
    return text


def without_lines(text: str, patterns: Sequence[str]) -> str:
    """Leave out each line in which one of the patterns is found."""
    return "\n".join(line for line in text.split("\n") if not any(re.search(each, line) for each in patterns))
