"""What the controller follows: jobs, their pods and what else they own, each in a cache."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from bireme.api.core import ConfigMap, Pod, Service
from bireme.api.kinds import Kind
from bireme.api.meta import ObjectMeta
from bireme.control.expectations import version_number
from bireme.control.groups import GroupObject, members_of, waiting_of
from bireme.control.jobs import JobKey, JobObject
from bireme.control.phases import phase_word
from bireme.kube.cache import Cache
from bireme.kube.client import Client
from bireme.kube.resources import CONFIG_MAPS, PODS, SERVICES, Resource, resource_of
from bireme.planning.identity import MANAGED_BY
from bireme.planning.observed import Child

SELECTOR = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
_NEWEST = 1 << 62

JobChanged = Callable[[str, JobObject | None, JobObject | None], None]
ChildChanged = Callable[[Any, Any], None]


class Followed:
    """The caches; `groups` are the PodGroups of a gang engine, None where there are none to follow."""

    def __init__(
        self,
        client: Client,
        kinds: Mapping[str, Kind],
        groups: Resource | None,
        namespace: str | None,
        *,
        job_changed: JobChanged,
        pod_changed: ChildChanged,
        child_changed: ChildChanged,
    ) -> None:
        def children(resource: Resource, type_: type[Any], on_change: ChildChanged) -> Cache[Any]:
            return Cache(
                client, resource, type_, namespace=namespace, label_selector=SELECTOR, on_change=on_change
            )

        self.jobs: dict[str, Cache[JobObject]] = {
            name: Cache(
                client,
                resource_of(kind),
                JobObject,
                namespace=namespace,
                on_change=lambda old, new, name=name: job_changed(name, old, new),  # type: ignore[misc]
            )
            for name, kind in kinds.items()
        }
        self.pods: Cache[Pod] = children(PODS, Pod, pod_changed)
        self.children: dict[str, Cache[Any]] = {
            "Service": children(SERVICES, Service, child_changed),
            "ConfigMap": children(CONFIG_MAPS, ConfigMap, child_changed),
        }
        if groups is not None:
            self.children["PodGroup"] = children(groups, GroupObject, child_changed)

    def caches(self) -> list[Cache[Any]]:
        return [*self.jobs.values(), self.pods, *self.children.values()]

    def not_ready(self) -> list[str]:
        """The caches that are not in step yet, each with what is in its way."""
        return [
            f"{cache.resource.full_name}: {cache.last_error or 'not listed yet'}"
            for cache in self.caches()
            if not cache.is_synced
        ]

    def job(self, key: JobKey) -> JobObject | None:
        return self.jobs[key.kind].get(key.namespace, key.name)

    def pods_of(self, uid: str) -> tuple[Pod, ...]:
        """A job's pods, by name."""
        return tuple(sorted(self.pods.by_owner(uid), key=lambda pod: pod.metadata.name))

    def children_of(self, uid: str) -> list[Child]:
        """What else a job owns, by kind and name."""
        return [
            Child(kind, child.metadata, getattr(child, "data", None), members_of(child), waiting_of(child))
            for kind, cache in self.children.items()
            for child in sorted(cache.by_owner(uid), key=lambda child: str(child.metadata.name))
        ]

    def look(self, kind: str, namespace: str, name: str) -> tuple[ObjectMeta | None, int]:
        """What is known of an object, and how far its cache has come."""
        cache: Cache[Any] | None = self.jobs.get(kind) or self.children.get(kind)
        if kind == "Pod":
            cache = self.pods
        if cache is None:
            # Nobody watches these; that they were written is all there is to know.
            return None, _NEWEST
        found = cache.get(namespace, name)
        return (found.metadata if found is not None else None), version_number(cache.resource_version)

    def phases(self) -> Counter[tuple[str, str, str]]:
        """How many jobs of each namespace and kind are in each phase."""
        counts: Counter[tuple[str, str, str]] = Counter()
        for name, cache in self.jobs.items():
            for obj in cache.all():
                counts[obj.metadata.namespace, name, phase_word(obj)] += 1
        return counts
