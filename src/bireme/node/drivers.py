"""Which driver runs a pod: its own annotation says, or its job's, or the node's setting."""

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from bireme.node.driver import RUN_ERROR, Caller, ProcessDriver, UnstartableError, limits_name
from bireme.node.environment import Sources
from bireme.node.folders import NodeFolder, PodFolder
from bireme.node.machine import Machine
from bireme.node.podman import driver as podman
from bireme.node.podman.driver import PodmanDriver
from bireme.node.seen import Object, Problem

DRIVER: Final = "bireme.dev/driver"
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
        self._default = default
        self.devices = self._process.devices

    def pod_orders(self, pod: Object, network: dict[str, Any] | None) -> dict[str, Any]:
        """What the shim of a pod makes before any container."""
        return self._process.pod_orders(pod, network)

    async def start_order(
        self,
        pod: Object,
        container: Object,
        attempt: int,
        folder: PodFolder,
        volumes: Mapping[str, Path],
        sources: Sources,
        caller: Caller,
    ) -> dict[str, Any]:
        """The order that starts a container. Raises UnstartableError."""
        if self._choose(pod, caller) == podman.PODMAN:
            return await self._podman.start_order(pod, container, attempt, folder, volumes, sources)
        return self._process.start_order(pod, container, attempt, folder, volumes, sources, caller)

    def _choose(self, pod: Object, caller: Caller) -> str:
        own = (pod["metadata"].get("annotations") or {}).get(DRIVER)
        chosen: str = own or caller.driver or self._default
        if chosen not in NAMES:
            message = f"annotation {DRIVER}: {chosen!r} is not a driver: use {' or '.join(NAMES)}"
            raise UnstartableError(Problem(RUN_ERROR, message, fatal=True))
        return chosen

    def complete(self, pod: Object, folder: PodFolder, name: str, record: dict[str, Any]) -> None:
        """Add to the record of a container that has ended what its shim can't know."""
        if "oom" in record:
            return
        record["oom"] = False
        if podman.is_used(folder):
            record |= podman.read_result(folder, name, record["attempt"])
        elif record.get("signal"):
            record["oom"] = self._process.limits.was_oom_killed(limits_name(pod, name))

    def sweep(self, folder: PodFolder) -> Coroutine[Any, Any, None]:
        """End what a pod that has lost its shim has at this moment, and not what it may have later."""
        return asyncio.to_thread(podman.remove, podman.containers(folder))

    def clear(self, pod: Object, folder: PodFolder) -> None:
        """Take away what is left of a pod of which nothing runs."""
        podman.remove(podman.containers(folder))
        spec = pod["spec"]
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            self._process.limits.remove(limits_name(pod, container["name"]))
