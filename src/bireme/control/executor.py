"""Makes a plan so: the only place that writes to a job's children."""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from bireme.api.kinds import POD_GROUP
from bireme.api.meta import ObjectMeta, OwnerReference
from bireme.control.expectations import (
    Expectations,
    PartialObject,
    Written,
    is_owned_by,
    metadata_of,
    version_number,
)
from bireme.kube.client import Client
from bireme.kube.errors import (
    AlreadyExists,
    ApiError,
    Forbidden,
    Invalid,
    KubeError,
    NotAllowedError,
    NotFound,
)
from bireme.kube.resources import CONFIG_MAPS, PODS, Resource, resource_for, resource_of
from bireme.planning.actions import (
    Action,
    AnnotatePod,
    Create,
    CreatePod,
    DeleteJob,
    DeleteObject,
    DeletePod,
    StopPod,
    UpdateConfigMap,
    UpdatePodGroup,
)
from bireme.planning.observed import Job, NameConflict

WIDEST_BATCH = 64
"""The most calls of one job in flight at once, reached by doubling."""
BATCH_BYTES = 2 << 20
"""The most bytes of pods of one job in flight at once. Building and encoding a batch holds the event loop."""
PASS_PODS = 1000
PASS_BYTES = 64 << 20
"""How many pods, and how many bytes of pods, one pass creates: the next pass sees if the job has changed."""


class NotLeadingError(Exception):
    """The lease is lost, or may be: nothing may be written any more."""


class Trouble(NamedTuple):
    """Why an action could not be done, in words for a condition and an Event."""

    reason: str
    message: str


class Done(NamedTuple):
    """What became of a plan's actions."""

    troubles: tuple[Trouble, ...] = ()
    taken: tuple[NameConflict, ...] = ()
    created: tuple[tuple[str, str], ...] = ()


GROUPS: Final = resource_of(POD_GROUP)


