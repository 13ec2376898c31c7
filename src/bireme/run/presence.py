"""Whether a daemon runs for a data folder, who it is, and how one is started.

daemon.json   who the daemon is, while it runs
daemon.log    what it had to say, this time and the last
starting      held while somebody starts a daemon, or looks whether one runs
"""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from bireme import private_files
from bireme.disk import is_full
from bireme.node.shim.tree import read_process
from bireme.private_files import UnsafeFileError, open_log

_MOST_LOG: Final = 8 << 20
_MESSAGE_LINES: Final = 12
_END_SECONDS: Final = 20.0


class StartError(Exception):
    """The daemon can't be started, or the folder can't be used; the message is for people."""


class Daemon(msgspec.Struct, frozen=True, rename="camel"):
    """A daemon that runs. One that does not stay ends by itself when nobody needs it."""

    pid: int
    url: str
    kubeconfig: str
    started: datetime
    isolation: str = "none"
    node: str = ""
    stays: bool = True
    ending: bool = False
    socket: str = ""
    driver: str = ""
    limits: tuple[str, ...] = ()
    keep_finished_seconds: float | None = None
    """0 is for ever; None, as for the next two, is not known: an older daemon does not tell."""
    cpu: str | None = None
    memory: str | None = None
    start_ticks: int | None = None
    """When the process was started, as /proc tells: another process may have its number by now."""


def card(folder: Path) -> Path:
    return folder / "daemon.json"


def log_file(folder: Path) -> Path:
    return folder / "daemon.log"


def find(folder: Path) -> Daemon | None:
    """The daemon of a folder; waits for one that is being started. Raises StartError."""
    try:
        private_files.check_folder(folder)
        if not os.path.lexists(folder / "lock"):
            return None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unusable(folder, error) from error
    with _starting(folder):
        return _found(folder)


def ensure(
    folder: Path,
    *,
    stays: bool,
    arguments: tuple[str, ...] = (),
    accept: Callable[[Daemon], None] = lambda _: None,
) -> tuple[Daemon, bool]:
    """The daemon of a folder, started if there is none, and whether it was. Raises StartError.

    `accept` may raise for one that runs already. One that was to end by itself stays from now on where that
    is asked for.
    """
    with _starting(folder):
        found = _found(folder)
        if found is None:
            return _start(folder, arguments), True
        accept(found)
        if stays and not found.stays:
            send_signal(found, signal.SIGUSR1)
            found = msgspec.structs.replace(found, stays=True)
        return found, False


def write_card(folder: Path, daemon: Daemon) -> None:
    """Let others read who the daemon is."""
    private_files.write_file(card(folder), msgspec.json.encode(daemon))


def send_signal(daemon: Daemon, signum: int) -> bool:
    """Signal a daemon; False if it has ended, also where another process has its number by now."""
    try:
        descriptor = os.pidfd_open(daemon.pid)
    except ProcessLookupError:
        return False
    try:
        # The descriptor is of the process that is looked at, or of one that has ended.
        if not _is_same(daemon):
            return False
        signal.pidfd_send_signal(descriptor, signum)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def _is_same(daemon: Daemon) -> bool:
    """Whether the process is still the daemon; older daemons do not tell when they were started."""
    process = read_process(daemon.pid)
    return process is not None and daemon.start_ticks in (None, process.start)


class _Kubeconfig(msgspec.Struct):
    """As a daemon writes it: one cluster, one user, one context."""

    users: list[dict[str, Any]] = []
    contexts: list[dict[str, Any]] = []


def read_token(daemon: Daemon) -> str | None:
    """What a daemon asks of its clients; None if its kubeconfig is not as it wrote it.

    Users may change that file, say with `kubectl config set-context`: then all of it must be read.
    """
    try:
        told = msgspec.json.decode(Path(daemon.kubeconfig).read_bytes(), type=_Kubeconfig)
        namespaces = [each["context"]["namespace"] for each in told.contexts]
        tokens: list[str] = [each["user"]["token"] for each in told.users]
    except (OSError, msgspec.DecodeError, LookupError, TypeError):
        return None
    return tokens[0] if daemon.socket and namespaces == ["default"] and len(tokens) == 1 else None


