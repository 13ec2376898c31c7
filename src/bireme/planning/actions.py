"""What a plan asks for. Actions are values: they say what shall be, somebody else does it."""

import builtins
from collections.abc import Callable
from typing import Any, Literal

import msgspec

Manifest = dict[str, Any]


class Create(msgspec.Struct, frozen=True, tag_field="action", tag=True):
    """Create an object; that it exists already, owned by this job, is success."""

    object: Manifest

    @property
    def kind(self) -> str:
        kind: str = self.object["kind"]
        return kind

    @property
    def name(self) -> str:
        name: str = self.object["metadata"]["name"]
        return name


class CreatePod(msgspec.Struct, frozen=True, eq=False, tag_field="action", tag=True):
    """Create the pod of a replica.

    `build` is pure and builds the manifest when the pod is sent: a plan of thousands of large pods would not
    fit into the controller's memory. `size` is the approximate number of bytes of the manifest as JSON.
    """

    name: str
    build: Callable[[], Manifest]
    size: int = 0

    @property
    def kind(self) -> str:
        return "Pod"

    @property
    def object(self) -> Manifest:
        return self.build()

    def __eq__(self, other: builtins.object) -> bool:
        return isinstance(other, CreatePod) and self.object == other.object

    __hash__ = None  # type: ignore[assignment]


class DeletePod(msgspec.Struct, frozen=True, tag_field="action", tag=True):
    """Delete a pod gracefully, if it is still the one with this UID."""

    name: str
    uid: str
    why: str = ""


STOP_DEADLINE_SECONDS = 1
"""The deadline that a pod is given so that its kubelet ends it; nobody else sets one so short."""


class StopPod(msgspec.Struct, frozen=True, tag_field="action", tag=True):
    """Stop what still runs in a pod whose main container has ended; the pod and its logs stay."""

    name: str
    uid: str


class AnnotatePod(msgspec.Struct, frozen=True, tag_field="action", tag=True):
    """Add annotations to a pod, if it is still the one with this UID."""

    name: str
    uid: str
    annotations: dict[str, str]


class UpdateConfigMap(msgspec.Struct, frozen=True, tag_field="action", tag=True):
    """Set the data of a ConfigMap that is there already."""

    name: str
    data: dict[str, str]


class UpdatePodGroup(msgspec.Struct, frozen=True, tag_field="action", tag=True):
    """Let a group start with fewer members, if it is still the one with this UID."""

    name: str
    uid: str
    members: int


class DeleteObject(msgspec.Struct, frozen=True, tag_field="action", tag=True):
    """Delete a Service or a PodGroup that is no longer needed."""

    kind: str
    name: str
    uid: str


class DeleteJob(msgspec.Struct, frozen=True, tag_field="action", tag=True):
    """Delete the job itself, and with it all that it owns."""

    uid: str


class EmitEvent(msgspec.Struct, frozen=True, tag_field="action", tag=True):
    """Tell the user, in `kubectl describe`."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


Action = (
    Create
    | CreatePod
    | DeletePod
    | StopPod
    | AnnotatePod
    | UpdateConfigMap
    | UpdatePodGroup
    | DeleteObject
    | DeleteJob
    | EmitEvent
)
