"""Who failed first, and how."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from bireme.api.job import ContainerStatus, FirstFailure
from bireme.planning.echoes import (
    ranks_with_words,
    root_causes,
    without_echoes,
    without_repeats,
    without_root_causes,
    without_tags,
)
from bireme.planning.outcome import INCOMPLETE_RUN
from bireme.planning.refusals import START_ERROR, Refusal, find_exec_error, find_refusal
from bireme.planning.replicas import Replica, is_final

MAX_LINES: Final = 20
MAX_BYTES: Final = 2048
OUT_OF_MEMORY: Final = "OOMKilled"
_KILL: Final = 9
_ABOUT: Final = timedelta(seconds=1)

# What mpirun says of the rank that failed first. 4.1 and 5.0 name the process and its exit code, or the rank
# and the node of one that aborted or that a signal ended; our own torchrun launcher names the worker.
# Lines of ranks may come in between.
_PROCESS: Final = re.compile(
    r"Process name:[ \t]*\[.*,[ \t]*([0-9]+)\][ \t]*\n(?:.*\n){,3}?[ \t]*Exit code:[ \t]*([0-9]+)"
)
_RANK_ON_NODE: Final = re.compile(
    r"process rank ([0-9]+) with PID [0-9]+ on node (\S+)(?:\s+exited on\s+signal ([0-9]+)(?: \(([^)]*)\))?)?"
)
_ABORT: Final = re.compile(
    r"MPI_ABORT was invoked on rank ([0-9]+)(?:(?:.*\n){1,2}.*errorcode:? (-?[0-9]+))?", re.IGNORECASE
)
# What a node says of its own at the end of a launcher's message, where it can know.
_LACKING: Final = "bireme: the kernel killed a process of {} for want of memory"
_LACKED: Final = re.compile(_LACKING.format(r"(\S+)"))
_DAEMON: Final = re.compile(r"^mpirun exited with 0, but its daemon on (\S+) ")
_WORKER: Final = re.compile(r"worker (\S+) \(node rank ([0-9]+)\) exited with code ([0-9]+)")


def tail(text: str) -> str:
    """The end of a message: at most 20 lines and 2 KiB."""
    # mpirun ends its last line with a NUL.
    lines = text.replace("\0", "").rstrip().split("\n")[-MAX_LINES:]
    data = "\n".join(lines).encode()[-MAX_BYTES:]
    return data.decode(errors="ignore")


def first_failure(
    replicas: Iterable[Replica],
    now: datetime,
    *,
    keep_message: bool,
    workers: Sequence[str] = (),
    worker_of: Callable[[int], int | None] = lambda _rank: None,
    slots: int | None = None,
) -> FirstFailure | None:
    """The earliest failure among these replicas; a rank is named rather than the launcher that reports it.

    A replica whose pod is gone already is told of from its record. `slots` are those of all workers together.
    """
    failures = [failure for replica in replicas if (failure := _failure(replica, now)) is not None]
    if not failures:
        return None
    first = _earliest(failures, now, workers)
    is_launcher = bool(workers) and first.replica not in workers
    # A kernel that killed for want of memory is the cause of whatever mpirun says.
    has_reason = _LACKED.search(first.message) is not None
    if is_launcher and not has_reason and (refusal := find_refusal(first.message, slots)):
        found = _refused(first, refusal, workers)
    elif workers:
        found = _for_want_of_memory(_rank_behind(first, workers, worker_of), workers)
        found = _start_error(found) or msgspec.structs.replace(found, message=_words_of(found))
    else:
        found = first
    return msgspec.structs.replace(found, message=tail(found.message) if keep_message else "")


def _refused(first: FirstFailure, refusal: Refusal, workers: Sequence[str]) -> FirstFailure:
    """A launcher's failure with the words of its mpirun; its exit code above 128 is no signal."""
    code = first.exit_code if refusal.exit_code is None else refusal.exit_code
    named = msgspec.structs.replace(
        first, exit_code=code, signal=None, reason=refusal.reason, message=refusal.message
    )
    worker = (refusal.node or "").partition(".")[0]
    if worker not in workers:
        return named
    return msgspec.structs.replace(named, replica=worker, rank=refusal.rank, container="")


def _start_error(found: FirstFailure) -> FirstFailure | None:
    """A rank whose program can't be run; None if that is not what happened."""
    error = find_exec_error(found.message) if found.exit_code in (126, 127) else None
    return msgspec.structs.replace(found, reason=START_ERROR, message=error) if error else None


def _words_of(found: FirstFailure) -> str:
    """What the rank said itself, as far as that can be told from a launcher's output.

    That may be nothing, where a signal ended a rank that is named.
    """
    is_named = found.rank is not None
    said = without_tags(found.message, found.rank)
    said = without_root_causes(without_echoes(said, may_be_empty=is_named), may_be_empty=is_named)
    return without_repeats(said.strip("\n"))


