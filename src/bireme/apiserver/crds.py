"""CustomResourceDefinitions: the kinds that they define, and what becomes of one that goes.

Where it differs from a kube-apiserver (1.36):

| what | here | there |
|---|---|---|
| versions of a kind | the storage version, if it is served | all that are served, converted |
| CEL rules (`x-kubernetes-validations`) | accepted, never compiled | compiled and evaluated |
| the scale subresource | not offered | served |
| the kind of a list | the kind and `List` | `names.listKind` |
| names | accepted at once; clashes are the caller's | accepted by a controller, or not |
| values in messages about all versions | as the CRD has them | as Go has them |
| unknown keywords in `items` and `additionalProperties` | kept | dropped |
| keywords of wrong types in these | refused with 422 | refused with 400 |
| patterns that are large, alone or together (`patterns.MOST_SIZE`) | refused | accepted |

`warnings` says so where a CRD asks for it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bireme.apiserver.crd_rules import FINALIZER, condition, with_condition
from bireme.apiserver.kinds import Column, Kind
from bireme.apiserver.rules import Object
from bireme.apiserver.structural import formats


def kind_of(crd: Object) -> Kind | None:
    """What a valid CRD defines; None if its storage version is not served."""
    spec = crd["spec"]
    version = next(each for each in spec["versions"] if each.get("storage"))
    if not version.get("served"):
        return None
    names = spec["names"]
    return Kind(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        custom=True,
        has_status="status" in (version.get("subresources") or {}),
        has_generation=True,
        unconditional=False,
        fields=tuple(_field(each["jsonPath"]) for each in version.get("selectableFields", ())),
        crd_schema=_schema(version),
        singular=names.get("singular", ""),
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        columns=tuple(msgspec.convert(each, Column) for each in version.get("additionalPrinterColumns", ())),
    )


def _schema(version: Object) -> Object:
    schema: Object = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _field(json_path: str) -> str:
    return json_path.removeprefix(".")


# ---- going


def cleanup_needed(crd: Object) -> bool:
    """Whether a CRD waits for its objects to be deleted; then comes `cleaned`."""
    metadata = crd["metadata"]
    return "deletionTimestamp" in metadata and FINALIZER in metadata.get("finalizers", ())


def cleaned(crd: Object) -> Object:
    """A CRD whose objects have gone."""
    metadata = dict(crd["metadata"])
    left = [each for each in metadata.pop("finalizers", ()) if each != FINALIZER]
    if left:
        metadata["finalizers"] = left
    done = condition(
        "Terminating",
        "False",
        "InstanceDeletionCompleted",
        "removed all instances",
        metadata["deletionTimestamp"],
    )
    return with_condition(crd | {"metadata": metadata}, done)


# ---- what is not done


def warnings(crd: Object) -> list[str]:
    """What is understood here, but not done, and formats that no server knows."""
    spec = crd["spec"]
    found = [
        f'unrecognized format "{name}"' for version in spec["versions"] for name in _unknown_formats(version)
    ]
    served = [each["name"] for each in spec["versions"] if each.get("served") and not each.get("storage")]
    if served:
        stored = next(each["name"] for each in spec["versions"] if each.get("storage"))
        found.append(f"only the storage version {stored} is served here: {', '.join(served)} will not be")
    nodes = [node for version in spec["versions"] for node in _nodes(_schema(version))]
    if any(node.get("x-kubernetes-validations") for node in nodes):
        found.append("rules in x-kubernetes-validations are not evaluated here")
    if any("scale" in (each.get("subresources") or {}) for each in spec["versions"]):
        found.append("the scale subresource is not served here")
    return found


def _unknown_formats(version: Object) -> Iterator[str]:
    for node in _nodes(_schema(version)):
        name, types = node.get("format"), (node.get("type", ""),)
        if name and not formats.known(types if types[0] else (), name):
            yield name


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    """A schema and all schemas in it."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for keyword in ("items", "additionalProperties", "not"):
        yield from _nodes(schema.get(keyword))
    for keyword in ("allOf", "anyOf", "oneOf"):
        for each in schema.get(keyword) or ():
            yield from _nodes(each)
    for each in (schema.get("properties") or {}).values():
        yield from _nodes(each)
