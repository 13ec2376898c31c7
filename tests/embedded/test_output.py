"""Reading output: the end of it, since when, with times, and as it comes."""

import asyncio
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bireme.node.output import Wanted, read, tail
from bireme.node.shim.output import RUNWAY_BYTES, Output


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "0.log"


@pytest.fixture
def output(path: Path) -> Iterator[Output]:
    """Ten moments, a second apart from 1000 on, with three lines each."""
    made = Output(str(path), 100_000)
    for moment in range(10):
        os.write(made.descriptor, b"".join(b"line %d.%d\n" % (moment, line) for line in range(3)))
        made.look(1000.0 + moment)
    yield made
    made.close()


def get(path: Path, wanted: Wanted) -> str:
    async def main() -> bytes:
        return b"".join([chunk async for chunk in read(path, wanted)])

    return asyncio.run(main()).decode()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(tail_lines=2), "line 9.1\nline 9.2\n"),
        (Wanted(tail_lines=0), ""),
        (Wanted(since=datetime.fromtimestamp(1009, UTC)), "line 9.0\nline 9.1\nline 9.2\n"),
        (Wanted(since=datetime.fromtimestamp(2000, UTC)), ""),
        (Wanted(limit_bytes=10), "line 0.0\nl"),
        (Wanted(tail_lines=1, timestamps=True), "1970-01-01T00:16:49.000000Z line 9.2\n"),
    ],
    ids=["tail", "nothing", "since", "since later", "limit", "times"],
)
def test_a_part_is_read(output: Output, path: Path, wanted: Wanted, expected: str) -> None:
    assert get(path, wanted) == expected


def test_all_of_it_is_read(output: Output, path: Path) -> None:
    assert get(path, Wanted()) == path.read_text()
    assert len(get(path, Wanted(timestamps=True)).splitlines()) == 30


def test_a_last_line_without_an_end_is_read(output: Output, path: Path) -> None:
    os.write(output.descriptor, b"unfinished")
    output.look(1010.0)
    assert get(path, Wanted(tail_lines=2)) == "line 9.2\nunfinished"
    assert get(path, Wanted(tail_lines=1, timestamps=True)) == "1970-01-01T00:16:50.000000Z unfinished"


@pytest.mark.parametrize(
    "wanted",
    [Wanted(tail_lines=5), Wanted(tail_lines=0), Wanted(tail_lines=5, timestamps=True)],
    ids=["tail", "tail of nothing", "times"],
)
def test_tail_of_empty_output_is_empty(path: Path, wanted: Wanted) -> None:
    path.touch()
    assert get(path, wanted) == ""


def test_what_outgrows_its_cap_loses_its_beginning(output: Output, path: Path) -> None:
    for number in range(3000):
        os.write(output.descriptor, b"%0100d\n" % number)
    output.look(1020.0)
    kept = get(path, Wanted())
    assert 60_000 < len(kept) < 100_000
    assert kept.splitlines()[0].isdigit()
    assert kept.endswith(f"{2999:0100}\n")
    assert path.stat().st_blocks * 512 < 100_000 + RUNWAY_BYTES


def test_it_is_followed_until_it_is_over(output: Output, path: Path) -> None:
    async def main() -> list[bytes]:
        is_over = False
        seen: list[bytes] = []

        async def follow() -> None:
            async for chunk in read(path, Wanted(tail_lines=1), lambda: is_over):
                seen.append(chunk)  # noqa: PERF401 - the test looks while it comes

        following = asyncio.create_task(follow())
        async with asyncio.timeout(90):
            for text in (b"line 9.2\n", b"one\n", b"two\n"):
                if text != b"line 9.2\n":
                    os.write(output.descriptor, text)
                while not (seen and seen[-1] == text):
                    await asyncio.sleep(0)
            os.write(output.descriptor, b"last\n")
            is_over = True
            await following
        return seen

    assert b"".join(asyncio.run(main())) == b"line 9.2\none\ntwo\nlast\n"


def test_what_is_not_noted_down_yet_has_the_time_at_which_it_was_written(output: Output, path: Path) -> None:
    os.write(output.descriptor, b"new\n")
    os.utime(path, (2000, 2000))
    assert get(path, Wanted(tail_lines=2, timestamps=True)).splitlines() == [
        "1970-01-01T00:16:49.000000Z line 9.2",
        "1970-01-01T00:33:20.000000Z new",
    ]


@pytest.mark.parametrize(
    ("moment", "expected"),
    [(1009, "line 9.0\nline 9.1\nline 9.2\nnew\n"), (1010, "new\n"), (2000, "new\n"), (2001, "")],
    ids=["before it", "after the last note", "when it came", "later"],
)
def test_what_is_not_noted_down_yet_is_read_since_a_moment(
    output: Output, path: Path, moment: int, expected: str
) -> None:
    os.write(output.descriptor, b"new\n")
    os.utime(path, (2000, 2000))
    assert get(path, Wanted(since=datetime.fromtimestamp(moment, UTC))) == expected


def test_the_first_line_that_is_followed_has_its_time(path: Path) -> None:
    made = Output(str(path), 0)
    os.write(made.descriptor, b"first\n")
    os.utime(path, (2000, 2000))
    assert get(path, Wanted(timestamps=True)) == "1970-01-01T00:33:20.000000Z first\n"
    made.close()


def test_binary_output_comes_as_it_is(output: Output, path: Path) -> None:
    body = bytes(range(256)) * 1000
    os.write(output.descriptor, body)

    async def main() -> bytes:
        return b"".join([chunk async for chunk in read(path, Wanted())])

    assert asyncio.run(main()).endswith(body)


def test_a_message_is_the_end_of_it(output: Output, path: Path) -> None:
    assert tail(path, 2, 1000) == "line 9.1\nline 9.2\n"
    assert tail(path.with_name("none"), 2, 1000) == ""


def test_a_reader_that_is_too_slow_goes_on_behind_what_is_gone(output: Output, path: Path) -> None:
    async def main() -> list[bytes]:
        chunks = read(path, Wanted())
        seen = [await anext(chunks)]
        for number in range(30_000):
            os.write(output.descriptor, b"%0100d\n" % number)
        output.look(1020.0)
        return seen + [chunk async for chunk in chunks]

    first, *others = asyncio.run(main())
    rest = b"".join(others)
    assert first.startswith(b"line 0")
    assert b"\0" not in rest
    assert rest.splitlines()[0].isdigit()
    assert rest.endswith(f"{29_999:0100}\n".encode())


def test_output_that_is_open_is_read_wherever_it_is_put(path: Path, output: Output) -> None:
    opened = path.open("rb")
    path.rename(path.with_name("elsewhere.log"))

    async def main() -> bytes:
        chunks = read(path, Wanted(tail_lines=1), opened=opened)
        return b"".join([chunk async for chunk in chunks])

    assert asyncio.run(main()) == b"line 9.2\n"
    assert opened.closed
