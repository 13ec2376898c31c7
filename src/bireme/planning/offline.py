"""What a job would be made of that is not there yet."""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from bireme.api.core import Pod
from bireme.api.kinds import KUBEFLOW_MPI_JOB, Kind
from bireme.planning.actions import Create, CreatePod, Manifest
from bireme.planning.observed import Keys, Observed, Settings
from bireme.planning.plan import plan

_THEN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_UID: Final = "00000000-0000-0000-0000-000000000000"


def objects_of(
    kind: Kind,
    manifest: Manifest,
    namespace: str,
    *,
    keys: Keys | None = None,
    settings: Settings | None = None,
) -> list[Manifest]:
    """The objects of a job in the order of their creation; its manifest is complete and valid."""
    metadata = {"namespace": namespace, **manifest["metadata"], "uid": _UID}
    metadata.setdefault("name", f"{metadata.get('generateName', '')}xxxxx")
    job: Any = msgspec.convert({**manifest, "metadata": metadata, "status": None}, kind.struct)
    seen = Observed(job, keys=keys or Keys(), settings=settings or Settings())
    made = _creations(seen)
    if kind is not KUBEFLOW_MPI_JOB:
        return made
    # Its launcher comes once its workers are there.
    pods = tuple(msgspec.convert(each, Pod) for each in made if each["kind"] == "Pod")
    later = _creations(msgspec.structs.replace(seen, pods=pods))
    return made + [each for each in later if each not in made]


def _creations(observed: Observed) -> list[Manifest]:
    actions = plan(observed, _THEN).actions
    return [action.object for action in actions if isinstance(action, Create | CreatePod)]
