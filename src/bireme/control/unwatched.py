"""Children that nobody watches: to watch Secrets would mean to read everybody's."""

from collections.abc import Iterable
from typing import Final

from bireme.api.meta import ObjectMeta
from bireme.control.expectations import is_owned_by, metadata_of
from bireme.kube.client import Client
from bireme.kube.errors import NotFound
from bireme.kube.resources import resource_for
from bireme.planning.observed import Child, Job

KINDS: Final = ("Secret", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy")
TRUSTED_SECONDS: Final = 30.0
"""How long a child that we created or found is taken to exist: no job pays for a look while it starts."""


class Unwatched:
    """Which of them each job has, and when this process last knew: it made them then, or met them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._there: dict[str, dict[tuple[str, str], float]] = {}
        self._doubted: set[str] = set()

    def __len__(self) -> int:
        return len(self._there)

    def remember(self, uid: str, made: Iterable[tuple[str, str]]) -> None:
        """Take note of what a job has now, of all (kind, name) that were made."""
        now = self._client.clock.now()
        if ours := {(kind, name): now for kind, name in made if kind in KINDS}:
            self._there.setdefault(uid, {}).update(ours)

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._there.pop(uid, None)
        self._doubted.discard(uid)

    def doubt(self, uid: str) -> None:
        """Look at a job's children again before it gets its next pods, however new they are.

        To be called when a pod of the job is gone: whoever deleted it may have deleted its Secret, too.
        """
        if uid in self._there:
            self._doubted.add(uid)

    def has(self, uid: str, kind: str) -> bool:
        return any(each == kind for each, _ in self._there.get(uid, ()))

    def children(self, job: Job) -> list[Child]:
        """As a plan sees them, in the order of their names."""
        return [
            Child(kind, ObjectMeta(name=name, namespace=job.metadata.namespace))
            for kind, name in sorted(self._there.get(job.metadata.uid, ()))
        ]

    def are_in_doubt(self, job: Job) -> bool:
        """Whether it is long since all of them were known to be there, or a pod has gone since."""
        uid = job.metadata.uid
        known = self._there.get(uid)
        if known is None:
            return False
        now = self._client.clock.now()
        return uid in self._doubted or any(now - at > TRUSTED_SECONDS for at in known.values())

    async def look_again(self, job: Job) -> None:
        """Forget those that are gone, or another's by now: the next plan makes them anew.

        To be asked before pods are made: one that lacks its Secret would wait for it for ever.
        """
        # Before the first look: a pod that goes meanwhile raises new doubt.
        self._doubted.discard(job.metadata.uid)
        known = self._there.get(job.metadata.uid, {})
        for child in self.children(job):
            if await self._is_there(job, child):
                known[child.key] = self._client.clock.now()
            else:
                known.pop(child.key, None)

    async def _is_there(self, job: Job, child: Child) -> bool:
        try:
            found = await self._client.get(
                resource_for(child.kind), job.metadata.namespace, child.metadata.name
            )
        except NotFound:
            return False
        return is_owned_by(metadata_of(found), job.metadata.uid)
