"""Reads a file's text into documents, as kubectl would split and understand it."""

import re
from collections.abc import Iterator, Sequence

from bireme.manifest.builder import Builder, UnreadableError
from bireme.manifest.document import Document, Manifest
from bireme.manifest.json_text import NotJsonError, read_json, skip_space
from bireme.manifest.parsers import DEFAULT_PARSER, EventParser
from bireme.manifest.positions import BOM, Lines, SyntaxProblem, excerpt
from bireme.manifest.tree import Node
from bireme.manifest.yaml_text import read_yaml

_SEPARATOR_HERE = re.compile(r"---([^\n]*)\n?")
_SEPARATOR = re.compile(r"^---([^\n]*)\n?", re.MULTILINE)
_HEADER = re.compile(r"(?:[ \t\r]*(?:#[^\n]*)?\n|%[^\n]*\n?)*")
_DIRECTIVE = re.compile(r"^%[^\r\n]*", re.MULTILINE)
_LOOKS_LIKE_JSON = re.compile(r"\{\s*(?:[\"}]|\Z)")
_ENCODINGS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


def read(source: bytes | str, *, parser: type[EventParser] = DEFAULT_PARSER) -> Manifest:
    """Read every document of a file. Never raises on bad input: it reports problems instead.

    A document that cannot be read is left out, and those before and after it are returned. The
    text keeps its byte order mark and line breaks, so that edits leave them alone. Bytes that
    are not UTF-8, or UTF-16 with its mark, are a problem; the text then has U+FFFD for them.
    """
    text, problems = (source, ()) if isinstance(source, str) else _decode(source)
    reading = _Reading(text, parser)
    reading.read()
    problems = sorted([*problems, *reading.problems], key=lambda problem: problem.span.start)
    return Manifest(text, tuple(reading.documents), tuple(problems))


def _decode(source: bytes) -> tuple[str, Sequence[SyntaxProblem]]:
    encoding = _ENCODINGS.get(source[:2], "utf-8")
    try:
        return source.decode(encoding), ()
    except UnicodeDecodeError as error:
        text = source.decode(encoding, "replace")
        offset = len(source[: error.start].decode(encoding, "replace"))
        lines = Lines(text)
        name = encoding[:-3].upper() if encoding != "utf-8" else "UTF-8"
        message = f"invalid {name} at byte {error.start} (line {lines.line(offset)})"
        return text, [SyntaxProblem(lines.span(offset, offset + 1), message, "save the file as UTF-8")]


class _Reading:
    def __init__(self, text: str, parser: type[EventParser]) -> None:
        self.text = text
        self.documents: list[Document] = []
        self.problems: list[SyntaxProblem] = []
        self._lines = Lines(text)
        self._parser = parser
        self._not_json: SyntaxProblem | None = None

    def read(self) -> None:
        begin = 1 if self.text.startswith(BOM) else 0
        for start, end in self._chunks(self._read_json(begin)):
            self._read_chunk(start, end)
            self._not_json = None

    def _read_json(self, begin: int) -> int:
        """Read JSON values while there are any; return where YAML begins.

        kubectl takes a file for JSON when it starts with a brace, and gives up on that while no
        more than one value has been read.
        """
        offset = skip_space(self.text, begin)
        if not self.text.startswith("{", offset):
            return begin
        read = 0
        while offset < len(self.text):
            builder = Builder(self._lines)
            try:
                end = read_json(self.text, offset, builder)
            except NotJsonError as problem:
                if read <= 1:
                    self._not_json = self._json_problem(problem, offset)
                    return offset
                self.problems.append(self._located(problem))
                break
            except UnreadableError as unreadable:
                self.problems.append(unreadable.problem)
                break
            self._add(builder.root, builder.problems)
            read += 1
            offset = skip_space(self.text, end)
        return len(self.text)

    def _json_problem(self, problem: NotJsonError, offset: int) -> SyntaxProblem | None:
        """The problem to report if the text is not YAML either."""
        return self._located(problem) if _LOOKS_LIKE_JSON.match(self.text, offset) else None

    def _located(self, problem: NotJsonError) -> SyntaxProblem:
        opened = problem.opened
        if opened is not None and not self.text[problem.offset :].strip():
            return SyntaxProblem(
                self._lines.span(opened, opened + 1), f"`{self.text[opened]}` is never closed", None
            )
        related = None if opened is None else self._lines.span(opened, opened + 1)
        end = min(problem.offset + 1, len(self.text))
        return SyntaxProblem(self._lines.span(problem.offset, end), problem.message, None, related)

    def _chunks(self, begin: int) -> Iterator[tuple[int, int]]:
        """Split at lines that start with ``---``, as kubectl does before it looks at any YAML."""
        start, readable = begin, True
        for separator in self._separators(begin):
            if readable:
                yield start, separator.start()
            readable = self._check_separator(separator)
            start = separator.end()
        if readable:
            yield start, len(self.text)

    def _separators(self, begin: int) -> Iterator[re.Match[str]]:
        # `^` does not match at `begin` when a byte order mark or JSON comes before it.
        if first := _SEPARATOR_HERE.match(self.text, begin):
            yield first
            begin = first.end()
        yield from _SEPARATOR.finditer(self.text, begin)

    def _check_separator(self, separator: re.Match[str]) -> bool:
        rest = separator[1].strip()
        if not rest or rest.startswith("#"):
            return True
        start = separator.start(1)
        span = self._lines.span(start, start + len(separator[1].rstrip()))
        message = "kubectl allows only a comment after `---`"
        self.problems.append(SyntaxProblem(span, message, "move the text to the next line"))
        return False

    def _read_chunk(self, start: int, end: int) -> None:
        if self.text.startswith(BOM, start):
            start += 1
        body = self._without_directives(self.text[start:end], start)
        if not body or body.isspace():
            return
        root, problems = read_yaml(body, start, self._lines, self._parser)
        if root is None and problems and self._not_json:
            problems = [self._not_json]
        self._add(root, problems)

    def _without_directives(self, body: str, start: int) -> str:
        """Blank the directives out: kubectl reads them without the document they belong to."""
        header = _HEADER.match(body)
        found = _DIRECTIVE.search(header[0]) if header else None
        if not header or not found:
            return body
        span = self._lines.span(start + found.start(), start + found.end())
        message = f"kubectl cannot read a file with the directive {excerpt(found[0].split()[0])}"
        self.problems.append(SyntaxProblem(span, message, "remove this line"))
        return _DIRECTIVE.sub(lambda line: " " * len(line[0]), header[0]) + body[header.end() :]

    def _add(self, root: Node | None, problems: list[SyntaxProblem]) -> None:
        self.problems += problems
        if root is not None and root.value is not None:
            self.documents.append(Document(len(self.documents), root, self._lines))