def _earliest(failures: Sequence[FirstFailure], now: datetime, workers: Sequence[str]) -> FirstFailure:
    """Rather a worker than the launcher, which reports its loss: times are whole seconds, or not known."""

    def time(failure: FirstFailure) -> datetime:
        return failure.time or now

    first = min(failures, key=time)
    about = [each for each in failures if each.replica in workers and time(each) <= time(first) + _ABOUT]
    return min(about, key=time, default=first)


def _failure(replica: Replica, now: datetime) -> FirstFailure | None:
    ended, record = replica.ended, replica.record
    if ended is not None and ended.end != "disrupted":
        return FirstFailure(
            replica=replica.name,
            container=ended.container,
            is_init=ended.is_init,
            exit_code=ended.exit_code,
            signal=ended.signal,
            reason=ended.reason,
            message=ended.message,
            time=ended.finished_at or record.finished_at or now,
        )
    if record.phase == "Failed" and is_final(record):
        failed = [status for status in record.containers if status.exit_code]
        container = failed[0] if failed else ContainerStatus()
        return FirstFailure(
            replica=replica.name,
            container=container.name,
            exit_code=container.exit_code,
            reason=container.reason,
            time=record.finished_at,
        )
    return None


def _rank_behind(
    first: FirstFailure, workers: Sequence[str], worker_of: Callable[[int], int | None]
) -> FirstFailure:
    """Name the worker and rank that a launcher's message speaks of, if it does."""
    text = first.message
    if (match := _DAEMON.match(text)) and match[1] in workers:
        return msgspec.structs.replace(first, replica=match[1], reason=INCOMPLETE_RUN, container="")
    if match := _WORKER.search(text):
        return _on_worker(first, match, worker_of)
    if match := _PROCESS.search(text):
        rank, code = int(match[1]), int(match[2])
        worker = _named(worker_of(rank), workers, first.replica)
        return msgspec.structs.replace(first, replica=worker, rank=rank, exit_code=code, container="")
    if match := _RANK_ON_NODE.search(text):
        return _on_node(first, match, workers, worker_of)
    if match := _ABORT.search(text):
        rank, code = int(match[1]), int(match[2] or 0) & 0xFF
        worker = _named(worker_of(rank), workers, first.replica)
        return msgspec.structs.replace(
            first, replica=worker, rank=rank, exit_code=code or first.exit_code, container=""
        )
    return first


def _on_worker(
    first: FirstFailure, match: re.Match[str], worker_of: Callable[[int], int | None]
) -> FirstFailure:
    """Every torchrun tells of a rank of its own: that of the worker which ended first was the first.

    Where two of a worker end at about the same time, torchrun takes either; the other has but lost its peer.
    """
    named = msgspec.structs.replace(first, replica=match[1], exit_code=int(match[3]), container="")
    causes = [each for each in root_causes(first.message) if worker_of(each.rank) == int(match[2])]
    spoke = [rank for rank in ranks_with_words(first.message) if worker_of(rank) == int(match[2])]
    if len(spoke) == 1 and causes and causes[0].rank not in spoke:
        return msgspec.structs.replace(named, rank=spoke[0])
    if not causes:
        return named
    return msgspec.structs.replace(
        named,
        rank=causes[0].rank,
        exit_code=causes[0].exit_code,
        signal=causes[0].signal or named.signal,
    )


def tell_lacking(workers: Iterable[str]) -> str:
    """What makes `first_failure` know that a worker's rank was lost for want of memory."""
    return "\n".join(_LACKING.format(worker) for worker in workers)


def _for_want_of_memory(found: FirstFailure, workers: Sequence[str]) -> FirstFailure:
    lacking = [name for name in _LACKED.findall(found.message) if name in workers]
    is_other = found.replica in workers and found.replica not in lacking
    if not lacking or is_other or found.signal not in (None, 0, _KILL):
        return found
    worker = found.replica if found.replica in lacking else lacking[0]
    return msgspec.structs.replace(found, replica=worker, reason=OUT_OF_MEMORY, container="")


def _on_node(
    first: FirstFailure, match: re.Match[str], workers: Sequence[str], worker_of: Callable[[int], int | None]
) -> FirstFailure:
    rank, node = int(match[1]), match[2].partition(".")[0]
    worker = node if node in workers else _named(worker_of(rank), workers, first.replica)
    named = msgspec.structs.replace(first, replica=worker, rank=rank, container="")
    if match[3] is None:
        return named
    number = int(match[3])
    return msgspec.structs.replace(
        named, signal=number, exit_code=128 + number, reason=match[4] or first.reason
    )


def _named(index: int | None, workers: Sequence[str], otherwise: str) -> str:
    return workers[index] if index is not None and index < len(workers) else otherwise
