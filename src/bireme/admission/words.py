"""How values and names are put into sentences."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

# A comparison costs up to a tenth of a millisecond.
_LONGEST_GUESS: Final = 64
_MOST_CANDIDATES: Final = 100
_MOST_WORDS: Final = 21


def describe(value: Any) -> str:
    """A value as it may stand in a message: short, and telling what type it is."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f'"{shorten(value, 60)}"'
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return shorten(str(value), 60)


def shorten(text: str, limit: int) -> str:
    """Cut a text in the middle of nowhere, and show that it was cut."""
    flat = text.replace("\n", "\\n")
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


def closest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `word` was most likely meant to be, if one is near enough."""
    if len(word) > _LONGEST_GUESS:
        return None
    by_folded: dict[str, str] = {}
    for candidate in islice(candidates, _MOST_CANDIDATES):
        by_folded.setdefault(_fold(candidate), candidate)
    if (exact := by_folded.get(_fold(word))) is not None:
        return exact
    # difflib is needed for mistakes only, and costs a few milliseconds to import.
    import difflib

    near = difflib.get_close_matches(_fold(word), by_folded, n=1, cutoff=0.8)
    return by_folded[near[0]] if near else None


def _fold(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def join(words: Iterable[str]) -> str:
    """`a, b or c`; `none` where there is nothing to choose from. Of many only the first.

    Words that are empty or were there before are left out.
    """
    *first, last = list(islice(dict.fromkeys(filter(None, words)), _MOST_WORDS)) or ["none"]
    if len(first) == _MOST_WORDS - 1:
        last = "others"
    return f"{', '.join(first)} or {last}" if first else last
