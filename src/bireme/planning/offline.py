"""What a job would be made of that is not there yet."""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from bireme.api.kinds import Kind
from bireme.planning.actions import Create, Manifest
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
    made = plan(Observed(job, keys=keys or Keys(), settings=settings or Settings()), _THEN)
    return [action.object for action in made.actions if isinstance(action, Create)]
