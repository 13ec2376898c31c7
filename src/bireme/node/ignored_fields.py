"""Fields of a pod that mean something to a cluster and not to this machine: what a user is told of each.

A manifest that was written for a cluster runs here as it is. Each function returns sentences for the pod's
condition `bireme.dev/RunsAsWritten`, at most one for each field; equal sentences of the pods of a job are
shown once. What a container alone says is left to `substitutes`. Pure: what is here comes as arguments.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from bireme.api.names import NODE_NAME_ANNOTATION
from bireme.api.scheduler import SCHEDULER_NAME
from bireme.node.seen import Object
from bireme.node.volumes import is_in_memory

SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - the mount point itself
_DISK_MEDIA: Final = ("", None)
_OURS: Final = "bireme-"


class Here(NamedTuple):
    """What is known of the node, and of the process that a pod's containers come from."""

    node: str
    uid: int
    gid: int
    can_mount: bool = True
    labels: Mapping[str, str] = {}
    """The labels of the Node."""


class Missing(NamedTuple):
    """Objects that a pod names and that are not there."""

    claims: Mapping[str, Path] = {}
    """The folder that stands in for each claim."""
    priority_class: str = ""
    service_account: str = ""


def describe_placement(pod: Object, here: Here) -> Iterator[str]:
    """Describe the wishes for another node. Those of queued pods bind: their scheduler looks at them."""
    wanted = (pod["metadata"].get("annotations") or {}).get(NODE_NAME_ANNOTATION)
    if wanted and wanted != here.node:
        yield f"nodeName {wanted} is not this machine: the pod runs on {here.node}"
    spec = pod["spec"]
    if spec.get("schedulerName") == SCHEDULER_NAME:
        return
    selector: dict[str, str] = spec.get("nodeSelector") or {}
    unmet = [f"{key}={value}" for key, value in selector.items() if here.labels.get(key) != value]
    if unmet:
        yield (
            f"nodeSelector {', '.join(unmet)}: this machine does not have these labels, and runs the pod as"
            " the only node"
        )
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    if affinity.get("requiredDuringSchedulingIgnoredDuringExecution"):
        yield "nodeAffinity is not looked at: this machine is the only node"


def describe_user(pod: Object, here: Here) -> Iterator[str]:
    """Describe the parts of security contexts that processes of the user can't have."""
    spec = pod["spec"]
    every = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    contexts = [spec.get("securityContext") or {}]
    contexts += [each.get("securityContext") or {} for each in every if not each["name"].startswith(_OURS)]
    names = dict.fromkeys(name for context in contexts for name in _unapplied(context, here))
    if names:
        yield f"securityContext: {', '.join(names)} not applied: containers run as you (uid {here.uid})"


def _unapplied(context: Object, here: Here) -> Iterator[str]:
    for field, own in (("runAsUser", here.uid), ("runAsGroup", here.gid), ("fsGroup", here.gid)):
        if context.get(field) not in (None, own):
            yield f"{field} {context[field]}"
    if context.get("runAsNonRoot") and here.uid == 0 and not context.get("runAsUser"):
        yield "runAsNonRoot"
    if context.get("readOnlyRootFilesystem"):
        yield "readOnlyRootFilesystem"
    if here.uid != 0 and (context.get("privileged") or (context.get("capabilities") or {}).get("add")):
        yield "privileged" if context.get("privileged") else "capabilities"


def describe_volumes(pod: Object, here: Here) -> Iterator[str]:
    """Describe emptyDirs whose size or medium is not as written, and names that no pod gets."""
    for volume in pod["spec"].get("volumes") or ():
        source = volume.get("emptyDir") or {}
        if is_in_memory(volume):
            if not here.can_mount:
                yield (
                    f"emptyDir {volume['name']}: no tmpfs can be mounted on this machine:"
                    f" its own {SHARED_MEMORY} is used"
                )
            continue
        if source.get("medium") not in _DISK_MEDIA:
            yield f"emptyDir {volume['name']}: medium {source['medium']} is a folder on disk here"
        if source.get("sizeLimit"):
            yield (
                f"emptyDir {volume['name']}: sizeLimit {source['sizeLimit']} is not enforced on disk here"
                " (with medium: Memory it is)"
            )
    if pod["spec"].get("hostAliases") and not here.can_mount:
        yield "hostAliases: a pod has no /etc/hosts of its own on this machine: the names do not resolve"


def describe_missing(missing: Missing) -> Iterator[str]:
    """Describe what stands in for objects that are not there."""
    for name, folder in missing.claims.items():
        yield f"PersistentVolumeClaim {name} is not there: the folder {folder} stands in, and is kept"
    if missing.priority_class:
        yield f"PriorityClass {missing.priority_class} is not there: the pod has priority 0"
    if missing.service_account:
        yield f"ServiceAccount {missing.service_account} is not there: the pod runs without it"
