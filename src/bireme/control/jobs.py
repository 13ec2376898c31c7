"""Jobs as the controller caches them: metadata decoded, the rest left as it came until a pass needs it."""

from typing import Any, Final, NamedTuple

import msgspec

from bireme.admission import default, validate
from bireme.api.kinds import Kind
from bireme.api.meta import ObjectMeta
from bireme.planning.observed import Job

_NULL = msgspec.Raw(b"null")


class JobObject(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A job of any kind."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = _NULL
    status: msgspec.Raw = _NULL


TOO_DEEP: Final = "spec: nested too deeply to be read"


class JobKey(NamedTuple):
    """Which job: its kind (by index into the controller's list), namespace and name."""

    kind: str
    namespace: str
    name: str


class UnreadableJobError(Exception):
    """The object does not even have the shape of its kind."""


def decode_job(kind: Kind, obj: JobObject) -> Job:
    """The typed job. Raises UnreadableJobError where a field has the wrong type."""
    fields = {info.name: info.type for info in msgspec.structs.fields(kind.struct)}
    try:
        spec = msgspec.json.decode(obj.spec, type=fields["spec"]) if obj.spec != _NULL else None
        status = msgspec.json.decode(obj.status, type=fields["status"])
    except (msgspec.ValidationError, RecursionError) as error:
        raise UnreadableJobError(str(error)) from error
    values: dict[str, Any] = {"metadata": obj.metadata, "status": status}
    if spec is not None:
        values["spec"] = spec
    job: Any = kind.struct(**values)
    result: Job = job
    return result


class Verdicts:
    """What admission says of each job, asked once per generation."""

    def __init__(self) -> None:
        self._by_uid: dict[str, tuple[int, tuple[str, ...]]] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def errors(self, obj: JobObject) -> tuple[str, ...]:
        """The errors of a job that got past admission, webhooks being down."""
        uid, generation = obj.metadata.uid, obj.metadata.generation
        known = self._by_uid.get(uid)
        if known is not None and known[0] == generation:
            return known[1]
        found = _errors(obj)
        self._by_uid[uid] = generation, found
        return found

    def forget(self, uid: str) -> None:
        self._by_uid.pop(uid, None)


def _errors(obj: JobObject) -> tuple[str, ...]:
    try:
        manifest = {
            "apiVersion": obj.api_version,
            "kind": obj.kind,
            "metadata": {"name": obj.metadata.name, "namespace": obj.metadata.namespace},
            "spec": msgspec.json.decode(obj.spec),
        }
        return tuple(str(p) for p in validate(default(manifest)) if p.severity == "error")
    except RecursionError:
        return (TOO_DEEP,)
