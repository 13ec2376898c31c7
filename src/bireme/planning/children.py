"""Children other than pods: what is missing, and what no longer fits."""

from collections.abc import Container, Iterable, Sequence

from bireme.planning.actions import Action, Create, DeleteObject, Manifest, UpdateConfigMap
from bireme.planning.identity import replica_name
from bireme.planning.observed import Child, Job


def missing_children(wanted: Iterable[Manifest], children: Iterable[Child]) -> list[Action]:
    """Create what is not there, in the order of `wanted`."""
    there = {child.key for child in children}
    return [Create(manifest) for manifest in wanted if _key(manifest) not in there]


def stale_children(wanted: Iterable[Manifest], children: Sequence[Child]) -> list[Action]:
    """Follow a job that was changed while it stood still: files are renewed, spare Services go."""
    by_key = {_key(manifest): manifest for manifest in wanted}
    actions: list[Action] = []
    for child in children:
        manifest = by_key.get(child.key)
        if manifest is not None and child.data is not None and child.data != manifest.get("data"):
            actions.append(UpdateConfigMap(child.metadata.name, manifest["data"]))
    return actions + spare_services({name for kind, name in by_key if kind == "Service"}, children)


def spare_services(wanted: Container[str], children: Iterable[Child]) -> list[Action]:
    """Delete the Services under names that nobody has any more."""
    return [
        DeleteObject("Service", child.metadata.name, child.metadata.uid)
        for child in children
        if child.kind == "Service"
        and child.metadata.name not in wanted
        and child.metadata.deletion_timestamp is None
    ]


def wanted_names(
    job: Job, types: Sequence[tuple[str, int]], children: Iterable[Manifest]
) -> set[tuple[str, str]]:
    """(kind, name) of everything that the job needs to have."""
    pods = {("Pod", replica_name(job, type_, index)) for type_, count in types for index in range(count)}
    return pods | {_key(manifest) for manifest in children} | {("PodGroup", job.metadata.name)}


def _key(manifest: Manifest) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]
