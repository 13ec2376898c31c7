"""What we have written and the caches have not shown yet.

A pass over a job acts on caches. Were one of them behind our own last write, the pass would create a pod
twice or charge a restart twice. So a job waits until its caches have seen what we did.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from bireme.api.meta import ObjectMeta

Look = Callable[[str, str, str], tuple[ObjectMeta | None, int]]
"""Find (kind, namespace, name) in a cache: what it shows, and how far it has come."""


class Written(NamedTuple):
    """One write of ours to an object."""

    kind: str
    namespace: str
    name: str
    uid: str
    version: int
    deleted: bool = False

    def is_seen(self, shown: ObjectMeta | None, cache_version: int) -> bool:
        """Whether a cache that shows this has seen the write."""
        if cache_version >= self.version and not self.deleted:
            return True
        if shown is None:
            # Never there yet, or there and gone again: a cache past the write has seen both.
            return self.deleted
        if shown.uid != self.uid:
            return self.deleted
        if self.deleted:
            return shown.deletion_timestamp is not None
        return version_number(shown.resource_version) >= self.version


def version_number(resource_version: str) -> int:
    """A resource version as a number; Kubernetes' versions are, and are comparable."""
    return int(resource_version) if resource_version.isdecimal() else 0


class Expectations:
    """The writes of each job that its caches have yet to show."""

    def __init__(self) -> None:
        self._by_job: dict[str, list[Written]] = {}

    def add(self, job_uid: str, written: Written) -> None:
        self._by_job.setdefault(job_uid, []).append(written)

    def are_met(self, job_uid: str, look: Look) -> bool:
        """Whether the caches have seen all writes of the job; those seen are forgotten."""
        waiting = self._by_job.get(job_uid)
        if waiting is None:
            return True
        # From the newest on, and no further than the first that is missing: a job of a thousand pods is
        # asked a thousand times while they appear.
        while waiting:
            last = waiting[-1]
            if not last.is_seen(*look(last.kind, last.namespace, last.name)):
                return False
            waiting.pop()
        del self._by_job[job_uid]
        return True

    def forget(self, job_uid: str) -> None:
        """The job is gone."""
        self._by_job.pop(job_uid, None)

    def __len__(self) -> int:
        return len(self._by_job)


def is_owned_by(metadata: ObjectMeta, uid: str) -> bool:
    """Whether an object is a child of the job with this UID, whatever its labels say."""
    return any(owner.uid == uid and owner.controller for owner in metadata.owner_references)


def metadata_of(reply: bytes | dict[str, object]) -> ObjectMeta:
    """The metadata of an object that the API server answered with."""
    if isinstance(reply, bytes):
        return msgspec.json.decode(reply, type=PartialObject).metadata
    return msgspec.convert(reply, PartialObject).metadata


class PartialObject(msgspec.Struct):
    """The metadata of any object."""

    metadata: ObjectMeta = ObjectMeta()
