"""Reading what containers wrote: from the end, since a moment, with times, and as it comes."""

import asyncio
import bisect
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from bireme.node.growth import Growth
from bireme.node.shim.output import PAIR

_CHUNK: Final = 1 << 18
_FOLLOW_SECONDS: Final = 0.25
"""How late the end of a container is noticed where nobody tells."""


class Wanted(NamedTuple):
    """What of the output is asked for."""

    tail_lines: int | None = None
    since: datetime | None = None
    timestamps: bool = False
    limit_bytes: int | None = None


class Index:
    """Which part of a file came when. Of what is not noted down yet the file's own time tells."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = Path(f"{path}.index"), descriptor
        self._sizes: list[int] = []
        self._times: list[float] = []
        self._read = 0
        self.refresh()

    def refresh(self) -> None:
        """Take in what was added."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return
        whole = len(data) - len(data) % PAIR.size
        for size, moment in PAIR.iter_unpack(data[:whole]):
            self._sizes.append(size)
            self._times.append(moment)
        self._read += whole

    def offset_since(self, moment: float) -> int:
        """Where what came at or after a moment begins; the file's size if nothing did."""
        file = os.fstat(self._descriptor)
        place = bisect.bisect_left(self._times, moment)
        if place == len(self._times) and file.st_mtime < moment:
            return file.st_size
        return self._sizes[place - 1] if place > 0 else 0

    def time_at(self, offset: int) -> float:
        """When the byte at an offset came."""
        place = bisect.bisect_right(self._sizes, offset)
        return self._times[place] if place < len(self._times) else os.fstat(self._descriptor).st_mtime


async def read(
    path: Path,
    wanted: Wanted,
    is_over: Callable[[], bool] | None = None,
    changed: asyncio.Event | None = None,
    opened: BinaryIO | None = None,
) -> AsyncIterator[bytes]:
    """The output in chunks; with `is_over` it is followed until that says so, and all was read.

    Whoever sets `changed` has it asked at once. A file that is `opened` already may be put elsewhere.
    """
    left = wanted.limit_bytes
    with (
        opened or path.open("rb") as file,
        contextlib.closing(Growth(path, changed or asyncio.Event())) as growth,
    ):
        index = Index(path, file.fileno())
        place = _start(file.fileno(), index, wanted)
        rest = b""
        while left is None or left > 0:
            over = is_over is None or is_over()
            position = place - len(rest)
            data = os.pread(file.fileno(), _CHUNK, place)
            if data.startswith(b"\0") and (behind := _behind_hole(file.fileno(), place)) > place:
                # The disk has it back already: whoever reads so slowly goes on with what is left.
                place, rest = behind, b""
                continue
            place += len(data)
            if data:
                chunk = rest + data
                if wanted.timestamps:
                    index.refresh()
                    chunk, rest = _split(chunk)
                    chunk = _stamped(chunk, position, index)
                else:
                    rest = b""
                if left is not None:
                    chunk, left = chunk[:left], left - len(chunk)
                if chunk:
                    yield chunk
            elif over:
                if rest:
                    yield _stamped(rest, position, index)
                return
            else:
                await growth.wait(_FOLLOW_SECONDS)


def tail(path: Path, lines: int, most_bytes: int) -> str:
    """The last lines, for a termination message."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - most_bytes))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "".join(text.splitlines(keepends=True)[-lines:])


def _start(descriptor: int, index: Index, wanted: Wanted) -> int:
    """Where to begin: behind what was given back to the disk, not before the moment, at the last lines."""
    size = os.fstat(descriptor).st_size
    start = _behind_hole(descriptor, 0)
    if wanted.since is not None:
        start = max(start, index.offset_since(wanted.since.timestamp()))
    if wanted.tail_lines is not None:
        start = max(start, _last_lines(descriptor, start, size, wanted.tail_lines))
    return start


def _behind_hole(descriptor: int, place: int) -> int:
    """The first byte from a place on that is still there: behind a hole, at the start of a line."""
    try:
        data = os.lseek(descriptor, place, os.SEEK_DATA)
    except OSError:
        return os.fstat(descriptor).st_size
    if data == place:
        return place
    begin = os.pread(descriptor, _CHUNK, data)
    line = begin.find(b"\n")
    return data if line < 0 else data + line + 1


def _last_lines(descriptor: int, start: int, size: int, count: int) -> int:
    if count == 0 or size == 0:
        return size
    place = size
    if os.pread(descriptor, 1, size - 1) == b"\n":
        count += 1
    while place > start:
        begin = max(start, place - _CHUNK)
        block = os.pread(descriptor, place - begin, begin)
        end = len(block)
        while (end := block.rfind(b"\n", 0, end)) >= 0:
            count -= 1
            if count == 0:
                return begin + end + 1
        place = begin
    return start


def _split(chunk: bytes) -> tuple[bytes, bytes]:
    """The whole lines, and what comes after them."""
    end = chunk.rfind(b"\n") + 1
    return chunk[:end], chunk[end:]


def _stamped(lines: bytes, position: int, index: Index) -> bytes:
    stamped, end = [], position + len(lines)
    for line in lines.split(b"\n"):
        if not line and position == end:
            break
        text = datetime.fromtimestamp(index.time_at(position), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        stamped.append(text.encode() + b" " + line)
        position += len(line) + 1
    return b"\n".join(stamped) + (b"\n" if lines.endswith(b"\n") else b"")
