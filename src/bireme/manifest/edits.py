"""Text edits that change one thing and keep comments, order and style byte for byte.

Each maker returns None where an edit of the text is not safe: the value was reached through an
alias or a merge key, other places share it through an anchor, it is a block scalar, it spans
lines, or it has a tag.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bireme.api.paths import Path
from bireme.manifest import scalars
from bireme.manifest.document import Document, Spot
from bireme.manifest.tree import Branch, MapNode, Node, offsets

# Unquoted text that reads the same in a block, in brackets and as a key, if it is not a number
# or a word with a meaning.
_SAFE_PLAIN = re.compile(r"-{0,2}[A-Za-z_/][A-Za-z0-9_./=@+-]*")
_BREAK = re.compile("[\r\n\x85\u2028\u2029]")
_LINE_END = re.compile("\r\n|\r|\n")
_NOT_A_SCALAR = frozenset("&!*|>[{")
_BLOCK_ITEM = re.compile(r"(?P<before> *(?:[-?:] +)*)-(?P<gap> +)")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
# YAML readers take a key without `?` only up to 1,024 characters.
_LONGEST_KEY = 1000


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace ``text[start:end]``."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with all edits made; their offsets are those of the text as it was.

    Edits at one offset are made in the order given. Raises ValueError when two overlap or one
    reaches beyond the text.
    """
    pieces: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < done or edit.end < edit.start or edit.end > len(text):
            raise ValueError(f"the edit of {edit.start}:{edit.end} overlaps another or leaves the text")
        pieces += text[done : edit.start], edit.text
        done = edit.end
    return "".join(pieces) + text[done:]


def rename_key(doc: Document, path: Path, new: str) -> Edit | None:
    """Rename the key that the path ends with, in the quotes it has. None if the name is taken."""
    spot = doc.locate(path)
    if spot is None or spot.key is None or not spot.written:
        return None
    if isinstance(spot.parent, MapNode) and new in spot.parent.children:
        return None
    start, end = offsets(spot.key)
    source = doc.lines.text[start:end]
    written = _write(new, like=source)
    if not _is_one_scalar(source) or written is None or len(written) > _LONGEST_KEY:
        return None
    return Edit(start, end, written)


def replace_scalar(doc: Document, path: Path, yaml_text: str) -> Edit | None:
    """Put ``yaml_text`` in the place of a scalar, or of an empty value behind its key or dash."""
    spot = doc.locate(path)
    if spot is None or not spot.written or not _is_leaf(spot):
        return None
    start, end = offsets(spot.place)
    if start == end:
        gap = "" if doc.lines.text[start - 1 : start].isspace() else " "
        return Edit(start, end, gap + yaml_text) if _follows_indicator(doc, spot, start) else None
    return Edit(start, end, yaml_text) if _is_one_scalar(doc.lines.text[start:end]) else None


def quote_scalar(doc: Document, path: Path) -> Edit | None:
    """Make a plain scalar the string of its very text: ``yes`` becomes ``"yes"``."""
    found = _scalar(doc, path)
    if found is None or found.source[0] in "\"'":
        return None
    return Edit(found.start, found.end, _quote(found.source))


def split_item(doc: Document, path: Path, parts: Sequence[str]) -> Edit | None:
    """Put several strings in the place of one scalar list item, in the quotes it has."""
    found = _scalar(doc, path)
    if found is None or not parts or not isinstance(path[-1], int) or found.parent is None:
        return None
    written = [text for part in parts if (text := _write(part, like=found.source)) is not None]
    joint = ", " if found.parent.flow else _item_joint(doc, found.start)
    if joint is None or len(written) < len(parts):
        return None
    return Edit(found.start, found.end, joint.join(written))


def wrap_scalar(doc: Document, path: Path, key: str) -> Edit | None:
    """Put a scalar into a mapping with one key: ``OnFailure`` becomes ``{policy: OnFailure}``."""
    found = _scalar(doc, path)
    if found is None:
        return None
    source = found.source
    name = _write(key, like=found.key_source)
    if name is None:
        return None
    if source[0] not in "\"'" and isinstance(scalars.resolve(source), str) and not _reads_as_itself(source):
        source = _quote(source)
    return Edit(found.start, found.end, f"{{{name}: {source}}}")


@dataclass(frozen=True, slots=True)
class _Scalar:
    """A scalar that is written on one line, and nowhere else. ``source`` is never empty."""

    start: int
    end: int
    source: str
    key_source: str
    parent: Branch | None


def _scalar(doc: Document, path: Path) -> _Scalar | None:
    spot = doc.locate(path)
    if spot is None or not spot.written or not _is_leaf(spot):
        return None
    start, end = offsets(spot.place)
    source = doc.lines.text[start:end]
    if not _is_one_scalar(source):
        return None
    key_start, key_end = offsets(spot.key or 0)
    return _Scalar(start, end, source, doc.lines.text[key_start:key_end], spot.parent)


def _is_leaf(spot: Spot) -> bool:
    return isinstance(spot.child, int) or type(spot.child) is Node


def _is_one_scalar(source: str) -> bool:
    return bool(source) and source[0] not in _NOT_A_SCALAR and not _BREAK.search(source)


def _follows_indicator(doc: Document, spot: Spot, start: int) -> bool:
    text = doc.lines.text
    if spot.key is not None:
        return text[offsets(spot.key)[1] : start].strip() == ":"
    return spot.parent is not None and not spot.parent.flow and text[start - 1 : start] == "-"


def _item_joint(doc: Document, start: int) -> str | None:
    """Return what stands between two items of a block list: a line break, indentation, a dash."""
    text = doc.lines.text
    line_start = doc.lines.line_start(start)
    found = _BLOCK_ITEM.fullmatch(text, line_start, start)
    if not found:
        return None
    line_end = _LINE_END.search(text, start) or _LINE_END.search(text)
    return f"{line_end[0] if line_end else chr(10)}{' ' * len(found['before'])}-{found['gap']}"


def _write(value: str, like: str) -> str | None:
    """Write a string, in the quotes that ``like`` has or without any where that is safe."""
    if like.startswith("'") and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    if not like.startswith(('"', "'")) and _reads_as_itself(value):
        return value
    if any("\ud800" <= character <= "\udfff" for character in value):
        return None
    return '"' + "".join(_escape(character) for character in value) + '"'


def _reads_as_itself(text: str) -> bool:
    return _SAFE_PLAIN.fullmatch(text) is not None and isinstance(scalars.resolve(text), str)


def _quote(source: str) -> str:
    if '"' in source or "\\" in source:
        return "'" + source.replace("'", "''") + "'"
    return f'"{source}"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
