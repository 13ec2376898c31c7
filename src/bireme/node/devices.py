"""GPUs, handed out exclusively: a container sees those that it asked for, and no others."""

from collections.abc import Iterable
from typing import Final

from bireme.node.containers import roles
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
        return {VISIBLE: ",".join(self._take(pod, container))}

    def held(self, uid: str) -> dict[str, list[str]]:
        """What a pod has, by container: to be kept with it."""
        return self._held.get(uid, {})

    def restore(self, uid: str, held: dict[str, list[str]]) -> None:
        """Take up what a pod had before this process began."""
        self._held[uid] = held

    def release(self, uid: str) -> None:
        self._held.pop(uid, None)

    def _take(self, pod: Object, container: Object) -> list[str]:
        own = self._held.setdefault(pod["metadata"]["uid"], {})
        if container["name"] in own:
            return own[container["name"]]
        count, free = wanted(container), self._free(pod)
        if len(free) < count:
            raise NoDeviceError(f"{count} GPUs are asked for, and {len(free)} of {len(self._gpus)} are free")
        own[container["name"]] = free[:count]
        return own[container["name"]]

    def _free(self, pod: Object) -> list[str]:
        """Those that a pod can give to its next container; first those that its init containers leave to it.

        As these run one after the other before the rest, a pod needs no more than the larger share.
        """
        uid, left, taken = pod["metadata"]["uid"], set[str](), set[str]()
        init = {container["name"] for container, role in roles(pod["spec"]) if role == "init"}
        for holder, shares in self._held.items():
            for name, gpus in shares.items():
                (left if holder == uid and name in init else taken).update(gpus)
        free = [gpu for gpu in self._gpus if gpu not in taken]
        return sorted(free, key=lambda gpu: gpu not in left)


def wanted(container: Object) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return int(limits.get(RESOURCE, 0))
