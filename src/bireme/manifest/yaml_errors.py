"""Says in plain words what the YAML parsers complain about.

libyaml and PyYAML's own parser word their complaints differently; the rules below know both.
"""

import re
from dataclasses import dataclass
from typing import Any

from yaml.error import MarkedYAMLError

from bireme.manifest.positions import Lines, SyntaxProblem, excerpt


@dataclass(frozen=True)
class _Rule:
    """What to say when ``pattern`` occurs in "context: problem".

    ``at_context`` places the problem where the construct began, not where the parser gave up.
    """

    pattern: str
    message: str
    hint: str | None = None
    at_context: bool = False


_RULES = (
    _Rule("quoted scalar: found unexpected (end|document)", "this quote is never closed", at_context=True),
    _Rule(
        "could not find expected ':'",
        "expected `:` after this key",
        "an entry is written `key: value`",
        at_context=True,
    ),
    _Rule(
        "mapping values are not allowed|found unexpected ':'",
        "`:` is not allowed here",
        "check the indentation and the line above; quote the text if the colon is part of it",
    ),
    _Rule(
        "sequence entries are not allowed",
        "a list item is not allowed here",
        "start it on a line of its own",
    ),
    _Rule("mapping keys are not allowed", "`?` is not allowed here", "quote the text if it begins with `?`"),
    _Rule(
        "scanning an (alias|anchor)",
        "expected a name after `*` or `&`",
        "quote the text if it begins with that character",
        at_context=True,
    ),
    _Rule("scanning a block scalar", "unexpected text after `|` or `>`", "start the text on the next line"),
    _Rule("undefined tag handle", "unknown tag", "quote the text if it begins with `!`"),
    _Rule(
        "(scanning|parsing) a tag",
        "this is not a tag",
        "quote the text if it begins with `!`",
        at_context=True,
    ),
    _Rule("directive", "a line cannot begin with `%`", "quote the text", at_context=True),
    _Rule("<document start>", "unexpected text after the end of the document", "check its indentation"),
)
_ESCAPE_RULES = (
    _Rule("unknown escape", "unknown escape `{}`", "use single quotes, or double the backslash"),
    _Rule("hexdecimal|hexadecimal", "`{}` needs more hexadecimal digits"),
    _Rule("invalid Unicode character", "`{}` is not a character", "write the character itself"),
)
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{0,2}|u[0-9a-fA-F]{0,4}|U[0-9a-fA-F]{0,8}|[^\r\n]|$)")
_BROKEN_BLOCK = re.compile("did not find expected (key|'-')|expected <block end>")
_BROKEN_FLOW = re.compile("',' or '([]}])'")
_VARIABLE = re.compile(r"\$\([\w.]*$")
_OPENING = {"]": "[", "}": "{"}


def explain(error: MarkedYAMLError, text: str, base: int, lines: Lines) -> SyntaxProblem:
    """Return the problem for a parser's error in a text that lies at offset ``base`` of the whole."""
    return _Complaint(error, text, base, lines).problem()


class _Complaint:
    def __init__(self, error: MarkedYAMLError, text: str, base: int, lines: Lines) -> None:
        self.words = f"{error.context or ''}: {error.problem or ''}"
        self.lines = lines
        self.end = base + len(text.rstrip())
        self.context = _offset(error.context_mark, base)
        place = _offset(error.problem_mark, base)
        self.place = min(place if place is not None else self.context or base, base + len(text))

    def problem(self) -> SyntaxProblem:
        if self._character() == "\t":
            return self._tab()
        if flow := _BROKEN_FLOW.search(self.words):
            return self._broken_flow(flow[1])
        if _BROKEN_BLOCK.search(self.words):
            return self._broken_block()
        if "cannot start any token" in self.words:
            return self._at(
                self.place, f"{excerpt(self._character())} cannot start a value", "put it in quotes"
            )
        if "node content" in self.words:
            return self._missing_value()
        return self._escape() or self._by_rule()

    def _tab(self) -> SyntaxProblem:
        before = self.lines.text[self.lines.line_start(self.place) : self.place]
        if before.strip():
            return self._at(self.place, "a tab is not allowed here", "use spaces")
        return self._at(self.place, "a tab in the indentation", "YAML is indented with spaces only")

    def _broken_flow(self, closing: str) -> SyntaxProblem:
        opening = _OPENING[closing]
        assert self.context is not None
        if self.place >= self.end:
            return self._at(self.context, f"`{opening}` is never closed")
        if self._character() == "?":
            return self._at(self.place, *QUESTION_MARK_IN_FLOW)
        before = self.lines.text[self.lines.line_start(self.place) : self.place]
        if self._character() == "[" and _VARIABLE.search(before):
            hint = "put the variable in quotes: a `[` begins a list here"
            return self._at(self.place, f"expected `,` or `{closing}`", hint, related=self.context)
        hint = f"the `{opening}` of line {self.lines.line(self.context)} is not closed before this"
        return self._at(self.place, f"expected `,` or `{closing}`", hint, related=self.context)

    def _broken_block(self) -> SyntaxProblem:
        before = self.lines.text[self.lines.line_start(self.place) : self.place]
        if before.strip(" -"):
            return self._at(self.place, "unexpected text after the value", "quote the whole value")
        message = "this line does not fit the block it is in"
        return self._at(self.place, message, "indent it like the lines it belongs to", related=self.context)

    def _missing_value(self) -> SyntaxProblem:
        if self.lines.text.startswith("...", self.place):
            return self._at(self.place, "`...` without a document before it", "remove it")
        character = self._character()
        return self._at(
            self.place, f"unexpected {excerpt(character)}" if character.strip() else "a value is missing"
        )

    def _escape(self) -> SyntaxProblem | None:
        for rule in _ESCAPE_RULES:
            if re.search(rule.pattern, self.words):
                start = max(self.lines.text.rfind("\\", 0, self.place + 1), 0)
                found = _ESCAPE.match(self.lines.text, start)
                return self._at(start, rule.message.format(found[0] if found else "\\"), rule.hint)
        return None

    def _by_rule(self) -> SyntaxProblem:
        for rule in _RULES:
            if re.search(rule.pattern, self.words):
                place = self.context if rule.at_context and self.context is not None else self.place
                return self._at(place, rule.message, rule.hint)
        return self._at(self.place, self.words.strip(": "))

    def _at(
        self, start: int, message: str, hint: str | None = None, related: int | None = None
    ) -> SyntaxProblem:
        other = None if related is None else self.lines.span(related, related)
        return SyntaxProblem(self.lines.span(start, self._past(start)), message, hint, other)

    def _past(self, start: int) -> int:
        """The offset after the character at start, which is start itself at the end of a line."""
        return start + 1 if self.lines.text[start : start + 1] not in ("", "\r", "\n") else start

    def _character(self) -> str:
        return self.lines.text[self.place : self.place + 1]


def _offset(mark: Any, base: int) -> int | None:
    return None if mark is None else int(mark.index) + base


# libyaml takes a question mark inside an unquoted text in brackets; kubectl does not.
QUESTION_MARK_IN_FLOW = ("`?` is not allowed in unquoted text inside brackets", "put the text in quotes")
