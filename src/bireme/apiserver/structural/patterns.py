"""Regular expressions of Go (RE2), as Python's `re` takes them.

What is written differently is translated: `$` and `\\z` (the very end), `\\s`, POSIX classes, `\\Q…\\E`,
`\\x{…}`, flags in the middle, `(?<name>…)`, braces that are no counts. Unicode categories such as `\\p{Lu}`
are spelled out. Scripts such as `\\p{Greek}` can't be: `compiled` gives None for such a pattern,
and it is not checked.
"""

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Final

_POSIX: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_NOT_POSIX: Final = {
    "alnum": r"\x00-/:-@\[-`{-\U0010ffff", "alpha": r"\x00-@\[-`{-\U0010ffff", "ascii": r"\x80-\U0010ffff",
    "digit": r"\x00-/:-\U0010ffff", "lower": r"\x00-`{-\U0010ffff", "upper": r"\x00-@\[-\U0010ffff",
    "space": r"\x00-\x08\x0e-\x1f!-\U0010ffff", "word": r"\x00-/:-@\[-\^`{-\U0010ffff",
}  # fmt: skip
_SPACE: Final = r"\t\n\f\r "
_NO_SPACE: Final = r"\x00-\x08\x0b\x0e-\x1f!-\U0010ffff"
_COUNT: Final = re.compile(r"\{\d+(,\d*)?\}")
_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_HEX: Final = re.compile(r"\\x\{([0-9A-Fa-f]+)\}")
_CATEGORY: Final = re.compile(r"\\([pP])(?:\{(\^?)([A-Za-z_]+)\}|([A-Z]))")
_CLASS: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_BEYOND: Final = re.compile(r"\(\?(?!P?<[A-Za-z_]|[imsU-]*[:)])|[*+?}][*+]|\\[1-9ZGXKRk]")


class _UnknownError(Exception):
    """Python can't say it."""


@lru_cache(1024)
def compiled(pattern: str) -> re.Pattern[str] | None:
    """A pattern to `search` with; None where it is one that only Go understands."""
    try:
        return re.compile(_Translation(pattern).text(), re.ASCII)
    except (_UnknownError, re.error, RecursionError, OverflowError):
        return None


def problem(pattern: str) -> str:
    """Why a pattern is none to Go; empty if it is one, or seems to be."""
    unescaped = re.sub(r"\\\\|\\Q.*?(\\E|$)", "", pattern)
    beyond = _BEYOND.search(re.sub(r"\[\^?\]?(\\.|\[:\^?\w+:\]|[^\]\\])*\]", "x", unescaped))
    if beyond is not None:
        return f"error parsing regexp: invalid or unsupported Perl syntax: `{beyond[0]}`"
    try:
        re.compile(_Translation(pattern).text(), re.ASCII)
    except _UnknownError:
        return ""
    except (re.error, OverflowError) as error:
        return f"error parsing regexp: {error}"
    return ""


class _Translation:
    """One pass over a pattern. Flags become groups, closed where theirs closes and before each `|`."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._opened: list[list[str]] = [[]]
        self._multiline = [False]

    def text(self) -> str:
        return "".join(self._pieces()) + ")" * len(self._opened[0])

    def _pieces(self) -> Iterator[str]:
        while self._at < len(self._pattern):
            yield self._piece(self._pattern[self._at])

    def _piece(self, letter: str) -> str:
        match letter:
            case "\\":
                return self._escape(in_class=False)
            case "[":
                return self._class()
            case "(":
                return self._group()
            case ")":
                return self._close()
            case "|":
                self._at += 1
                flags = self._opened[-1]
                return ")" * len(flags) + "|" + "".join(f"(?{each}:" for each in flags)
            case "$":
                self._at += 1
                return r"(?=\n|\Z)" if self._multiline[-1] else r"\Z"
            case "{" if not _COUNT.match(self._pattern, self._at):
                letter = r"\{"
        self._at += 1
        return letter

    def _group(self) -> str:
        flags = _FLAGS.match(self._pattern, self._at)
        if flags is None:
            return self._open()
        self._at = flags.end()
        text = _python_flags(flags[1], flags[2] or "")
        multiline = "m" in flags[1] or (self._multiline[-1] and "m" not in (flags[2] or ""))
        if flags[3] == ":":
            self._opened.append([])
            self._multiline.append(multiline)
            return f"(?{text}:"
        self._multiline[-1] = multiline
        if text:
            self._opened[-1].append(text)
        return f"(?{text}:" if text else ""

    def _open(self) -> str:
        self._opened.append([])
        self._multiline.append(self._multiline[-1])
        named = self._pattern.startswith("(?<", self._at)
        self._at += 3 if named else 1
        return "(?P<" if named else "("

    def _close(self) -> str:
        self._at += 1
        if len(self._opened) == 1:
            return ")"
        self._multiline.pop()
        return ")" * len(self._opened.pop()) + ")"

    def _class(self) -> str:
        start = self._at + 1
        self._at = start + self._pattern.startswith("^", start)
        text = self._pattern[start - 1 : self._at]
        first = True
        while first or not self._pattern.startswith("]", self._at):
            if self._at >= len(self._pattern):
                raise re.error("missing closing ]")
            text += self._in_class()
            first = False
        self._at += 1
        return text + "]"

    def _in_class(self) -> str:
        named = _CLASS.match(self._pattern, self._at)
        if named is not None:
            self._at = named.end()
            return _posix(named[2], negated=bool(named[1]))
        letter = self._pattern[self._at]
        if letter == "\\":
            return self._escape(in_class=True)
        self._at += 1
        return f"\\{letter}" if letter in "[]&~|" else letter

    def _escape(self, *, in_class: bool) -> str:
        pattern, at = self._pattern, self._at
        if category := _CATEGORY.match(pattern, at):
            self._at = category.end()
            negated = (category[1] == "P") != bool(category[2])
            ranges = _category(category[3] or category[4], negated)
            return ranges if in_class else f"[{ranges}]"
        if code := _HEX.match(pattern, at):
            self._at = code.end()
            return f"\\U{int(code[1], 16):08x}"
        letter = pattern[at + 1 : at + 2]
        if letter == "Q" and not in_class:
            quoted, _, _ = pattern[at + 2 :].partition(r"\E")
            self._at = at + 2 + len(quoted) + 2
            return re.escape(quoted)
        self._at = at + 2
        return _letter(letter, in_class=in_class)


def _letter(letter: str, *, in_class: bool) -> str:
    if letter in ("s", "S"):
        ranges = _SPACE if letter == "s" else _NO_SPACE
        return ranges if in_class else f"[{ranges}]"
    return r"\Z" if letter == "z" else f"\\{letter}"


def _python_flags(on: str, off: str) -> str:
    """Flags of a group. How greedy a match is does not change whether there is one."""
    on, off = on.replace("U", ""), off.replace("U", "")
    return on + (f"-{off}" if off else "")


def _posix(name: str, *, negated: bool) -> str:
    ranges = (_NOT_POSIX if negated else _POSIX).get(name)
    if ranges is None:
        raise _UnknownError
    return ranges


@cache
def _category(name: str, negated: bool) -> str:
    """The ranges of the letters of a general category, or of all categories that begin so."""
    if len(name) > 2 or name[0] not in "CLMNPSZ":
        raise _UnknownError
    ranges, start = [], -1
    for code in range(sys.maxunicode + 2):
        belongs = code <= sys.maxunicode and unicodedata.category(chr(code)).startswith(name) is not negated
        if belongs and start < 0:
            start = code
        elif not belongs and start >= 0:
            ranges.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = -1
    return "".join(ranges)
