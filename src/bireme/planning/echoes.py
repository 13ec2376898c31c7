"""What launchers say beside the words of the rank that failed, which would push those out of a message."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

# Numbers of repetitions are bounded: whoever writes the text must not be able to make this slow.
_MPI: Final = (
    # How peers lost that rank, and that they wait, as they are told to.
    r"^\[[^]]*\] \*\*\* An error occurred in Socket closed\n(?:\[[^]]*\] \*\*\*.*(?:\n|\Z))*",
    (
        r"^An MPI communication peer process has unexpectedly disconnected\..*\n(?:.*\n){,15}?"
        r"  Peer host: .*(?:\n|\Z)"
    ),
    r"^.*Delaying for [0-9]+ seconds? before aborting(?:\n|\Z)",
    # Mere warnings, rules, and a note that is always the same.
    r"^\[.*\] plm:\w+: Warning: setpgid\(.*(?:\n|\Z)",
    r"^\[.*\] PMIX ERROR: PMIX_ERR_NOT_FOUND in file .*(?:\n|\Z)",
    r"^[ \t]*-{20,}[ \t]*(?:\n|\Z)",
    r"^NOTE: invoking MPI_ABORT causes Open MPI(?:.*\n){1,3}?.*kills them\.(?:\n|\Z)",
)
_TORCH: Final = (
    # How peers lost that rank.
    (
        r"^\[rank([0-9]+)\]:.*\n(?:\[rank\1\]:.*\n){,60}?"
        r"\[rank\1\]:.*Connection (?:closed|reset) by peer.*(?:\n|\Z)"
    ),
    # What torchrun logs, how it raises, and its table of failures but for the first of each node.
    r"^[EIW][0-9]{4} .* torch/distributed/elastic/.*(?:\n|\Z)",
    (
        r"^Traceback \(most recent call last\):\n  File \".*/torchrun\"(?:.*\n){1,60}?"
        r"torch\.distributed\..*ChildFailedError: *(?:\n|\Z)"
    ),
    r"^.* FAILED\nFailures:\n(?:.*\n){,200}?(?=Root Cause \(first observed failure\):\n)",
    r"^  (?:time      |host      |error_file|traceback ): .*(?:\n|\Z)",
    r"^={20,}(?:\n|\Z)",
    r"^Terminated(?:\n|\Z)",
)
_OURS: Final = (r"^bireme: (?:all [0-9]+ workers are|the worker is) reachable(?:\n|\Z)",)
_ECHOES: Final = [re.compile(each, re.MULTILINE) for each in (*_MPI, *_TORCH, *_OURS)]
_ROOT_CAUSE: Final = re.compile(
    r"^Root Cause \(first observed failure\):\n\[0\]:\n(?:  (?:time|host) .*\n){,2}"
    r"  rank *: ([0-9]+) \(local_rank: [0-9]+\)\n  exitcode *: (-?[0-9]+) .*(?:\n|\Z)",
    re.MULTILINE,
)
_NODE: Final = re.compile(
    r"^bireme: worker \S+ \(node rank [0-9]+\) exited with code [0-9]+(?:\n|\Z)", re.MULTILINE
)


_RANK: Final = re.compile(r"^\[rank([0-9]+)\]:", re.MULTILINE)


class RootCause(NamedTuple):
    """The rank that failed first on a node, as its torchrun tells."""

    rank: int
    exit_code: int
    signal: int | None = None


def without_echoes(text: str) -> str:
    """A launcher's words without those that tell nothing of the first failure; all if none is left."""
    # mpirun puts a NUL after each of its notices: at the beginning of the next line, whosever that is.
    text = text.replace("\0", "")
    left = text
    for echo in _ECHOES:
        left = echo.sub("", left)
    return left if left.strip() else text


def root_causes(text: str) -> Iterator[RootCause]:
    """What the nodes' torchruns say, in the order in which they ended."""
    for match in _ROOT_CAUSE.finditer(text):
        code = int(match[2])
        yield RootCause(int(match[1]), code) if code >= 0 else RootCause(int(match[1]), 128 - code, -code)


def ranks_with_words(text: str) -> list[int]:
    """The ranks that said something of their own."""
    return [*dict.fromkeys(int(rank) for rank in _RANK.findall(without_echoes(text)))]


def without_root_causes(text: str) -> str:
    """The words that are left when who failed is told apart from them; all if none is left."""
    left = _NODE.sub("", _ROOT_CAUSE.sub("", text))
    return left if left.strip() else text
