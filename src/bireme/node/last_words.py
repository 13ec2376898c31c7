"""What a container said at its end."""

import contextlib
from collections.abc import Mapping
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
    with contextlib.suppress(OSError):
        text = message_file(folder, name, attempt).read_text(errors="replace")
        if text:
            return text[:_MESSAGE_BYTES]
    if record.get("code") and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        output = folder.output(name, attempt)
        return _end_of_launcher(output) if is_launcher(pod) else tail(output, _MESSAGE_LINES, _FALLBACK_BYTES)
    return ""


def is_launcher(pod: Object) -> bool:
    """Whether this pod reports how others failed."""
    return bool((pod["metadata"].get("labels") or {}).get(REPLICA_TYPE_LABEL) == LAUNCHER_TYPE)


def _end_of_launcher(output: Path) -> str:
    """As `tail`, but cut only once the echoes are out: each rank adds its own, and a few fill the message."""
    text = without_echoes(tail(output, _ECHO_LINES, _ECHO_BYTES))
    said = text.encode()[-_FALLBACK_BYTES:].decode(errors="ignore")
    return "".join(said.splitlines(keepends=True)[-_MESSAGE_LINES:])
