"""The two YAML parsers: libyaml where PyYAML was built with it, else PyYAML's own in Python."""

from typing import Any, Protocol

from yaml.events import Event
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner, ScannerError

_BREAKS = "\r\n\x85\u2028\u2029"


class EventParser(Protocol):
    """A parser of one text. get_event returns None after the end and raises MarkedYAMLError."""

    def __init__(self, text: str) -> None: ...

    def get_event(self) -> Event | None: ...


class PurePythonParser(Reader, Scanner, Parser):
    """PyYAML's parser in Python, with libyaml's rules for tabs and escapes, which are kubectl's."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)

    def get_event(self) -> Event | None:
        event: Event | None = Parser.get_event(self)  # type: ignore[no-untyped-call]  # as PyYAML's all
        return event

    def scan_to_next_token(self) -> None:
        """Skip tabs too, except where they would indent a block."""
        while True:
            while self.peek() == " " or (self.peek() == "\t" and self._tab_separates()):
                self.forward()
            if self.peek() == "#":
                while self.peek() not in "\0" + _BREAKS:
                    self.forward()
            if not self._line_break():
                return
            if not self.flow_level:
                self.allow_simple_key = True

    def scan_plain_spaces(self, indent: Any, start_mark: Any) -> list[Any] | None:  # noqa: ARG002
        """Take tabs for spaces, except where they would indent the next line."""
        spaces = self._blanks(indent=0)
        if self.peek() not in _BREAKS:
            return [spaces] if spaces else []
        first = self._line_break()
        self.allow_simple_key = True
        more: list[str] = []
        while not self._at_document_mark():
            self._blanks(indent)
            if self.peek() not in _BREAKS:
                return ([first] if first != "\n" else [] if more else [" "]) + more
            more.append(self._line_break())
        return None

    def scan_flow_scalar_non_spaces(self, double: Any, start_mark: Any) -> list[Any]:
        """Refuse escapes that are not characters; Python would make lone surrogates of them."""
        try:
            chunks = Scanner.scan_flow_scalar_non_spaces(self, double, start_mark)
        except (ValueError, OverflowError):
            chunks = ["\ud800"]
        if any("\ud800" <= character <= "\udfff" for chunk in chunks for character in chunk):
            problem = "found invalid Unicode character escape code"
            raise ScannerError("while parsing a quoted scalar", start_mark, problem, self.get_mark())
        return chunks

    def _line_break(self) -> str:
        return str(self.scan_line_break())  # type: ignore[no-untyped-call]

    def _blanks(self, indent: int) -> str:
        """Skip spaces, and tabs that are not before the indentation."""
        length = 0
        while self.peek(length) == " " or (self.peek(length) == "\t" and self.column + length >= indent):
            length += 1
        skipped = str(self.prefix(length))
        self.forward(length)
        return skipped

    def _at_document_mark(self) -> bool:
        return self.prefix(3) in ("---", "...") and self.peek(3) in "\0 \t" + _BREAKS

    def _tab_separates(self) -> bool:
        return bool(self.flow_level) or not self.allow_simple_key


def _default_parser() -> type[EventParser]:
    try:
        from yaml import _yaml
    except ImportError:  # PyYAML was built without libyaml
        return PurePythonParser
    return _yaml.CParser


DEFAULT_PARSER = _default_parser()
