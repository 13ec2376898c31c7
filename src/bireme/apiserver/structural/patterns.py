"""Regular expressions of CRDs, in RE2's syntax, as Go's `regexp` has it and a kube-apiserver takes it.

A CRD may come from anybody, and its patterns run in the daemon. RE2 matches in time linear in the text, where
Python's `re` needs exponential time for some patterns, such as `^(a+)+$`. Linear may still be long: a text of
n bytes takes up to `size` × n steps of some 20 ns. So callers bound the sum of `cost` (MOST_STEPS), and the
sum of the sizes of a CRD's patterns (MOST_SIZE), which bounds the time to compile them.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import re2

MOST_STEPS: Final = 100_000_000
"""For all patterns of one object; 2 s at worst."""
MOST_DEFAULT_STEPS: Final = 1_000_000
"""For the patterns of one default in a CRD."""
MOST_SIZE: Final = 100_000
"""For all patterns of one CRD; those of common CRDs add up to some thousands."""
_REFUSED_SIZE: Final = 20_000
"""What a pattern counts that is too large to be compiled."""
_MOST_MEMORY: Final = 1 << 20
_ESCAPED_C: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")
_GO_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "pattern too large - compile failed": "expression too large",
}


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_regex", "size")

    def __init__(self, text: str) -> None:
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _MOST_MEMORY
        self._regex = re2.compile(text.encode("utf-8", "surrogatepass"), options)
        self.size: int = self._regex.programsize

    def cost(self, text: str) -> int:
        """How many steps `search` takes at most."""
        return self.size * len(text)

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in a text."""
        return self._regex.search(text.encode("utf-8", "replace")) is not None


@lru_cache(1024)
def compiled(pattern: str) -> Pattern | None:
    """Return a pattern to search with; None if it is none, which `problem` explains."""
    try:
        return Pattern(pattern)
    except re2.error:
        return None


@lru_cache(1024)
def problem(pattern: str) -> str:
    """Return why a pattern is none, in Go's words; empty if it is one."""
    if _ESCAPED_C.search(pattern):
        return "error parsing regexp: invalid escape sequence: `\\C`"
    try:
        Pattern(pattern)
    except re2.error as error:
        told = error.args[0].decode(errors="replace") if error.args else ""
        code, colon, place = told.partition(": ")
        where = f": `{place}`" if colon else ""
        return f"error parsing regexp: {_GO_WORDS.get(code, code)}{where}"
    return ""


def is_too_large(patterns: Iterable[str]) -> bool:
    """Whether patterns exceed MOST_SIZE together; no more are compiled than that takes."""
    left = MOST_SIZE
    for pattern in dict.fromkeys(patterns):
        regex = compiled(pattern)
        left -= regex.size if regex else _REFUSED_SIZE if "too large" in problem(pattern) else len(pattern)
        if left < 0:
            return True
    return False
