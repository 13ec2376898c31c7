"""The garbage collector and the namespace controller, some time after there is something to do."""

from typing import Final

from bireme.apiserver.garbage import collect, finish_namespaces
from bireme.apiserver.kinds import EVENT, NAMESPACE
from bireme.testing.simulation.cluster import Cluster, Write

_SOON: Final = 0.1
_LATE: Final = 8.0


class Janitor:
    """Looks again after each deletion, and after each child that comes without an owner."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._due = False
        self._uids: set[str] = set()
        cluster.listeners.append(self._hear)

    def _hear(self, write: Write) -> None:
        metadata = write.object["metadata"]
        if write.after is None:
            self._uids.discard(metadata["uid"])
        else:
            self._uids.add(metadata["uid"])
        if write.kind is EVENT or self._due:
            return
        owners = metadata.get("ownerReferences") or ()
        abandoned = write.after is not None and any(owner["uid"] not in self._uids for owner in owners)
        gone = write.after is None and not owners
        held = write.kind is NAMESPACE and "deletionTimestamp" in metadata
        foreground = "deletionTimestamp" in metadata and bool(metadata.get("finalizers"))
        if abandoned or gone or held or foreground:
            self._come_later()

    def _come_later(self) -> None:
        self._due = True
        self._cluster.later(_SOON, _LATE, self._work)

    def _work(self) -> None:
        self._due = False
        store, now = self._cluster.store, self._cluster.now()
        with self._cluster.acting("janitor"):
            done = collect(store, now) + finish_namespaces(store, now)
        if done and not self._due:
            self._come_later()
