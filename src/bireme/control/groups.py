"""PodGroups of whatever gang engine there is, as far as a job's plan must know them."""

import msgspec

from bireme.api.kinds import POD_GROUP
from bireme.api.meta import ObjectMeta
from bireme.api.scheduler import Waiting
from bireme.kube.resources import Resource, resource_of
from bireme.planning.engines import group_version


def group_resource(engine: str) -> Resource:
    """The PodGroups of a gang engine; ours where it has none."""
    group, _, version = group_version(engine).partition("/")
    return Resource(group, version, POD_GROUP.plural, POD_GROUP.kind) if version else resource_of(POD_GROUP)


class GroupSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    min_member: int | None = None


class GroupStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    waiting: Waiting | None = None


class GroupObject(msgspec.Struct, frozen=True, gc=False):
    """A PodGroup of any engine: what the plan must know of it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: GroupSpec = GroupSpec()
    status: GroupStatus = GroupStatus()


def members_of(child: object) -> int | None:
    """How many members a child asks for, if it is a group."""
    return child.spec.min_member if isinstance(child, GroupObject) else None


def waiting_of(child: object) -> Waiting | None:
    """Why the queue does not start the pods of a child, if it is a group of our own scheduler."""
    return child.status.waiting if isinstance(child, GroupObject) else None
