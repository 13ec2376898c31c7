"""Claims of volumes."""

from datetime import datetime
from typing import Any, Final

from bireme.api.quantity import QuantityError, parse_quantity
from bireme.apiserver.printing.ages import age
from bireme.apiserver.printing.fields import created, mapping, name_of, text, texts
from bireme.apiserver.rules import Object

_UNSET: Final = "<unset>"
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_SHORT_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def claim(obj: Object, now: datetime) -> list[Any]:
    spec, status = mapping(obj, "spec"), mapping(obj, "status")
    volume = text(spec, "volumeName")
    return [
        name_of(obj),
        _phase(obj, status),
        volume,
        _capacity(status) if volume else "",
        _modes(texts(status, "accessModes")) if volume else "",
        _storage_class(obj, spec),
        _set(spec, "volumeAttributesClassName"),
        age(created(obj), now),
        _set(spec, "volumeMode"),
    ]


def _phase(obj: Object, status: Object) -> str:
    is_going = mapping(obj, "metadata").get("deletionTimestamp") is not None
    return "Terminating" if is_going else text(status, "phase")


def _capacity(status: Object) -> str:
    capacity = mapping(status, "capacity").get("storage", "0")
    try:
        return str(parse_quantity(capacity)) if isinstance(capacity, str | int) else "0"
    except QuantityError:
        return str(capacity)


def _modes(modes: list[str]) -> str:
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in modes)


def _storage_class(obj: Object, spec: Object) -> str:
    annotations = mapping(mapping(obj, "metadata"), "annotations")
    if _CLASS_ANNOTATION in annotations:
        return text(annotations, _CLASS_ANNOTATION)
    return text(spec, "storageClassName")


def _set(spec: Object, key: str) -> str:
    value = spec.get(key)
    return value if isinstance(value, str) else _UNSET
