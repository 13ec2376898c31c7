"""What tests must not leave behind."""

import contextlib
import os

from bireme.node.shim.tree import all_processes


def processes_with(text: str) -> list[str]:
    """The commands of processes, other than this one, that have a text in their arguments or environment."""
    found = []
    for process in all_processes():
        with contextlib.suppress(OSError):
            if process.pid == os.getpid() or process.is_zombie:
                continue
            said = b""
            for file in ("cmdline", "environ"):
                with open(f"/proc/{process.pid}/{file}", "rb") as opened:  # noqa: PTH123
                    said += opened.read()
            if text.encode() in said:
                found.append(said[:200].replace(b"\0", b" ").decode(errors="replace"))
    return found
