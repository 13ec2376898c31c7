"""Reads JSON into a tree.

kubectl reads a file that starts with a brace as JSON. YAML readers take most of JSON but not all:
they refuse ``\\ud83d\\ude00`` and keys of more than 1,024 characters.
"""

import json
import math
import re

from bireme.manifest.builder import Builder
from bireme.manifest.scalars import json_value

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"([^"\\\x00-\x1f\ud800-\udfff]*(?:\\.[^"\\\x00-\x1f\ud800-\udfff]*)*)"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LITERAL = re.compile(r"true|false|null")
_LITERALS = {"true": True, "false": False, "null": None}
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_INTEGER = 20  # characters of an int64, and of the longest that Python should read as one
_CLOSING = {"{": "}", "[": "]"}


class NotJsonError(Exception):
    """The text is not JSON. ``opened`` is the offset of the innermost open bracket."""

    def __init__(self, offset: int, message: str, opened: int | None) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message
        self.opened = opened


def skip_space(text: str, offset: int) -> int:
    found = _SPACE.match(text, offset)
    return found.end() if found else offset


def read_json(text: str, offset: int, builder: Builder) -> int:
    """Give the builder the value that starts at the offset; return where it ends.

    Raises NotJsonError, and UnreadableError as the builder does.
    """
    return _Reader(text, offset, builder).read()


class _Reader:
    def __init__(self, text: str, offset: int, builder: Builder) -> None:
        self.text = text
        self.builder = builder
        self._at = offset
        self._open: list[int] = []

    def read(self) -> int:
        self._value()
        while self._open:
            self._at = skip_space(self.text, self._at)
            closing = _CLOSING[self.text[self._open[-1]]]
            if self._take(closing):
                self._close()
            elif self._take(","):
                self._next(closing)
            else:
                raise self._problem(f"expected `,` or `{closing}`")
        return self._at

    def _next(self, closing: str) -> None:
        if closing == "}":
            self._key()
        self._value()

    def _value(self) -> None:
        """Read a scalar, or open brackets down to the first scalar or empty pair."""
        while True:
            self._at = skip_space(self.text, self._at)
            character = self.text[self._at : self._at + 1]
            if character not in ("{", "["):
                self._scalar(character)
                return
            self._open_bracket(character)
            self._at = skip_space(self.text, self._at)
            if self._take(_CLOSING[character]):
                self._close()
                return
            if character == "{":
                self._key()

    def _open_bracket(self, character: str) -> None:
        start = self._at
        self._open.append(start)
        self._at += 1
        if character == "{":
            self.builder.open_map(start, self._at, flow=True)
        else:
            self.builder.open_list(start, self._at, flow=True)

    def _close(self) -> None:
        self._open.pop()
        self.builder.close(self._at)

    def _key(self) -> None:
        self._at = skip_space(self.text, self._at)
        start = self._at
        if not self.text.startswith('"', start):
            raise self._problem("expected a key in double quotes")
        key = self._string()
        self.builder.key(key, start, self._at)
        self._at = skip_space(self.text, self._at)
        if not self._take(":"):
            raise self._problem("expected `:` after the key")

    def _scalar(self, character: str) -> None:
        start = self._at
        if character == '"':
            text = self._string()
            self.builder.scalar(text, start, self._at)
        elif number := _NUMBER.match(self.text, start):
            self._number(number)
        elif literal := _LITERAL.match(self.text, start):
            self._at = literal.end()
            self.builder.scalar(_LITERALS[literal[0]], start, self._at)
        else:
            raise self._problem("expected a value")

    def _string(self) -> str:
        found = _STRING.match(self.text, self._at)
        if not found:
            raise self._problem("this string is not closed, or holds a control character")
        raw = found[1]
        if "\\" in raw:
            try:
                raw = _LONE_SURROGATE.sub("\ufffd", json.loads(found[0]))
            except ValueError:
                raise self._problem("unknown escape in this string") from None
        self._at = found.end()
        return raw

    def _number(self, found: re.Match[str]) -> None:
        start, self._at = found.span()
        whole = not found[1] and not found[2] and len(found[0]) <= _LONGEST_INTEGER
        value = int(found[0]) if whole else float(found[0])
        if math.isinf(value):
            self.builder.report(start, self._at, "this number is too large for JSON readers", None)
            self.builder.scalar(found[0], start, self._at)
        else:
            self.builder.scalar(json_value(value), start, self._at)

    def _take(self, character: str) -> bool:
        if self.text.startswith(character, self._at):
            self._at += 1
            return True
        return False

    def _problem(self, message: str) -> NotJsonError:
        return NotJsonError(self._at, message, self._open[-1] if self._open else None)
