"""Reads the ranks that mpirun has put before lines: `[1,3]<stdout>: loss 0.25` is a line of rank 3."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

# 5.0 writes a space behind the colon, 4.1 does not.
_TAG: Final = re.compile(rb"\[[0-9]+,([0-9]+)\]<(?:stdout|stderr)>: ?")


def split_ranks(lines: Iterable[bytes]) -> Iterator[tuple[int | None, list[bytes]]]:
    """Yield runs of lines without tags, each with its rank, or None for what mpirun says itself."""
    pieces = (piece for line in lines for piece in _split(line))
    for rank, run in groupby(pieces, key=lambda piece: piece[0]):
        yield rank, [text for _, text in run]


def _split(line: bytes) -> Iterator[tuple[int | None, bytes]]:
    """Split a line at its tags: a rank that printed no newline shares it with others, or with itself."""
    before, *rest = _TAG.split(line)
    if before or not rest:
        yield None, before
    for rank, run in groupby(zip(map(int, rest[::2]), rest[1::2], strict=True), key=lambda each: each[0]):
        yield rank, b"".join(text for _, text in run)
