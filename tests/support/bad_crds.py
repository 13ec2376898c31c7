"""CRDs that the API server refuses, each for a reason of its own."""

from typing import Any

from support.custom_kinds import build_crd
from support.custom_schemas import root

Object = dict[str, Any]


def spec_with(**changes: Any) -> Object:
    crd = build_crd("widgets", root(a={"type": "integer"}))
    return crd | {"spec": crd["spec"] | changes}


def names_with(**changes: Any) -> Object:
    return spec_with(names={"plural": "widgets", "kind": "Widget"} | changes)


def version(name: str = "v1", *, served: bool = True, storage: bool = True, **more: Any) -> Object:
    schema = {"openAPIV3Schema": root(a={"type": "integer"})}
    return {"name": name, "served": served, "storage": storage, "schema": schema} | more


def versions_with(*versions: Object) -> Object:
    return spec_with(versions=list(versions))


def schema_with(**properties: Any) -> Object:
    return build_crd("widgets", root(**properties))


def list_of(items: Any, **more: Any) -> Object:
    return {"type": "array", "items": items} | more


KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
TEXT = {"type": "string"}
BAD_CRDS: dict[str, Object] = {
    "another name": spec_with() | {"metadata": {"name": "others.example.com"}},
    "a group without dots": spec_with(group="example"),
    "a bad group": spec_with(group="Example.com"),
    "no scope": {**(crd := spec_with()), "spec": {k: v for k, v in crd["spec"].items() if k != "scope"}},
    "a bad scope": spec_with(scope="Global"),
    "no kind": names_with(kind=""),
    "bad names": names_with(
        kind="Wid_get", singular="Widget", listKind="Wid.List", shortNames=["a", "B"], categories=["-"]
    ),
    "a long name": names_with(singular="a" * 64),
    "the kind of its list": names_with(listKind="Widget"),
    "no version": versions_with(),
    "no storage version": versions_with(version(storage=False)),
    "two storage versions": versions_with(version(), version("v2")),
    "one version twice": versions_with(version(), version(storage=False)),
    "a bad version": versions_with(version("V1")),
    "no schema": versions_with(version(schema={})),
    "bad columns": versions_with(
        version(
            additionalPrinterColumns=[
                {"name": "A", "type": "string", "jsonPath": "spec.a"},
                {"name": "", "type": "float", "jsonPath": ".x"},
                {"name": "B", "type": "string", "format": "odd", "jsonPath": ""},
            ]
        )
    ),
    "a warning of what is not deprecated": versions_with(version(deprecationWarning="soon")),
    "a bad scale": versions_with(
        version(subresources={"scale": {"specReplicasPath": "spec.a", "statusReplicasPath": ".spec.b"}})
    ),
    "a protected group": build_crd("widgets", root())
    | {"metadata": {"name": "widgets.x.k8s.io"}, "spec": spec_with(group="x.k8s.io")["spec"]},
    "unknown fields preserved": spec_with(preserveUnknownFields=True),
    "a webhook without a client": spec_with(conversion={"strategy": "Webhook"}),
    "no type": schema_with(a={}, b={"properties": {"c": {}}}),
    "an unknown type": schema_with(a={"type": "text"}),
    "the type null": schema_with(a={"type": "null"}),
    "no object": build_crd("widgets", {"type": "array", "items": TEXT}),
    "no items": schema_with(a={"type": "array"}),
    "items without a type": schema_with(a=list_of({})),
    "a list of items": schema_with(a=list_of([TEXT])),
    "unique items": schema_with(a=list_of(TEXT, uniqueItems=True)),
    "a reference": schema_with(a={"type": "object", "$ref": "#/x"}),
    "definitions": schema_with(a={"type": "object", "definitions": {"x": TEXT}}),
    "properties and more": schema_with(
        a={"type": "object", "properties": {"b": TEXT}, "additionalProperties": TEXT}
    ),
    "more at the root": build_crd("widgets", {"type": "object", "additionalProperties": TEXT}),
    "a schema of metadata": build_crd(
        "widgets",
        {
            "type": "object",
            "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
        },
    ),
    "types of metadata": build_crd(
        "widgets", {"type": "object", "properties": {"kind": {"type": "integer"}, "metadata": TEXT}}
    ),
    "a default in metadata": build_crd(
        "widgets", {"type": "object", "properties": {"metadata": {"type": "object", "default": {}}}}
    ),
    "nullable at the root": build_crd("widgets", {"type": "object", "nullable": True}),
    "a junctor beside a status": versions_with(
        version(
            subresources={"status": {}},
            schema={"openAPIV3Schema": {"type": "object", "anyOf": [{"required": ["spec"]}]}},
        )
    ),
    "nested types": schema_with(
        a={
            "type": "object",
            "anyOf": [{"type": "object", "description": "x", "default": {}, "nullable": True, "title": "t"}],
        }
    ),
    "nested unknown properties": build_crd(
        "widgets",
        {
            "type": "object",
            "properties": {"spec": {"type": "object"}},
            "anyOf": [{"properties": {"b": {"minimum": 1}, "spec": {"properties": {"c": {"minimum": 1}}}}}],
            "not": {"properties": {"metadata": {}}},
        },
    ),
    "a bad default": schema_with(
        a={"type": "integer", "default": "x"}, b={"type": "string", "default": "x", "enum": ["y"]}
    ),
    "a default with unknown fields": schema_with(
        a={"type": "object", "default": {"b": 1}, "properties": {"c": TEXT}}
    ),
    "int or string and more": schema_with(
        a={"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}
    ),
    "unknown fields not preserved": schema_with(
        a={"type": "object", "x-kubernetes-preserve-unknown-fields": False}
    ),
    "an embedded text": schema_with(a={"type": "string", "x-kubernetes-embedded-resource": True}),
    "an embedded nothing": schema_with(a={"type": "object", "x-kubernetes-embedded-resource": True}),
    "list types": schema_with(
        a={"type": "string", "x-kubernetes-list-type": "set"},
        b=list_of(TEXT, **{"x-kubernetes-list-type": "bag"}),
        c={"x-kubernetes-list-type": "atomic", "x-kubernetes-int-or-string": True},
    ),
    "map types": schema_with(
        a={"type": "string", "x-kubernetes-map-type": "atomic"},
        b={"type": "object", "x-kubernetes-map-type": "odd"},
    ),
    "sets of objects": schema_with(a=list_of({"type": "object"}, **{"x-kubernetes-list-type": "set"})),
    "nullable items": schema_with(
        a=list_of({"type": "string", "nullable": True}, **{"x-kubernetes-list-type": "set"})
    ),
    "keys of no map": schema_with(a=list_of({"type": "object"}, **{"x-kubernetes-list-map-keys": ["k"]})),
    "a map without keys": schema_with(a=list_of({"type": "object"}, **{"x-kubernetes-list-type": "map"})),
    "a map of texts": schema_with(a=list_of(TEXT, **KEYED)),
    "unknown keys": schema_with(a=list_of({"type": "object"}, **KEYED)),
    "keys that may be missing": schema_with(
        a=list_of({"type": "object", "properties": {"k": TEXT}}, **KEYED)
    ),
    "keys that are objects": schema_with(
        a=list_of(
            {"type": "object", "required": ["k"], "properties": {"k": {"type": "object", "nullable": True}}},
            **KEYED,
        )
    ),
    "no rule": schema_with(
        a={"type": "string", "x-kubernetes-validations": [{"rule": " "}, {"rule": "true", "message": " "}]}
    ),
    "paths of many versions": versions_with(
        version(schema={"openAPIV3Schema": root(a={})}), version("v2", storage=False)
    ),
}
