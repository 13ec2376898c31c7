"""The user namespace of rootless podman, which shims of its pods enter.

Rootless podman makes one user namespace and one mount namespace for all containers of a user, with the IDs
that /etc/subuid and /etc/subgid give the user. Its containers share host name and network with their shim,
so the shim must live in these namespaces. `podman unshare` runs a program in them: here one that waits, and
that ends with the daemon. Shims do not need it once they are inside.
"""

import asyncio
import sys
from collections.abc import Mapping
from typing import Final

from bireme.node.driver import RUN_ERROR, UnstartableError
from bireme.node.folders import ROOT, NodeFolder
from bireme.node.podman.images import complaint
from bireme.node.seen import Problem

_START_SECONDS: Final = 60.0
_PROGRAM: Final = """
import os, sys
sys.path.insert(0, sys.argv[1])
from bireme.node.shim import kernel
kernel.detach()
kernel.set_name("bireme-userns")
print(os.getpid(), flush=True)
os.dup2(2, 1)
os.read(0, 1)
"""


class UserNamespace:
    """Keeps a process in podman's namespaces."""

    def __init__(self, podman: str, env: Mapping[str, str], folder: NodeFolder) -> None:
        self._podman, self._env, self._folder = podman, dict(env), folder
        self._lock = asyncio.Lock()
        # Kept: asyncio closes the pipes of a process that is forgotten, and the holder ends with its input.
        self._process: asyncio.subprocess.Process | None = None
        self._pid = 0

    async def holder(self, container: str) -> int:
        """Return the process that is in the namespaces, after starting it. Raises UnstartableError."""
        async with self._lock:
            if self._process is None or not _is_in_place(self._pid):
                await self._start(container)
        return self._pid

    async def _start(self, container: str) -> None:
        program = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(ROOT), f"{self._folder.path}/userns"]
        process = await asyncio.create_subprocess_exec(
            self._podman,
            "unshare",
            *program,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._env,
            cwd="/",
        )
        assert process.stdout is not None
        assert process.stderr is not None
        line = b""
        try:
            async with asyncio.timeout(_START_SECONDS):
                line = await process.stdout.readline()
                if not line.strip().isdigit():
                    error = (await process.stderr.read(1 << 16)).decode(errors="replace")
                    raise UnstartableError(_problem(complaint(error), container))
        except TimeoutError as error:
            process.kill()
            raise UnstartableError(_problem("`podman unshare` does not answer", container)) from error
        self._process, self._pid = process, int(line)


def _problem(why: str, container: str) -> Problem:
    message = f"rootless podman can't be used here: {why}"
    hint = "it needs newuidmap (package uidmap) and ranges for this user in /etc/subuid and /etc/subgid"
    return Problem(RUN_ERROR, f"{message}: {hint}", container, fatal=True)


def _is_in_place(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/comm") as file:  # noqa: PTH123
            return file.read().strip() == "bireme-userns"
    except OSError:
        return False
