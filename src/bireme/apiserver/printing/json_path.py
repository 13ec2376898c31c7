"""JSONPath as Kubernetes reads it, with its ways.

    .spec.replicas    .a['b\\.c'][0]    .a[-1]    .a[1:3]    .a[*].b    ..c    .a[?(@.type=="Ready")].status

An expression becomes a step from an object to the values that it means.
"""

import re
from collections.abc import Callable
from typing import Final

from bireme.apiserver.printing import steps
from bireme.apiserver.printing.steps import Step

_NAME: Final = r"((?:\\(?s:.)?|[^ \t\r\n.,\[\]$@{}\\])*)"
_COMPARISON: Final = re.compile(r"([^!<>=]+)([!<>=]+)(.+)")
_SLICE: Final = re.compile(r"(-?\d*)(?::(-?\d*))?(?::(-?\d*))?", re.ASCII)
_KEY: Final = re.compile(r"'([^']*)'")
_ESCAPE: Final = re.compile(
    r"""\\(?:([abfnrtv\\])|(["'])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([0-3][0-7]{2})|)"""
)
_LETTERS: Final = dict(zip("abfnrtv\\", "\a\b\f\n\r\t\v\\", strict=True))


class PathSyntaxError(ValueError):
    """An expression is no JSONPath."""


def parse(expression: str) -> Step:
    """Read an expression; raise PathSyntaxError.

    The step is to be taken from a list of one object, and raises NoWayError where the path can't be followed.
    """
    return steps.first_of([steps.chain(block) for block in _blocks(f"{{{expression}}}")])


def _blocks(source: str) -> list[list[Step]]:
    """The steps of each expression in braces."""
    blocks, at = [], 0
    while (opened := source.find("{", at)) >= 0:
        block, at = _block(source, opened + 1)
        blocks.append(block)
    return blocks


def _block(source: str, at: int) -> tuple[list[Step], int]:
    block: list[Step] = []
    while not source.startswith("}", at):
        taken, at = _token(source, at)
        if taken[:1] == block[-1:] == [steps.descend]:
            raise PathSyntaxError("invalid multiple recursive descent")
        block += taken
    return block, at + 1


def _token(source: str, at: int) -> tuple[list[Step], int]:
    for pattern, read in _TOKENS:
        if match := pattern.match(source, at):
            return read(match), match.end()
    raise PathSyntaxError(f"unrecognized at {source[at:]!r}")


def _skip(_: re.Match[str]) -> list[Step]:
    return []


def _descent(match: re.Match[str]) -> list[Step]:
    return [steps.descend] if match[1] is None else [steps.descend, *_field(match)]


def _field(match: re.Match[str]) -> list[Step]:
    return [steps.children if match[1] == "*" else steps.field(match[1].replace("\\", ""))]


def _filter(match: re.Match[str]) -> list[Step]:
    compared = _COMPARISON.fullmatch(match[1])
    if compared is None:
        return [steps.having(parse(match[1]))]
    left, sign, right = compared.groups()
    return [steps.comparing(parse(left), sign, parse(right))]


def _brackets(match: re.Match[str]) -> list[Step]:
    inside = match[1]
    if "," in inside:
        return [steps.union([parse(f"[{each.strip(' ')}]") for each in inside.split(",")])]
    if key := _KEY.fullmatch(inside):
        return [parse(f".{key[1]}")]
    return [_slice(":" if inside == "*" else inside)]


def _slice(inside: str) -> Step:
    match = _SLICE.fullmatch(inside)
    if match is None:
        raise PathSyntaxError(f"invalid array index {inside}")
    try:
        start, stop, stride = (int(each) if each else None for each in match.groups())
    except ValueError as error:
        raise PathSyntaxError(f"array index {inside} is not a number") from error
    if match[2] is None:
        return steps.index(start or 0)
    return steps.part(start or 0, stop, 1 if stride is None else stride)


def _quoted(match: re.Match[str]) -> list[Step]:
    return [steps.text(_ESCAPE.sub(lambda escape: _unescaped(escape, match[1]), match[2]))]


def _unescaped(escape: re.Match[str], quote: str) -> str:
    letter, quoted, *codes, octal = escape.groups()
    if letter:
        return _LETTERS[letter]
    if quoted == quote:
        return quote
    if code := next(filter(None, codes), None):
        return chr(int(code, 16))
    if octal:
        return chr(int(octal, 8))
    raise PathSyntaxError("invalid escape")


def _number(match: re.Match[str]) -> list[Step]:
    try:
        return [steps.literal(float(match[0]) if "." in match[0] else int(match[0]))]
    except ValueError as error:
        raise PathSyntaxError(f"cannot parse number {match[0]}") from error


def _word(match: re.Match[str]) -> list[Step]:
    known = {"true": steps.literal(True), "false": steps.literal(False)}
    return [known.get(match[0], steps.unknown_word)]


_TOKENS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], list[Step]]], ...]] = (
    (re.compile(r"[ @$]+"), _skip),
    (re.compile(rf"\.\.(?:(?=\w){_NAME})?"), _descent),
    (re.compile(rf"\.{_NAME}"), _field),
    # Only in the first quotes does a parenthesis not end a filter.
    (re.compile(r"""\[\?\(((?>[^"'\n)]*(?:(["'])[^\n]*?(?<!\\)\2[^\n)]*)?))\)\]"""), _filter),
    (re.compile(r"\[([^\]\n]*)\]"), _brackets),
    (re.compile(r"""(["'])([^\n]*?)(?<!\\)\1"""), _quoted),
    (re.compile(r"[+-][0-9.]*|[0-9][0-9.]*"), _number),
    (re.compile(r"\w[^ \t\r\n.,\[\]$@{}]*"), _word),
)
