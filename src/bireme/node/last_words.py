"""What a container said at its end."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bireme.api.names import LAUNCHER_TYPE
from bireme.node.driver import message_file
from bireme.node.folders import PodFolder
from bireme.node.output import tail
from bireme.node.seen import Object
from bireme.planning.echoes import without_echoes
from bireme.planning.identity import REPLICA_TYPE_LABEL

_MESSAGE_BYTES: Final = 4096
_MESSAGE_LINES: Final = 80
_FALLBACK_BYTES: Final = 2048
_ECHO_LINES: Final = 2000
_ECHO_BYTES: Final = 128 << 10


def read_last_words(folder: PodFolder, pod: Object, container: Object, record: Mapping[str, Any]) -> str:
    """What a container wrote about its end, or else how its output ended if it failed."""
    name, attempt = container.get("name", ""), record["attempt"]
    if text := read_message(message_file(folder, name, attempt)):
        return text
    if record.get("code") and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        output = folder.output(name, attempt)
        return _end_of_launcher(output) if is_launcher(pod) else tail(output, _MESSAGE_LINES, _FALLBACK_BYTES)
    return ""


def read_message(path: Path) -> str:
    """The beginning of a termination message; empty if there is none.

    The container writes the file, so it is opened and read with bounds: no link, no pipe, no device, no
    more than a status holds.
    """
    with contextlib.suppress(OSError), _opened(path, os.O_RDONLY) as file:
        data = os.pread(file, _MESSAGE_BYTES, 0)
        return data.decode(errors="replace")
    return ""


def write_message(path: Path, text: str) -> None:
    """Replace a termination message. A file that is not a plain one any more is left alone."""
    with contextlib.suppress(OSError), _opened(path, os.O_WRONLY) as file:
        os.ftruncate(file, 0)
        os.pwrite(file, text.encode(), 0)


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """Open a regular file, and nothing else. Raises OSError."""
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        yield file
    finally:
        os.close(file)


def is_launcher(pod: Object) -> bool:
    """Whether this pod reports how others failed."""
    return bool((pod["metadata"].get("labels") or {}).get(REPLICA_TYPE_LABEL) == LAUNCHER_TYPE)


def _end_of_launcher(output: Path) -> str:
    """As `tail`, but cut only once the echoes are out: each rank adds its own, and a few fill the message."""
    text = without_echoes(tail(output, _ECHO_LINES, _ECHO_BYTES))
    said = text.encode()[-_FALLBACK_BYTES:].decode(errors="ignore")
    return "".join(said.splitlines(keepends=True)[-_MESSAGE_LINES:])
