"""What a container said at its end."""

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from bireme.node.driver import message_file
from bireme.node.folders import PodFolder
from bireme.node.output import tail
from bireme.node.seen import Object

_MESSAGE_BYTES: Final = 4096
_MESSAGE_LINES: Final = 80
_FALLBACK_BYTES: Final = 2048


def read_last_words(folder: PodFolder, container: Object, record: Mapping[str, Any]) -> str:
    """What a container wrote about its end, or else how its output ended if it failed."""
    name, attempt = container.get("name", ""), record["attempt"]
    with contextlib.suppress(OSError):
        text = message_file(folder, name, attempt).read_text(errors="replace")
        if text:
            return text[:_MESSAGE_BYTES]
    if record.get("code") and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        return tail(folder.output(name, attempt), _MESSAGE_LINES, _FALLBACK_BYTES)
    return ""
