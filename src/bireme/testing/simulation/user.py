"""Somebody who edits the job, each time it has come to where they wait for it."""

from collections.abc import Callable
from typing import NamedTuple

from bireme.apiserver.deletion import DeleteOptions
from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import POD, Kind
from bireme.apiserver.rules import Object
from bireme.testing.simulation.cluster import NAMESPACE_OF_JOBS, Cluster, Write

Condition = Callable[[Object | None, list[Object]], bool]
"""Whether a job, None if it is gone, and the pods of its namespace are as the user wants to see them."""


class Step(NamedTuple):
    """When, and what: a merge patch for the job, its manifest to create it again, None to delete it, or the
    name of a pod to delete."""

    when: Condition
    edit: Object | str | None


class User:
    """Does the steps one after the other."""

    def __init__(self, cluster: Cluster, kind: Kind, name: str, steps: tuple[Step, ...]) -> None:
        self._cluster, self._kind, self._name = cluster, kind, name
        self._left = list(steps)
        self._busy = False
        self.on_done: Callable[[], None] = lambda: None
        cluster.listeners.append(self._hear)

    @property
    def is_done(self) -> bool:
        return not self._left and not self._busy

    def _hear(self, write: Write) -> None:
        if self._left and not self._busy and write.kind in (self._kind, POD) and self._is_time():
            self._busy = True
            self._cluster.later(0.2, 5.0, self._edit)

    def _is_time(self) -> bool:
        job = self._cluster.store.find(self._kind, self._name, namespace=NAMESPACE_OF_JOBS)
        return self._left[0].when(job, self._cluster.objects(POD))

    def _edit(self) -> None:
        step, self._busy = self._left.pop(0), False
        store, now = self._cluster.store, self._cluster.now()
        try:
            with self._cluster.acting("user"):
                if isinstance(step.edit, dict) and "kind" in step.edit:
                    store.create(self._kind, step.edit, now, namespace=NAMESPACE_OF_JOBS)
                elif isinstance(step.edit, dict):
                    store.patch(self._kind, self._name, step.edit, namespace=NAMESPACE_OF_JOBS)
                else:
                    kind, name = (POD, step.edit) if step.edit else (self._kind, self._name)
                    options = DeleteOptions(propagation_policy="Background")
                    store.delete(kind, name, now, options, namespace=NAMESPACE_OF_JOBS)
        except StatusError as error:
            self._cluster.trace.add("user", f"gave up: {error.message}")
        if not self._left:
            self.on_done()
