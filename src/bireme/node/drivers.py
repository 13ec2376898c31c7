"""Which driver runs a pod: its own annotation says, or its job's, or the node's setting."""

import asyncio
import os
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from bireme.node import shims
from bireme.node.cgroups import remove, was_oom_killed
from bireme.node.driver import RUN_ERROR, Origin, ProcessDriver, UnstartableError
from bireme.node.environment import Sources
from bireme.node.folders import NodeFolder, PodFolder
from bireme.node.ignored_fields import Here, describe_placement, describe_user, describe_volumes
from bireme.node.machine import Machine
from bireme.node.podman import driver as podman
from bireme.node.podman.driver import PodmanDriver, describe_shared_tmpfs
from bireme.node.seen import Object, Problem
from bireme.node.submitter import DRIVER
from bireme.node.substitutes import unasked

PROCESS: Final = "process"
NAMES: Final = (PROCESS, podman.PODMAN)


class Drivers:
    """All that can run a pod on this node. What a pod was started with is left in its folder."""

    def __init__(
        self,
        folder: NodeFolder,
        machine: Machine,
        environment: Mapping[str, str],
        directory: Path,
        default: str = PROCESS,
    ) -> None:
        self._process = ProcessDriver(folder, machine, environment, directory)
        self._podman = PodmanDriver(folder, machine, self._process.devices)
        self._folder, self._default, self._machine = folder, default, machine
        self.devices = self._process.devices

    def pod_orders(self, pod: Object, network: dict[str, Any] | None) -> dict[str, Any]:
        """What the shim of a pod makes before any container."""
        orders = self._process.pod_orders(pod, network)
        if not podman.is_used(self._folder.pod(pod["metadata"]["uid"])):
            return orders
        return orders | self._podman.pod_orders(pod)

    def entry(self, pod: Object, origin: Origin) -> tuple[str, ...]:
        """The command that runs another one in the user namespace of a pod's shim; empty for its own."""
        return self._podman.entry if self._wanted(pod, origin) == podman.PODMAN else ()

    async def start_order(
        self,
        pod: Object,
        container: Object,
        attempt: int,
        folder: PodFolder,
        volumes: Mapping[str, Path],
        sources: Sources,
        origin: Origin,
    ) -> dict[str, Any]:
        """The order that starts a container. Raises UnstartableError."""
        if self._choose(pod, origin) == podman.PODMAN:
            order = await self._podman.start_order(pod, container, attempt, folder, volumes, sources)
        else:
            order = self._process.start_order(pod, container, attempt, folder, volumes, sources, origin)
        return order | {"notices": [*order["notices"], *unasked(container)]}

    def describe_ignored(self, pod: Object, origin: Origin, labels: Mapping[str, str]) -> list[str]:
        """Describe the fields of a pod that this machine does not honour; `labels` are those of the Node."""
        here = Here(self._machine.name, os.getuid(), os.getgid(), self._process.can_mount, labels)
        notices = [*describe_placement(pod, here), *describe_volumes(pod, here)]
        if self._choose(pod, origin) == podman.PODMAN:
            return [*notices, *describe_shared_tmpfs(pod)]
        return [*notices, *describe_user(pod, here)]

    def _choose(self, pod: Object, origin: Origin) -> str:
        chosen = self._wanted(pod, origin)
        if chosen not in NAMES:
            message = f"annotation {DRIVER}: {chosen!r} is not a driver: use {' or '.join(NAMES)}"
            raise UnstartableError(Problem(RUN_ERROR, message, fatal=True))
        return chosen

    def _wanted(self, pod: Object, origin: Origin) -> str:
        own: str | None = (pod["metadata"].get("annotations") or {}).get(DRIVER)
        return own or origin.driver or self._default

    def complete(self, folder: PodFolder, name: str, record: dict[str, Any]) -> None:
        """Add to the record of a container that has ended what its shim can't know.

        One that fails after the kernel killed something in it for want of memory has run out of memory,
        whichever of its processes that was: so container runtimes see it.
        """
        if "oom" in record:
            return
        record["oom"] = False
        if podman.is_used(folder):
            record |= podman.read_result(folder, name, record["attempt"])
        elif record.get("code"):
            record["oom"] = was_oom_killed(record.get("cgroups", ()))

    def sweep(self, folder: PodFolder) -> Coroutine[Any, Any, None]:
        """End what a pod that has lost its shim has at this moment, and not what it may have later."""
        return asyncio.to_thread(podman.remove, podman.containers(folder))

    def clear(self, pod: Object, folder: PodFolder) -> None:
        """Take away what is left of a pod of which nothing runs."""
        podman.remove(podman.containers(folder))
        remove(Path(each) for each in shims.read_cgroups(folder))
        self._process.limits.clear(pod["metadata"]["uid"])

    def remove(self, folder: PodFolder) -> None:
        """Remove a pod's folder. Idempotent."""
        podman.remove_folder(folder)
