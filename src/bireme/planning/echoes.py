"""What launchers say beside the words of the rank that failed, which would push those out of a message."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

# The author of the text must not be able to make this slow: numbers of repetitions are bounded, and what is
# in brackets ends with its line.
_MPI: Final = (
    # How peers lost that rank, and that they wait, as they are told to.
    r"^\[[^]\n]*\] \*\*\* An error occurred in Socket closed\n(?:\[[^]\n]*\] \*\*\*.*(?:\n|\Z))*",
    (
        r"^An MPI communication peer process has unexpectedly disconnected\..*\n(?:.*\n){,15}?"
        r"  Peer host: .*(?:\n|\Z)"
    ),
    (
        r"^WARNING: Open MPI failed to TCP connect to a peer MPI process\..*\n(?:.*\n){,9}?"
        r"  Error: .*(?:\n|\Z)"
    ),
    r"^\[[^]\n]*\]\[\[[0-9]+,[0-9]+\],[0-9]+\]\[[^]\n]*btl_tcp[^]\n]*\] .*(?:\n|\Z)",
    r"^.*Delaying for [0-9]+ seconds? before aborting(?:\n|\Z)",
    # Mere warnings, rules, and a note that is always the same.
    r"^\[warn\] Epoll .*(?:\n|\Z)",
    r"^\[.*\] plm:\w+: Warning: setpgid\(.*(?:\n|\Z)",
    # Daemons that are told to end may lose one another first.
    r"^\[.*\] UNSUPPORTED DAEMON ERROR STATE: .*(?:\n|\Z)",
    r"^\[.*\] PMIX ERROR: PMIX_ERR_NOT_FOUND in file .*(?:\n|\Z)",
    r"^[ \t]*-{20,}[ \t]*(?:\n|\Z)",
    r"^NOTE: invoking MPI_ABORT causes Open MPI(?:.*\n){1,3}?.*kills them\.(?:\n|\Z)",
    # What stands in for the notices of other daemons.
    r"^\[[^]\n]*\] [0-9]+ more process(?:es)? ha(?:s|ve) sent help message .*(?:\n|\Z)",
    r"^\[[^]\n]*\] Set MCA parameter \"\w+_base_help_aggregate\" to 0 to see all .*(?:\n|\Z)",
)
# How mpirun names the rank that failed first: nothing that the status does not say apart from the message.
_MPI_VERDICTS: Final = (
    # Line by line, because those of ranks may come in between.
    r"^\w+ detected that one or more processes exited with non-zero status,.*(?:\n|\Z)",
    r"^(?:thus causing )?the job to be terminated\. The first process to do so was:\n(?:\n|\Z)?",
    r"^ {2,3}Process name: \[.*\]\n",
    r"^ {2,3}Exit code:    [0-9]+(?:\n|\Z)",
    (
        r"^Primary job  terminated normally, but [0-9]+ process(?:es)? returned(?:\n|\Z)"
        r"(?:a non-zero exit code\. .*(?:\n|\Z))?"
    ),
    r"^\w+ has exited due to process rank .*\n\"abort\"\. .*\n.*\(as reported here\)\.(?:\n|\Z)",
    (
        r"^MPI_ABORT was invoked on rank .*\n(?:  Proc: .*(?:\n|\Z))?"
        r"(?:(?:  Errorcode: |with errorcode ).*(?:\n|\Z))?"
    ),
    r"^\w+ noticed that process rank .* exited on\s+signal [0-9]+ \([^)\n]*\)\.(?:\n|\Z)",
    r"^[0-9]+ total processes failed to start(?:\n|\Z)",
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
_OURS: Final = (
    r"^bireme: (?:all [0-9]+ workers are|the worker is) reachable(?:\n|\Z)",
    # A daemon's end may be recorded while `supervise` removes the folder of the records.
    r"^rm: \S.*/bireme-run\.[0-9]+.*(?:\n|\Z)",
)
_ECHOES: Final = [re.compile(each, re.MULTILINE) for each in (*_MPI, *_TORCH, *_OURS)]
_ROOT_CAUSE: Final = re.compile(
    r"^Root Cause \(first observed failure\):\n\[0\]:\n(?:  (?:time|host) .*\n){,2}"
    r"  rank *: ([0-9]+) \(local_rank: [0-9]+\)\n  exitcode *: (-?[0-9]+) .*(?:\n|\Z)",
    re.MULTILINE,
)
_NODE: Final = re.compile(
    r"^bireme: worker \S+ \(node rank [0-9]+\) exited with code [0-9]+(?:\n|\Z)", re.MULTILINE
)


_VERDICTS: Final = [re.compile(each, re.MULTILINE) for each in _MPI_VERDICTS]
_RANK: Final = re.compile(r"^\[rank([0-9]+)\]:", re.MULTILINE)
# `mpirun --tag-output` (4.1) and `mpirun --output tag` (5.0, with a space behind the colon); also in a line
# where output without a newline went before.
_TAG: Final = re.compile(r"\[[0-9]+,([0-9]+)\]<(?:stdout|stderr|stddiag)>: ?")
_MOST_LINES: Final = 200


class RootCause(NamedTuple):
    """The rank that failed first on a node, as its torchrun tells."""

    rank: int
    exit_code: int
    signal: int | None = None


def without_echoes(text: str, *, may_be_empty: bool = False) -> str:
    """A launcher's words without those that tell nothing of the first failure; all if none is left."""
    # mpirun puts a NUL after each of its notices: at the beginning of the next line, whosever that is.
    text = text.replace("\0", "")
    left = text
    for echo in _ECHOES:
        left = echo.sub("", left)
    return left if may_be_empty or left.strip() else text