def wait_gone(pid: int, seconds: float) -> bool:
    """Wait until a process has ended; False if it has not by then."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def _unusable(folder: Path, error: OSError) -> StartError:
    if isinstance(error, UnsafeFileError):
        return StartError(error.message)
    return StartError(
        f"can't use {folder}: {error.strerror}\n\nhint: name a folder of your own with --data-dir"
    )


@contextlib.contextmanager
def _starting(folder: Path) -> Iterator[None]:
    try:
        private_files.make_folder(folder)
        descriptor = private_files.open_file(folder / "starting", os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise _unusable(folder, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _found(folder: Path) -> Daemon | None:
    holder = _holder(folder)
    if holder is None:
        return None
    daemon = _read_card(folder)
    if daemon is not None and daemon.pid == holder and daemon.ending:
        wait_gone(holder, _END_SECONDS)
        return _found(folder) if _holder(folder) != holder else daemon
    if daemon is None or daemon.pid != holder or not _is_same(daemon):
        raise StartError(
            f"{folder} is in use by process {holder}, which runs no jobs\n\n"
            "hint: stop that `bireme apiserver`, or choose another folder with --data-dir"
        )
    return daemon


def _read_card(folder: Path) -> Daemon | None:
    try:
        return msgspec.json.decode(private_files.read_file(card(folder)), type=Daemon)
    except UnsafeFileError as error:
        raise _unusable(folder, error) from error
    except (OSError, msgspec.DecodeError):
        return None


def _holder(folder: Path) -> int | None:
    """The process that holds the folder's lock, which goes with it however it ends."""
    try:
        descriptor = private_files.open_file(folder / "lock", os.O_RDWR)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(folder, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        written = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        return int(written) if written.isdigit() else 0
    finally:
        os.close(descriptor)
    return None


def _start(folder: Path, arguments: tuple[str, ...]) -> Daemon:
    """Start a daemon in a session of its own, and wait until it says that it is ready.

    It says so by a line on its standard output; whatever else it says is in its log. Ctrl-C ends it.
    """
    log = log_file(folder)
    _shorten(log)
    # -P: without it the modules of the current directory, which may be a stranger's, come before all others.
    # -I would also leave out the user's site-packages, where Bireme itself may be installed.
    command = [sys.executable, "-P", "-m", "bireme.cli.main", "daemon", "--data-dir", str(folder), *arguments]
    try:
        opened = open_log(log)
    except UnsafeFileError as error:
        raise _unusable(folder, error) from error
    with opened as output:
        begin = output.tell()
        with _signals_blocked() as unblock:
            process = subprocess.Popen(  # noqa: S603 - our own program
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
                preexec_fn=unblock,
            )
            assert process.stdout is not None
            try:
                unblock()
                with process.stdout as answer:
                    line = answer.readline()
            except (KeyboardInterrupt, SystemExit):
                # Nobody would know of a daemon that is not ready yet: to others the folder were just in use.
                process.terminate()
                process.wait()
                raise
    if not line:
        process.wait()
        raise StartError(_why(log, begin, process.returncode))
    return msgspec.json.decode(line, type=Daemon)


@contextlib.contextmanager
def _signals_blocked() -> Iterator[Callable[[], None]]:
    """Block the signals that end a command; the function unblocks them, here and in a child.

    A handler that raises while Popen forks would lose the process: nothing could end it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        yield unblock
    finally:
        unblock()


def _shorten(log: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if log.lstat().st_size > _MOST_LOG:
            log.replace(log.with_suffix(".log.1"))


def _why(log: Path, begin: int, code: int) -> str:
    with log.open("rb") as file:
        file.seek(begin)
        said = file.read().decode(errors="replace").strip().splitlines()
    told = "\n".join(said[-_MESSAGE_LINES:]).removeprefix("error: ")
    if not told and is_full(log.parent):
        told = f"there is no space left on the disk of {log.parent}"
    return f"the daemon can't be started: {told}" if told else f"the daemon ended with {code}; see {log}"