class Executor:
    """Applies actions: in parallel where order does not matter, one first, then two, four, …

    A failed action needs no rollback, as the next pass sees what is missing. After a failure nothing of
    the same stage is begun, so that a quota which is full costs a few calls and not a thousand.
    """

    def __init__(
        self,
        client: Client,
        expectations: Expectations,
        *,
        may_write: Callable[[], bool],
        groups: Resource = GROUPS,
    ) -> None:
        self._client = client
        self._groups = groups
        self._expectations = expectations
        self._may_write = may_write

    async def apply(self, job: Job, actions: Sequence[Action]) -> Done:
        """Do what the plan asks for, events excepted, children before pods."""
        done = Done()
        for stage in stages(actions):
            done = _joined(done, await self._stage(job, stage))
            if done.troubles or done.taken:
                break
        return done

    async def _stage(self, job: Job, actions: Sequence[Action]) -> Done:
        done, start, width = Done(), 0, 1
        while start < len(actions):
            batch = limit_bytes(actions[start : start + width], BATCH_BYTES)
            results = await asyncio.gather(*(self._one(job, action) for action in batch))
            for result in results:
                done = _joined(done, result)
            if done.troubles or done.taken:
                return done
            start, width = start + len(batch), min(width * 2, WIDEST_BATCH)
        return done

    async def _one(self, job: Job, action: Action) -> Done:
        if not self._may_write():
            raise NotLeadingError
        try:
            return await self._do(job, action)
        except NotAllowedError as error:
            raise NotLeadingError from error
        except ApiError as error:
            return Done(troubles=(trouble_of(action, error),))
        except KubeError as error:
            return Done(troubles=(Trouble("ApiUnavailable", f"{_what(action)}: {error}"),))

    async def _do(self, job: Job, action: Action) -> Done:
        match action:
            case Create() | CreatePod():
                return await self._create(job, action.object)
            case DeletePod(name, uid):
                await self._delete(job, PODS, name, uid)
            case DeleteObject(kind, name, uid):
                await self._delete(job, self._resource(kind), name, uid)
            case StopPod(name, uid):
                # The kubelet ends what still runs, and keeps the pod: its deadline has passed.
                await self._patch(job, name, {"metadata": {"uid": uid}, "spec": {"activeDeadlineSeconds": 1}})
            case AnnotatePod(name, uid, annotations):
                await self._patch(job, name, {"metadata": {"uid": uid, "annotations": annotations}})
            case UpdateConfigMap(name, data):
                await self._update(job, name, data)
            case UpdatePodGroup(name, uid, members):
                await self._update_group(job, name, uid, members)
            case DeleteJob(uid):
                await self._delete_job(job, uid)
        return Done()

    def _resource(self, kind: str) -> Resource:
        """The collection of a child; that of PodGroups is the gang engine's."""
        return self._groups if kind == self._groups.kind else resource_for(kind)

    async def _create(self, job: Job, manifest: dict[str, Any]) -> Done:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        resource = self._resource(kind)
        try:
            # Decoding the metadata alone is cheap, however large the pod is.
            reply = await self._client.create(resource, job.metadata.namespace, manifest, type=PartialObject)
        except AlreadyExists:
            return await self._existing(job, resource, kind, name)
        self._expect(job, kind, reply.metadata)
        return Done(created=((kind, name),))

    async def _existing(self, job: Job, resource: Resource, kind: str, name: str) -> Done:
        """That the object is there is success if it is ours: then a cache, or a reply, was lost."""
        try:
            reply = await self._client.get(resource, job.metadata.namespace, name, type=PartialObject)
        except NotFound:
            return Done()
        if not is_owned_by(reply.metadata, job.metadata.uid):
            return Done(taken=(NameConflict(kind, name, _owner(reply.metadata)),))
        self._expect(job, kind, reply.metadata)
        return Done(created=((kind, name),))

    async def _delete(self, job: Job, resource: Resource, name: str, uid: str) -> None:
        there = await self._client.delete(resource, job.metadata.namespace, name, uid=uid)
        if there:
            written = Written(resource.kind, job.metadata.namespace, name, uid, 0, deleted=True)
            self._expectations.add(job.metadata.uid, written)

    async def _patch(self, job: Job, name: str, body: dict[str, Any]) -> None:
        """Change a pod; that it is gone is success."""
        try:
            reply = await self._client.patch(PODS, job.metadata.namespace, name, body)
        except NotFound:
            return
        self._expect(job, "Pod", metadata_of(reply))

    async def _update(self, job: Job, name: str, data: dict[str, str]) -> None:
        # A merge would keep keys that are no longer there.
        body = [{"op": "replace", "path": "/data", "value": data}]
        reply = await self._client.patch(CONFIG_MAPS, job.metadata.namespace, name, body, kind="json")
        self._expect(job, "ConfigMap", metadata_of(reply))

    async def _update_group(self, job: Job, name: str, uid: str, members: int) -> None:
        body = {"metadata": {"uid": uid}, "spec": {"minMember": members}}
        reply = await self._client.patch(self._groups, job.metadata.namespace, name, body)
        self._expect(job, self._groups.kind, metadata_of(reply))

    async def _delete_job(self, job: Job, uid: str) -> None:
        resource = resource_for(job.kind, job.api_version)
        await self._client.delete(
            resource, job.metadata.namespace, job.metadata.name, uid=uid, propagation="Background"
        )

    def _expect(self, job: Job, kind: str, seen: ObjectMeta) -> None:
        written = Written(kind, seen.namespace, seen.name, seen.uid, version_number(seen.resource_version))
        self._expectations.add(job.metadata.uid, written)


def limit_bytes(actions: Sequence[Action], most: int) -> Sequence[Action]:
    """Return the first actions whose pods have at most so many bytes together; at least one action."""
    total = 0
    for index, action in enumerate(actions):
        total += action.size if isinstance(action, CreatePod) else 0
        if total > most and index:
            return actions[:index]
    return actions


