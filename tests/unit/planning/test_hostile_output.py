"""The author of a program's output can't make it slow to read: twice the text takes about twice the time."""

import time
from collections.abc import Callable

import pytest

from bireme.planning.cause import _PROCESS
from bireme.planning.echoes import (
    ranks_with_words,
    root_causes,
    without_echoes,
    without_root_causes,
    without_tags,
)
from bireme.planning.refusals import find_exec_error, find_refusal

BYTES = 64 << 10
"""Half of what the embedded node reads of a launcher's output."""
FAST_SECONDS = 0.05
"""Where a quadratic pattern needs seconds, this needs no comparison."""
MOST_RATIO = 3.0

PREFIXES = {
    "nothing": "",
    "executable": "was unable to find the specified executable file, and therefore did not launch the job."
    " This error was first reported for process rank 1",
    "process": "Process name: [,1]\n",
    "topology": "Your job has requested more processes than the ppr for this topology can support: App: ",
}
UNITS = {
    "bracket lines": "[\n",
    "brackets": "[",
    "nested brackets": "[[1,1]",
    "closed sockets": "[a] *** An error occurred in Socket closed\n",
    "peers": "An MPI communication peer process has unexpectedly disconnected.\n",
    "ranks": "[rank1]:\n",
    "failures": "x FAILED\nFailures:\n",
    "blanks": " ",
    "empty lines": "\n",
    "digits": "1",
    "dashes": "-",
    "tags": "[1,1]<stdout>: ",
    "topologies": "Your job has requested more processes than the ppr for this topology can support: App: ",
    "aborts": "MPI_ABORT was invoked on rank 1\n",
}
READERS: dict[str, Callable[[str], object]] = {
    "without_echoes": without_echoes,
    "root_causes": lambda text: list(root_causes(text)),
    "ranks_with_words": ranks_with_words,
    "without_root_causes": without_root_causes,
    "without_tags": lambda text: without_tags(text, 1),
    "find_refusal": find_refusal,
    "find_exec_error": find_exec_error,
    "process name": lambda text: list(_PROCESS.finditer(text)),
}


def least_seconds(read: Callable[[str], object], text: str) -> float:
    """The time that a text takes, less what other processes took."""
    times = []
    for _ in range(3):
        begun = time.process_time()
        read(text)
        times.append(time.process_time() - begun)
        if times[-1] < FAST_SECONDS:
            break
    return min(times)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("unit", UNITS)
def test_reading_takes_time_in_proportion_to_the_text(prefix: str, unit: str) -> None:
    for name, read in READERS.items():
        texts = [PREFIXES[prefix] + UNITS[unit] * (size // len(UNITS[unit])) for size in (BYTES, 2 * BYTES)]
        longer = least_seconds(read, texts[1])
        if longer > FAST_SECONDS:
            ratio = longer / least_seconds(read, texts[0])
            assert ratio < MOST_RATIO, f"{name}: {ratio:.1f} times as long, {longer:.2f} s"
