"""Starting a process, and saying why where it can't be."""

import contextlib
import errno
import fcntl
import json
import os
import resource
import signal
import termios
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bireme.node.shim import kernel, mounts

NOT_FOUND = 127
NOT_EXECUTABLE = 126
UMASK = 0o022
"""That of containers: what a job writes is for others to read, unlike what is ours."""
_TERMINAL = {"TERM": "xterm"}
"""What container runtimes set with a terminal, for a program that is not told otherwise."""


class Command(NamedTuple):
    argv: list[str]
    env: dict[str, str]
    directory: str
    mounts: Sequence[dict[str, Any]] = ()
    scratch: str = ""
    cgroups: Sequence[str] = ()
    enter: Sequence[str] = ()
    """The program that runs a command beside this one, told in JSON; none where that is just started."""
    umask: int = UMASK
    limits: Mapping[str, Sequence[int]] = {}
    """Resource limits, soft and hard, by name."""


class Child(NamedTuple):
    pid: int
    error: str = ""
    """Why the program could not be started; the child ends by itself then, with 126 or 127."""


def start(command: Command, stdin: int, stdout: int, stderr: int) -> Child:
    """Start a program in a session of its own; it goes when this process goes."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            _become(command, stdin, stdout, stderr)
        except BaseException as problem:
            # Nothing may get past this point in a child.
            _give_up(writing, command, problem)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        error = pipe.read().decode(errors="replace")
    return Child(pid, error)


def beside(like: Command, order: dict[str, Any]) -> Command:
    """The command that runs `argv`, with `env` and in `directory` where given, beside another one."""
    if like.enter:
        wanted = {key: order[key] for key in ("argv", "env", "directory") if key in order}
        return like._replace(argv=[*like.enter, json.dumps(wanted)])
    directory = order.get("directory") or like.directory
    return like._replace(argv=order["argv"], env=like.env | order.get("env", {}), directory=directory)


def _become(command: Command, stdin: int, stdout: int, stderr: int) -> None:
    os.setsid()
    os.umask(command.umask)
    for folder in command.cgroups:
        with open(f"{folder}/cgroup.procs", "w") as file:  # noqa: PTH123
            file.write("0")
    kernel.die_with_parent(signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for signum in (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(signum, signal.SIG_DFL)
    # Upwards first: one of the three may stand where another is to go.
    sources = [os.dup2(number, 100 + place) for place, number in enumerate((stdin, stdout, stderr))]
    for place, number in enumerate(sources):
        os.dup2(number, place, inheritable=True)
        os.close(number)
    if command.mounts:
        mounts.arrange(command.mounts, command.scratch)
        if any(command.directory.startswith(f"{each['target']}/") for each in command.mounts):
            # In a volume it is made where it is missing, as container runtimes do it.
            os.makedirs(command.directory, exist_ok=True)  # noqa: PTH103
    os.chdir(command.directory)
    env = _TERMINAL | command.env if _take_terminal() else command.env
    # Last: a low limit of descriptors would keep those above from their places.
    for name, (soft, hard) in command.limits.items():
        _limit(name, soft, hard)
    os.execvpe(command.argv[0], command.argv, env)  # noqa: S606 - an argument list, no shell


def _limit(name: str, soft: int, hard: int) -> None:
    """Set a resource limit, or as near to it as this process may."""
    number = getattr(resource, f"RLIMIT_{name}", None)
    if number is None:
        return
    try:
        resource.setrlimit(number, (soft, hard))
    except (OSError, ValueError):
        most = resource.getrlimit(number)[1]
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(number, (_lower(soft, most), _lower(hard, most)))


def _lower(first: int, second: int) -> int:
    """The lower of two limits; -1 is none."""
    return max(first, second) if -1 in (first, second) else min(first, second)


def _take_terminal() -> bool:
    """Make the terminal on descriptor 0 the session's own, for Ctrl-C and its size; whether there is one."""
    if not os.isatty(0):
        return False
    # It may be another session's: a command that was run by hand on a terminal hands that on.
    with contextlib.suppress(OSError):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    return True


def _give_up(writing: int, command: Command, error: BaseException) -> None:
    if isinstance(error, PermissionError) and is_nowhere(command):
        error = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    try:
        os.write(writing, _explained(command, error).encode()[:4096])
    finally:
        os._exit(code)


def is_nowhere(command: Command) -> bool:
    """Whether PATH has no such program: one of its folders that is closed to us would be blamed instead."""
    program, folders = command.argv[0], command.env.get("PATH", os.defpath).split(os.pathsep)
    return "/" not in program and not any(os.path.lexists(f"{folder}/{program}") for folder in folders)


def _explained(command: Command, error: BaseException) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError) and not os.path.isdir(command.directory):  # noqa: PTH112
        return f"the working directory {command.directory} is not there"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"can't run {command.argv[0]}: {reason}"
