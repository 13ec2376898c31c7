"""Notices a Python rank that has raised while the others wait for it.

mpi4py finalizes MPI when Python exits, also after an exception, and MPI_Finalize waits for all ranks.
A rank that fails while the others wait for its message then hangs the job: mpirun sees no process end.
`python3 -m mpi4py` aborts instead. Nothing but the output tells: a traceback, and silence after it.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

_QUIET_SECONDS: Final = 6.0
_PYTHON: Final = re.compile(r"python[0-9.]*")
_TAG: Final = rb"(?:\[[0-9]+,[0-9]+\]<std(?:out|err)>: ?)?"
_TRACEBACK: Final = re.compile(_TAG + rb"Traceback \(most recent call last\):")
_RAISED: Final = re.compile(_TAG + rb"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b")


class StuckRanks:
    """Follows the output of one job. `feed` it all lines; `hint` is then asked from time to time."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._command = _without_mpi4py(job)
        self._in_traceback = False
        self._raised_at: float | None = None

    def feed(self, lines: Iterable[bytes], now: float) -> None:
        """Read lines as they come. Any line after an exception means that something still runs."""
        if not self._command:
            return
        for line in lines:
            if _TRACEBACK.match(line):
                self._in_traceback = True
            elif self._in_traceback and _RAISED.match(line):
                self._in_traceback, self._raised_at = False, now
            elif not self._in_traceback and line.strip():
                self._raised_at = None

    def hint(self, now: float) -> str | None:
        """Return a hint, once, if a rank has raised and nothing was printed for some seconds since."""
        if self._raised_at is None or now - self._raised_at < _QUIET_SECONDS:
            return None
        command, self._command, self._raised_at = self._command, "", None
        return (
            "hint: a rank has raised an exception, and MPI waits for it without end; "
            f"`{command}` ends all ranks then"
        )


def _without_mpi4py(job: dict[str, Any]) -> str:
    """Return how to run the Python script of an MPI job with mpi4py; empty if it is none, or does so."""
    words: list[str] = ((job.get("spec") or {}).get("worker") or {}).get("cmd") or []
    for index, word in enumerate(words):
        if _PYTHON.fullmatch(word.rpartition("/")[2]):
            rest = words[index + 1 :]
            if "mpi4py" in rest or rest[:1] == ["-c"] or not rest:
                return ""
            return " ".join([*words[index : index + 1], "-m mpi4py", *rest])
    return ""
