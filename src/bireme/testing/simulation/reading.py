"""What is read off pods and other objects; from plain data, no code of ours is asked."""

from typing import Any

import msgspec

from bireme.apiserver.rules import Object
from bireme.planning.identity import JOB_UID_LABEL, MODE_ANNOTATION, REPLICA_INDEX_LABEL, REPLICA_TYPE_LABEL


def uid_in(patch: bytes) -> str | None:
    """The UID that a merge patch of an object is for."""
    body = msgspec.json.decode(patch)
    uid: str | None = body.get("metadata", {}).get("uid") if isinstance(body, dict) else None
    return uid


def owners(obj: Object) -> list[Object]:
    found: list[Object] = obj["metadata"].get("ownerReferences") or []
    return found


def owner(obj: Object) -> str:
    """The UID of the controller of an object."""
    return next((each["uid"] for each in owners(obj) if each.get("controller")), "")


def replica(pod: Object) -> tuple[Any, ...]:
    labels = pod["metadata"].get("labels") or {}
    return tuple(labels.get(label) for label in (JOB_UID_LABEL, REPLICA_TYPE_LABEL, REPLICA_INDEX_LABEL))


def is_debugged(pod: Object) -> bool:
    return bool(pod["metadata"]["annotations"].get(MODE_ANNOTATION) == "debug")


def has_exited(pod: Object) -> bool:
    statuses = pod["status"].get("containerStatuses") or ()
    return any("terminated" in (each.get("state") or {}) for each in statuses[:1])
