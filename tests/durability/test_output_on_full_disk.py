"""Output of a container on a disk that fills up: it is cut with a mark, and the next write finds a block."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.node.output import Wanted, read
from bireme.node.shim.output import LEAST_KEPT, RUNWAY_BYTES, Output
from support.small_disk import empty, fill, free, small_disk, taking_all_space

LINE_BYTES = 64


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "4m") as mounted:
        yield mounted


@pytest.fixture
def output(disk: Path) -> Iterator[Output]:
    made = Output(str(disk / "0.log"), 0, str(disk))
    yield made
    made.close()


def lines(first: int, count: int) -> bytes:
    return b"".join(b"%0*d\n" % (LINE_BYTES - 1, first + number) for number in range(count))


def mark(disk: Path) -> str:
    return f"bireme: output cut here: no space left on the disk of {disk}"


def shown(disk: Path) -> list[str]:
    """What a reader of the log sees; a mark may be padded."""

    async def main() -> bytes:
        return b"".join([chunk async for chunk in read(disk / "0.log", Wanted())])

    return [line.rstrip() for line in asyncio.run(main()).decode().splitlines()]


def write(output: Output, data: bytes) -> None:
    """Write as a program does, and look as the shim does; a failed or short write fails the test."""
    assert os.write(output.descriptor, data) == len(data)
    output.look(0.0)


def test_a_program_can_print_more_than_the_disk_holds(disk: Path, output: Output) -> None:
    count = LEAST_KEPT // LINE_BYTES
    total = 8 * (4 << 20) // LINE_BYTES
    for first in range(0, total, count):
        write(output, lines(first, count))
    assert output.is_cut
    seen = shown(disk)
    assert seen[0] == mark(disk)
    rest = [int(line) for line in seen[1:]]
    assert rest == list(range(rest[0], total))
    assert free(disk) > LEAST_KEPT


def test_a_program_goes_on_printing_when_others_have_filled_the_disk(disk: Path, output: Output) -> None:
    write(output, lines(0, 1))
    fill(disk)
    for first in range(1, 10_000):
        write(output, lines(first, 1))
    seen = shown(disk)
    assert (output.is_cut, seen[0]) == (True, mark(disk))
    assert len(seen) * LINE_BYTES >= LEAST_KEPT
    assert int(seen[-1]) == 9_999


def test_a_program_goes_on_printing_while_others_take_every_free_block(disk: Path, output: Output) -> None:
    with taking_all_space(disk):
        written = output_until_refused(output)
    assert written >= RUNWAY_BYTES


def output_until_refused(output: Output) -> int:
    """Print until a write fails, or long enough; return how many bytes were written."""
    for first in range(2_000):
        try:
            write(output, lines(first, 1))
        except OSError:
            return first * LINE_BYTES
    return 2_000 * LINE_BYTES


def test_output_that_a_program_could_not_write_is_marked_at_its_end(disk: Path, output: Output) -> None:
    fill(disk, leave=LEAST_KEPT)
    data = lines(0, (RUNWAY_BYTES + 2 * LEAST_KEPT) // LINE_BYTES)
    assert os.write(output.descriptor, data) < len(data)
    output.look(0.0)
    assert output.is_cut
    assert shown(disk)[-1] == mark(disk)


def test_a_mark_for_which_there_is_no_space_comes_later(disk: Path) -> None:
    fill(disk)
    made = Output(str(disk / "0.log"), 0, str(disk))
    with pytest.raises(OSError, match="No space left"):
        os.write(made.descriptor, lines(0, 1))
    made.look(0.0)
    assert (made.is_cut, shown(disk)) == (True, [])
    empty(disk)
    made.look(1.0)
    write(made, lines(1, 1))
    assert shown(disk) == [mark(disk), lines(1, 1).decode().rstrip()]
    made.close()


def test_output_that_does_not_grow_is_not_cut(disk: Path, output: Output) -> None:
    write(output, lines(0, 10_000))
    fill(disk)
    output.look(1.0)
    assert (output.is_cut, len(shown(disk))) == (False, 10_000)


def test_output_on_a_disk_with_space_is_not_cut(disk: Path, output: Output) -> None:
    write(output, lines(0, 10_000))
    assert (output.is_cut, output.is_nearly_full) == (False, True)
    assert len(shown(disk)) == 10_000


def test_the_runway_is_freed_when_the_output_is_closed(disk: Path) -> None:
    before = free(disk)
    made = Output(str(disk / "1.log"), 0)
    assert before - free(disk) >= RUNWAY_BYTES
    made.close()
    assert free(disk) == before
