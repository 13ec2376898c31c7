"""PersistentVolumeClaims. No volume is ever made for them here: they stay as they are."""

from collections.abc import Iterator
from typing import Any, Final

from bireme.api.quantity import ZERO, Quantity, parse_quantity
from bireme.apiserver import checks
from bireme.apiserver.errors import FieldError, forbidden_value, invalid_value, required
from bireme.apiserver.rules import Object, Rules

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_ALONE: Final = "ReadWriteOncePod"
_SNAPSHOTS: Final = "snapshot.storage.k8s.io"
_SOURCES: Final = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", _SNAPSHOTS))
_STORAGE: Final = "spec.resources[storage]"


class ClaimRules(Rules):
    """The rules of PersistentVolumeClaims: most of their spec stays."""

    def default(self, new: Object) -> None:
        spec = new.get("spec") or {}
        new["spec"] = spec | {"volumeMode": spec.get("volumeMode") or "Filesystem"}

    def prepare_create(self, new: Object) -> None:
        new["spec"] = _with_sources(new["spec"], keep_any=False)
        new["status"] = {"phase": "Pending"}

    def prepare_update(self, new: Object, old: Object) -> None:
        before = old["spec"]
        used = before.get("dataSource") is not None or before.get("dataSourceRef") is not None
        new["spec"] = _with_sources(new["spec"], keep_any=used)

    def prepare_status(self, new: Object, old: Object) -> None:  # noqa: ARG002
        status = new.get("status") or {}
        new["status"] = status | {"phase": status.get("phase") or "Pending"}

    def problems(self, new: Object, old: Object | None) -> list[FieldError]:
        return [] if old is None else list(_changes(new, old))

    def content_problems(self, new: Object, old: Object | None) -> list[FieldError]:  # noqa: ARG002
        return list(_spec_problems(new["spec"]))


def _with_sources(spec: Object, *, keep_any: bool) -> Object:
    """A spec whose two fields for a source say the same; the older one took only claims and snapshots."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if reference is None and source is not None and not keep_any and not _is_known(source):
        return {key: value for key, value in spec.items() if key != "dataSource"}
    if source is not None and reference is None:
        return spec | {"dataSourceRef": _reference(source)}
    if reference is not None and source is None and not reference.get("namespace"):
        return spec | {"dataSource": _reference(reference)}
    return spec


def _is_known(source: Object) -> bool:
    return (source.get("kind"), source.get("apiGroup") or "") in _SOURCES


def _reference(source: Object) -> Object:
    return {field: source.get(field) for field in ("apiGroup", "kind", "name")}


def _spec_problems(spec: Object) -> Iterator[FieldError]:
    modes = spec.get("accessModes") or ()
    if not modes:
        yield required("spec.accessModes", "at least 1 access mode is required")
    for mode in modes:
        yield from checks.one_of("spec.accessModes", mode, _ACCESS_MODES)
    if _ALONE in modes and any(mode in _ACCESS_MODES and mode != _ALONE for mode in modes):
        yield forbidden_value("spec.accessModes", "may not use ReadWriteOncePod with other access modes")
    storage = _storage(spec)
    if storage is None:
        yield required(_STORAGE)
    elif storage.nanos <= 0:
        yield invalid_value(_STORAGE, str(storage), "must be greater than zero")
    if spec.get("storageClassName"):
        yield from checks.subdomain("spec.storageClassName", spec["storageClassName"])
    yield from checks.one_of("spec.volumeMode", spec.get("volumeMode"), ("Block", "Filesystem"))


def _storage(spec: Object) -> Quantity | None:
    requests: Any = (spec.get("resources") or {}).get("requests") or {}
    return parse_quantity(requests["storage"]) if "storage" in requests else None


def _changes(new: Object, old: Object) -> Iterator[FieldError]:
    bound = (new.get("status") or {}).get("phase") == "Bound"
    if _frozen(new["spec"], old["spec"], bound=bound) != _frozen(old["spec"], old["spec"], bound=bound):
        yield forbidden_value(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for"
            " bound claims",
        )
    size, before = _storage(new["spec"]) or ZERO, _storage(old["spec"]) or ZERO
    capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage", 0)
    if size.nanos < before.nanos and size.nanos <= parse_quantity(capacity).nanos:
        field = "spec.resources.requests.storage"
        yield forbidden_value(field, "field can not be less than status.capacity")
    yield from checks.immutable("volumeMode", new["spec"]["volumeMode"], old["spec"]["volumeMode"])


def _frozen(spec: Object, old: Object, *, bound: bool) -> Object:
    """What of a spec can't change: names may come where there were none."""
    frozen = dict(spec)
    if not old.get("volumeName"):
        frozen.pop("volumeName", None)
    if old.get("storageClassName") is None:
        frozen.pop("storageClassName", None)
    if bound:
        frozen.pop("volumeAttributesClassName", None)
        resources = frozen.get("resources") or {}
        requests = {k: v for k, v in (resources.get("requests") or {}).items() if k != "storage"}
        frozen["resources"] = resources | {"requests": requests}
    return frozen
