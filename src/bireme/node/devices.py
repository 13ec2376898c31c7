"""GPUs, handed out exclusively: a container sees those that it asked for, and no others."""

from collections.abc import Iterable
from typing import Final

from bireme.node.seen import Object

RESOURCE: Final = "nvidia.com/gpu"
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


class NoDeviceError(Exception):
    """There are not as many as are asked for just now."""


class Devices:
    """Which pod has which GPUs. The scheduler has counted them before; this gives them names."""

    def __init__(self, gpus: Iterable[str]) -> None:
        self._gpus = tuple(gpus)
        self._held: dict[str, dict[str, list[str]]] = {}

    def environment(self, pod: Object, container: Object) -> dict[str, str]:
        """What a container must be told. Raises NoDeviceError."""
        if not self._gpus:
            return {}
        return {VISIBLE: ",".join(self._take(pod["metadata"]["uid"], container))}

    def held(self, uid: str) -> dict[str, list[str]]:
        """What a pod has, by container: to be kept with it."""
        return self._held.get(uid, {})

    def restore(self, uid: str, held: dict[str, list[str]]) -> None:
        """Take up what a pod had before this process began."""
        self._held[uid] = held

    def release(self, uid: str) -> None:
        self._held.pop(uid, None)

    def _take(self, uid: str, container: Object) -> list[str]:
        own = self._held.setdefault(uid, {})
        if container["name"] in own:
            return own[container["name"]]
        count = wanted(container)
        taken = {gpu for pod in self._held.values() for gpus in pod.values() for gpu in gpus}
        free = [gpu for gpu in self._gpus if gpu not in taken]
        if len(free) < count:
            raise NoDeviceError(f"{count} GPUs are asked for, and {len(free)} of {len(self._gpus)} are free")
        own[container["name"]] = free[:count]
        return own[container["name"]]


def wanted(container: Object) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return int(limits.get(RESOURCE, 0))
