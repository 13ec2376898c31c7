"""Why mpirun has started no rank, or ended a run by its own rules, in one line.

mpirun explains such an end in 8 to 30 lines, most of them general advice, and exits with a code of its own
(183, 213) that no manual explains. `find_refusal` reads these explanations of Open MPI 4.1 and 5.0
and returns the fact in them: which program, option, directory or number was wrong, and where.
Each pattern holds a whole sentence of mpirun's, so that a program's own words do not match.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

START_ERROR: Final = "StartError"
NOT_ENOUGH_SLOTS: Final = "NotEnoughSlots"
NO_FINALIZE: Final = "NoFinalize"
DAEMON_LOST: Final = "DaemonLost"
_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126
_OPTION_VALUES: Final = frozenset({"none", "slot", "core", "node", "socket", "package", "numa", "hwthread"})
"""Values of `-bind-to` and `-map-by`, which Open MPI 5 takes for programs behind an option with one dash."""


class Refusal(NamedTuple):
    """What was wrong; `rank` and `node` are None where no rank is concerned."""

    message: str
    reason: str
    exit_code: int | None = None
    """As a shell would exit with; None where mpirun's own code says as much."""
    rank: int | None = None
    node: str | None = None


# Numbers of repetitions are bounded: the author of the text must not be able to make this slow.
_NO_ACCESS: Final = re.compile(
    r"was unable to launch the specified application as it could not\s+access(?:\s+or execute)?"
    r"\s+an executable:\s+Executable: (.+)\s+Node: (\S+)\s+while attempting to start process rank ([0-9]+)"
)
_NOT_ON_PATH: Final = re.compile(
    r"was unable to find the specified executable file, and therefore\s+did\s+not launch the job\."
    r"\s+This error was first reported for process\s+rank\s+([0-9]{1,9})(?![0-9])"
    r"(?:.*\n){1,10}?\s*Node: +(\S+)\s+Executable: (.+)"
)
_EXECVE: Final = re.compile(
    r"tried to fork a new process via the \"execve\" system call(?:.*\n){1,8}?"
    r"\s*Local host: +(\S+)\s+Working dir: +.*\s+Application name: +(.+)\s+Error: +(.+)"
)
_DIRECTORY: Final = re.compile(
    r"could not\s+change to the specified working directory:\s+Working directory: (.+)\s+Node: (\S+)"
    r"\s+while attempting to start process rank ([0-9]+)"
)
_SLOTS: Final = re.compile(
    r"There are not enough slots available in the system to satisfy the ([0-9]+)\s+slots that were requested"
)
_PER_NODE: Final = re.compile(
    r"Your job has requested more processes than the ppr for\s+this topology can support:"
    r"\s+App: .{,1000}\s{1,80}Number of procs: +([0-9]+)"
)
_OPTION: Final = re.compile(
    r"An unrecognized option was included on the mpirun command line:\s+Option: (\S+)"
    r"|mpirun: Error: unknown option \"([^\"]+)\""
)
_IMPROPER: Final = re.compile(
    r"has exited due to process rank ([0-9]+) with PID [0-9]+ on\s+node (\S+) exiting\s+improperly\."
)

_LOST: Final = re.compile(
    r"(?:ORTE|PRTE) has lost communication with a remote daemon\.(?:.*\n){1,4}?"
    r" *Remote daemon: .* on node (\S+)"
)
# mpirun of Open MPI 5 says this at any time, if it sees its agent's exit code before the connection breaks.
_ENDED: Final = re.compile(
    r"A daemon failed to report back after being spawned\.(?:.*\n){1,8}?"
    r" *Remote host: +(\S+)\s+Daemon exit status: +([0-9]+)"
)
# What a shell says that was to become the program: our script `stdin`, which gives rank 0 its standard input.
_EXEC: Final = re.compile(r"^\S*/stdin: (?:line )?[0-9]+: (?:exec: )?(.+): (.+)$", re.MULTILINE)


def find_exec_error(text: str) -> str | None:
    """Return why a rank could not become its program, where our own script was to do that."""
    match = _EXEC.search(text)
    if match is None:
        return None
    error = "No such file or directory" if "/" in match[1] and match[2] == "not found" else match[2]
    return f"can't run {match[1]}: {error}"


def find_refusal(text: str, slots: int | None = None) -> Refusal | None:
    """Return what mpirun says in a launcher's output; `slots` is how many the job has, if that is known."""
    for pattern, explain in _EXPLANATIONS:
        if match := pattern.search(text):
            return explain(match)
    if match := _SLOTS.search(text) or _PER_NODE.search(text):
        there = "" if slots is None else f", {slots} {'slot' if slots == 1 else 'slots'}"
        return Refusal(f"not enough slots: {match[1]} ranks asked{there}", NOT_ENOUGH_SLOTS)
    return None


def _explain_no_access(match: re.Match[str]) -> Refusal:
    message = f"can't run {match[1]}: No such file or directory, or not executable"
    return Refusal(message, START_ERROR, _NOT_FOUND, int(match[3]), match[2])


def _explain_not_on_path(match: re.Match[str]) -> Refusal:
    message = f"can't run {match[3]}: not found on PATH"
    if match[3] in _OPTION_VALUES:
        message += "; if it is the value of an option, write that with two dashes: Open MPI 5 needs them"
    return Refusal(message, START_ERROR, _NOT_FOUND, int(match[1]), match[2])


def _explain_execve(match: re.Match[str]) -> Refusal:
    error = match[3].removeprefix(f"{match[2]} ")
    return Refusal(f"can't run {match[2]}: {error}", START_ERROR, _NOT_EXECUTABLE, node=match[1])


def _explain_directory(match: re.Match[str]) -> Refusal:
    message = f"can't change to the working directory {match[1]}: No such file or directory"
    return Refusal(message, START_ERROR, rank=int(match[3]), node=match[2])


def _explain_option(match: re.Match[str]) -> Refusal:
    return Refusal(f"mpirun has no option {match[1] or match[2]}", START_ERROR)


def _explain_improper(match: re.Match[str]) -> Refusal:
    message = "exited before all ranks had called MPI_Init, or without MPI_Finalize"
    return Refusal(message, NO_FINALIZE, rank=int(match[1]), node=match[2])


def _explain_lost(match: re.Match[str]) -> Refusal:
    message = f"mpirun lost its daemon on {match[1]}: it was killed, or can't be reached"
    return Refusal(message, DAEMON_LOST, node=match[1])


def _explain_ended(match: re.Match[str]) -> Refusal:
    causes = "it was killed, or can't be run or reached"
    return Refusal(
        f"mpirun's daemon on {match[1]} ended with code {match[2]}: {causes}", DAEMON_LOST, node=match[1]
    )


_EXPLANATIONS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Refusal]], ...]] = (
    (_NO_ACCESS, _explain_no_access),
    (_NOT_ON_PATH, _explain_not_on_path),
    (_EXECVE, _explain_execve),
    (_DIRECTORY, _explain_directory),
    (_OPTION, _explain_option),
    (_IMPROPER, _explain_improper),
    (_LOST, _explain_lost),
    (_ENDED, _explain_ended),
)