def limit_pods(actions: Sequence[Action]) -> Sequence[Action]:
    """Return the actions of one pass: all but the pods beyond PASS_PODS and PASS_BYTES."""
    pods = [action for action in actions if isinstance(action, CreatePod)]
    kept = limit_bytes(pods[:PASS_PODS], PASS_BYTES)
    if len(kept) == len(pods):
        return actions
    return [*(action for action in actions if not isinstance(action, CreatePod)), *kept]


def stages(actions: Sequence[Action]) -> list[list[Action]]:
    """Children, then what goes, then pods, then the rest; within a stage order does not matter.

    RoleBindings follow the other children: the API server looks up the Role that they grant.
    """
    children: list[Action] = []
    bindings: list[Action] = []
    leaving: list[Action] = []
    pods: list[Action] = []
    rest: list[Action] = []
    for action in actions:
        match action:
            case CreatePod():
                pods.append(action)
            case Create() if action.kind == "RoleBinding":
                bindings.append(action)
            case Create() | UpdateConfigMap() | UpdatePodGroup():
                children.append(action)
            case DeletePod() | StopPod() | AnnotatePod():
                leaving.append(action)
            case DeleteObject() | DeleteJob():
                rest.append(action)
    return [stage for stage in (children, bindings, leaving, pods, rest) if stage]


def _owner(metadata: ObjectMeta) -> OwnerReference | None:
    """Return the controller of an object, or its first owner, or None."""
    owners = sorted(metadata.owner_references, key=lambda owner: not owner.controller)
    return owners[0] if owners else None


def _joined(one: Done, other: Done) -> Done:
    return Done(one.troubles + other.troubles, one.taken + other.taken, one.created + other.created)


_FORBIDDEN: Final = (
    (re.compile(r"admission webhook"), "Refused"),
    (re.compile(r"exceeded quota"), "QuotaExceeded"),
    (re.compile(r"failed quota: .*must specify"), "QuotaMustSpecify"),
    (re.compile(r"violates PodSecurity"), "PodSecurityViolation"),
    (re.compile(r"error looking up service account"), "ServiceAccountNotFound"),
    (re.compile(r"because it is being terminated"), "NamespaceTerminating"),
    (re.compile(r" cannot \S+ resource "), "Forbidden"),
    (re.compile(r"attempting to grant RBAC permissions not currently held"), "Forbidden"),
    (re.compile(r"cannot set blockOwnerDeletion|cannot set an ownerRef"), "Forbidden"),
)
"""Reasons for a 403 by what the API server says: it answers so for RBAC and for admission plugins alike."""


def trouble_of(action: Action, error: ApiError) -> Trouble:
    """Return the reason and message of a refused action.

    `Forbidden` means that the controller's account lacks a permission. What an admission plugin or a
    webhook refuses has a reason of its own, or `Refused`.
    """
    return Trouble(_reason(error), f"{_what(action)}: {error.message}")


def _reason(error: ApiError) -> str:
    if isinstance(error, Forbidden):
        return next((reason for said, reason in _FORBIDDEN if said.search(error.message)), "Refused")
    if isinstance(error, Invalid) or "admission webhook" in error.message:
        return "Refused"
    return error.reason or type(error).__name__


def _what(action: Action) -> str:
    match action:
        case Create() | CreatePod():
            return f"can't create {action.kind} {action.name}"
        case DeletePod(name) | StopPod(name):
            return f"can't stop Pod {name}"
        case AnnotatePod(name):
            return f"can't annotate Pod {name}"
        case DeleteObject(kind, name):
            return f"can't delete {kind} {name}"
        case UpdateConfigMap(name):
            return f"can't update ConfigMap {name}"
        case UpdatePodGroup(name):
            return f"can't update PodGroup {name}"
        case _:
            return "can't delete the job"
