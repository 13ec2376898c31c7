"""Pods on their way out that a gang engine holds: it waits for another, which can't have its name before.

Also those of jobs that are gone, so this is not for a plan, which is about a job.
"""

import logging
from collections.abc import Callable

from bireme.api.core import Pod
from bireme.control.queue import WorkQueue
from bireme.kube.client import Client
from bireme.kube.errors import Conflict, KubeError, NotFound
from bireme.kube.resources import PODS

log = logging.getLogger("bireme.controller")

PodKey = tuple[str, str]


class Releases:
    """Takes the engine's finalizer off pods that are being deleted; their grace they still have."""

    def __init__(
        self,
        client: Client,
        finalizer: str,
        find: Callable[[str, str], Pod | None],
        may_write: Callable[[], bool],
    ) -> None:
        self._client = client
        self._finalizer = finalizer
        self._find = find
        self._may_write = may_write
        self._queue: WorkQueue[PodKey] = WorkQueue()

    def hear(self, pod: Pod | None) -> None:
        """A pod has changed, or is gone."""
        if pod is not None and self._holds(pod):
            self._queue.add((pod.metadata.namespace, pod.metadata.name))

    def _holds(self, pod: Pod) -> bool:
        leaves = pod.metadata.deletion_timestamp is not None
        return leaves and self._finalizer in pod.metadata.finalizers

    async def run(self) -> None:
        """Work until cancelled."""
        while (key := await self._queue.get()) is not None:
            try:
                await self._look(key)
            except (KubeError, TimeoutError) as error:
                log.warning("can't release pod %s: %s", key[1], error, extra={"namespace": key[0]})
                self._queue.retry(key)
            else:
                self._queue.forget(key)
            finally:
                self._queue.done(key)

    async def _look(self, key: PodKey) -> None:
        pod = self._find(*key)
        if pod is None or not self._holds(pod) or not self._may_write():
            return
        metadata = pod.metadata
        kept = [each for each in metadata.finalizers if each != self._finalizer]
        # The version, or a finalizer that somebody has just added would be lost.
        same = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        try:
            await self._client.patch(PODS, *key, {"metadata": {**same, "finalizers": kept}})
        except (Conflict, NotFound):
            # It has changed or is gone, and the cache will tell.
            return