def root_causes(text: str) -> Iterator[RootCause]:
    """What the nodes' torchruns say, in the order in which they ended."""
    for match in _ROOT_CAUSE.finditer(text):
        code = int(match[2])
        yield RootCause(int(match[1]), code) if code >= 0 else RootCause(int(match[1]), 128 - code, -code)


def ranks_with_words(text: str) -> list[int]:
    """The ranks that said something of their own."""
    return [*dict.fromkeys(int(rank) for rank in _RANK.findall(without_echoes(text)))]


def without_root_causes(text: str, *, may_be_empty: bool = False) -> str:
    """The words that are left when who failed is told apart from them; all if none is left."""
    left = _NODE.sub("", _ROOT_CAUSE.sub("", text))
    for verdict in _VERDICTS:
        left = verdict.sub("", left)
    return left if may_be_empty or left.strip() else text


def without_tags(text: str, rank: int | None) -> str:
    """Take out the tags of ranks that mpirun was asked to put before lines.

    If the given rank has tagged lines, those alone are left.
    """
    first, *pieces = _TAG.split(text)
    if not pieces:
        return text
    tagged = [*zip(map(int, pieces[::2]), pieces[1::2], strict=True)]
    # What mpirun says itself has no tag: it stands behind the line of a rank.
    own = "".join(said.partition("\n")[0] + "\n" for each, said in tagged if each == rank)
    return own if own.strip() else first + "".join(said for _, said in tagged)


def without_repeats(text: str) -> str:
    """Leave one of several equal texts that ranks have printed, also where their lines are mixed.

    Other lines may stand before them, or the end of such a text where a message was cut.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > _MOST_LINES:
        return text
    for start in range(len(lines) - 1):
        counts = Counter(lines[start:])
        if (times := math.gcd(*counts.values())) > 1:
            is_cut = counts.keys() >= set(lines[1:start])
            once = _first_of_each(lines[start:], {line: n // times for line, n in counts.items()})
            return "\n".join([*([] if is_cut else lines[:start]), *once])
    return text


def _first_of_each(lines: list[str], counts: dict[str, int]) -> Iterator[str]:
    for line in lines:
        if counts[line]:
            counts[line] -= 1
            yield line
