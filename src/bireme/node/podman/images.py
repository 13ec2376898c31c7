"""The images on this machine, and those that podman can fetch."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from bireme.node.driver import UnstartableError
from bireme.node.podman.arguments import Image
from bireme.node.seen import Object, Problem

PULL_ERROR: Final = "ErrImagePull"
BACK_OFF: Final = "ImagePullBackOff"
NEVER_PULL: Final = "ErrImageNeverPull"
_FIRST_SECONDS, _LONGEST_SECONDS = 10.0, 300.0
_SHOWN_SECONDS: Final = 5.0
_LOCAL: Final = "localhost/"
INVALID_NAME: Final = "InvalidImageName"
_REFERENCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*")
_TRANSPORTS: Final = frozenset(
    {
        "containers-storage",
        "dir",
        "docker",
        "docker-archive",
        "docker-daemon",
        "oci",
        "oci-archive",
        "ostree",
        "sif",
        "tarball",
    }
)
"""Words by which podman would read an image from a file of this machine instead of a registry."""


class Told(NamedTuple):
    code: int
    output: str
    error: str


class _Pull:
    """One image that is being fetched, or could not be."""

    def __init__(self, task: "asyncio.Task[Told]") -> None:
        self.task = task
        self.failures = 0
        self.failed_at = 0.0
        self.why = ""

    @property
    def wait_seconds(self) -> float:
        return min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** max(0, self.failures - 1))


class Images:
    """Looks images up, and fetches each one at a time, for all pods together."""

    def __init__(
        self, podman: str, env: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._podman, self._env, self._clock = podman, dict(env), clock
        self._pulls: dict[str, _Pull] = {}
        self._pulled: set[tuple[str, str, int]] = set()

    async def find(self, container: Object, uid: str, attempt: int) -> Image:
        """The image of an attempt at a container, as its policy says. Raises UnstartableError."""
        name, policy = container.get("image") or "", container.get("imagePullPolicy") or "IfNotPresent"
        if why := describe_invalid(name):
            raise UnstartableError(Problem(INVALID_NAME, why, container["name"], fatal=True))
        found = await self._inspect(name)
        key = (uid, container["name"], attempt)
        # What is built here is on no server, whatever the policy.
        if found is not None and (policy != "Always" or name.startswith(_LOCAL) or key in self._pulled):
            return found
        if policy == "Never":
            message = f"container image {name!r} is not present with pull policy of Never"
            raise UnstartableError(Problem(NEVER_PULL, message, container["name"]))
        await self._pull(name, container["name"])
        self._pulled.add(key)
        found = await self._inspect(name)
        if found is None:
            raise UnstartableError(Problem(PULL_ERROR, f"image {name!r} is gone again", container["name"]))
        return found

    async def ask(self, *arguments: str) -> Told:
        """Run podman to its end."""
        process = await asyncio.create_subprocess_exec(
            self._podman,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._env,
        )
        output, error = await process.communicate()
        return Told(process.returncode or 0, output.decode(errors="replace"), error.decode(errors="replace"))

    async def _inspect(self, name: str) -> Image | None:
        told = await self.ask("image", "inspect", "--", name)
        return read_image(json.loads(told.output)[0]) if told.code == 0 else None

    async def _pull(self, name: str, container: str) -> None:
        """Return once it is fetched; until then, and where it can't be, raise UnstartableError."""
        pull = self._pulls.get(name)
        if pull is not None and pull.why:
            since = self._clock() - pull.failed_at
            if since < pull.wait_seconds:
                raise UnstartableError(_problem(name, container, pull, is_new=since < _SHOWN_SECONDS))
            pull.task, pull.why = self._begin(name), ""
        elif pull is None:
            pull = self._pulls[name] = _Pull(self._begin(name))
        await asyncio.wait({pull.task}, timeout=1.0)
        if not pull.task.done():
            raise UnstartableError(Problem("ContainerCreating", f"pulling image {name!r}", container))
        told = pull.task.result()
        if told.code == 0:
            self._pulls.pop(name, None)
            return
        if not pull.why:
            pull.failures, pull.failed_at, pull.why = pull.failures + 1, self._clock(), complaint(told.error)
        raise UnstartableError(_problem(name, container, pull, is_new=True))

    def _begin(self, name: str) -> "asyncio.Task[Told]":
        return asyncio.get_running_loop().create_task(self.ask("pull", "--quiet", "--", name))


def _problem(name: str, container: str, pull: _Pull, *, is_new: bool) -> Problem:
    if is_new:
        return Problem(PULL_ERROR, f"failed to pull image {name!r}: {pull.why}", container)
    return Problem(BACK_OFF, f"Back-off pulling image {name!r}: {pull.why}", container)


def describe_invalid(name: str) -> str:
    """Say why a name can't be that of an image; empty if it can."""
    if not name:
        return "image: driver podman needs the name of an image"
    if _REFERENCE.fullmatch(name) is None:
        return f"image {name[:256]!r}: a name begins with a letter or a digit, and has no spaces"
    first, colon, rest = name.partition(":")
    if colon and (rest.startswith("/") or first in _TRANSPORTS):
        return f"image {name[:256]!r}: {first}: is not a registry: use REGISTRY/NAME:TAG"
    return ""


def complaint(error: str) -> str:
    """What podman says at last, without its own marks."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    told = next((line for line in reversed(lines) if line.startswith("Error:")), lines[-1] if lines else "")
    return told.removeprefix("Error:").strip() or "podman did not say why"


def read_image(inspected: Mapping[str, Any]) -> Image:
    """From `podman image inspect`."""
    config = inspected.get("Config") or {}
    variables = dict(each.split("=", 1) for each in config.get("Env") or () if "=" in each)
    return Image(
        id=inspected.get("Id") or "",
        user=config.get("User") or inspected.get("User") or "",
        path=variables.get("PATH") or Image().path,
        has_command=bool(config.get("Entrypoint") or config.get("Cmd")),
        stop_signal=config.get("StopSignal") or "",
    )
