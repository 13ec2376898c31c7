"""Reads one YAML document into a tree."""

import re
from collections.abc import Callable
from typing import Any

from yaml.error import MarkedYAMLError
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from bireme.manifest import scalars
from bireme.manifest.builder import Builder, UnreadableError
from bireme.manifest.parsers import EventParser
from bireme.manifest.positions import Lines, SyntaxProblem, excerpt
from bireme.manifest.tree import Node
from bireme.manifest.yaml_errors import QUESTION_MARK_IN_FLOW, explain

_UNPRINTABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COMMENTS = re.compile(r"(?:\s|(?<=\s)#[^\r\n]*)*")
_BLOCK_STYLES = ("|", ">")
_PLAIN_STYLES = ("", None)
_MERGE_TAGS = (None, scalars.NON_SPECIFIC_TAG, scalars.MERGE_TAG)


def read_yaml(
    text: str, base: int, lines: Lines, parser: type[EventParser]
) -> tuple[Node | None, list[SyntaxProblem]]:
    """Read the document in a text that lies at offset ``base`` of the whole.

    The tree is None where there is no document, or none that can be read.
    """
    if found := _UNPRINTABLE.search(text):
        offset = found.start() + base
        message = f"the control character U+{ord(found[0]):04X} is not allowed"
        return None, [SyntaxProblem(lines.span(offset, offset + 1), message, None)]
    reader = _Reader(base, Builder(lines))
    try:
        reader.read(text, parser(text))
    except MarkedYAMLError as error:
        return None, [*reader.builder.problems, explain(error, text, base, lines)]
    except UnreadableError as unreadable:
        return None, [*reader.builder.problems, unreadable.problem]
    return reader.builder.root, reader.builder.problems


class _Reader:
    """Passes a parser's events on to a builder, with offsets into the whole text.

    Events are Any: their types say that a mark may be None, which none of these parsers' is.
    """

    def __init__(self, base: int, builder: Builder) -> None:
        self.builder = builder
        self._base = base
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            ScalarEvent: self._scalar,
            AliasEvent: self._alias,
            MappingStartEvent: self._open_map,
            SequenceStartEvent: self._open_list,
            MappingEndEvent: self._close,
            SequenceEndEvent: self._close,
        }

    def read(self, text: str, parser: EventParser) -> None:
        handlers, get_event = self._handlers, parser.get_event
        while (event := get_event()) is not None:
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event)
            elif type(event) is DocumentEndEvent and event.explicit:
                self._check_end(text, event)
                break
        self.builder.finish()

    def _check_end(self, text: str, event: Any) -> None:
        ignored = _COMMENTS.match(text, event.end_mark.index)
        if ignored and ignored.end() < len(text):
            start = ignored.end() + self._base
            message = "kubectl ignores what follows `...`"
            self.builder.report(start, start + 1, message, "separate documents with `---`")

    def _scalar(self, event: Any) -> None:
        builder, text, tag = self.builder, event.value, event.tag
        start, end = event.start_mark.index + self._base, event.end_mark.index + self._base
        special = tag is not None or (event.implicit[0] and _needs_second_look(text))
        if builder.expects_key:
            if special:
                self._special_key(event, start, end)
            else:
                builder.key(text, start, end, event.anchor)
            return
        value = self._special_value(event, start, end) if special else text
        if event.style in _BLOCK_STYLES:
            end = start + len(builder.lines.text[start:end].rstrip())
        builder.scalar(value, start, end, event.anchor)

    def _special_value(self, event: Any, start: int, end: int) -> scalars.Scalar:
        try:
            return scalars.json_value(self._resolve(event, start, end))
        except scalars.ScalarError as problem:
            self.builder.report(start, end, problem.message, problem.hint)
            return str(event.value)

    def _special_key(self, event: Any, start: int, end: int) -> None:
        if event.value == "<<" and event.tag in _MERGE_TAGS:
            self.builder.merge_key(start, end)
            return
        key: scalars.Scalar = event.value
        try:
            key = self._resolve(event, start, end)
        except scalars.ScalarError as problem:
            self.builder.report(start, end, problem.message, problem.hint)
        self.builder.key(key, start, end, event.anchor)

    def _resolve(self, event: Any, start: int, end: int) -> scalars.Scalar:
        if event.tag is not None:
            self._check_tag(event.tag, start, end)
        if self.builder.in_flow and event.style in _PLAIN_STYLES and "?" in event.value[1:]:
            mark = self.builder.lines.text.index("?", start + 1)
            raise self.builder.refusal(mark, mark + 1, *QUESTION_MARK_IN_FLOW)
        return scalars.resolve(event.value, event.tag)

    def _alias(self, event: Any) -> None:
        start, end = event.start_mark.index + self._base, event.end_mark.index + self._base
        self.builder.alias(event.anchor, start, end)

    def _open_map(self, event: Any) -> None:
        start, end = self._opened(event)
        self.builder.open_map(start, end, bool(event.flow_style), event.anchor)

    def _open_list(self, event: Any) -> None:
        start, end = self._opened(event)
        self.builder.open_list(start, end, bool(event.flow_style), event.anchor)

    def _opened(self, event: Any) -> tuple[int, int]:
        start, end = event.start_mark.index + self._base, event.end_mark.index + self._base
        if event.tag is not None:
            self._check_tag(event.tag, start, end)
        return start, end

    def _close(self, event: Any) -> None:
        self.builder.close(event.end_mark.index + self._base)

    def _check_tag(self, tag: str, start: int, end: int) -> None:
        if tag in scalars.KNOWN_TAGS:
            return
        shown = excerpt(tag.replace(scalars.TAG_PREFIX, "!!", 1))
        self.builder.report(start, end, f"unknown tag {shown}", "kubectl ignores it; remove the tag")


def _needs_second_look(plain: str) -> bool:
    """Most plain scalars are just text."""
    return plain in scalars.WORDS or plain[0] in scalars.NUMBER_START or "?" in plain or plain == "<<"
