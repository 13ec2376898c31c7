"""A user's kind: a CRD, and objects of it."""

from random import Random
from typing import Any

from bireme.apiserver.kinds import Kind

Object = dict[str, Any]
GROUP = "differential.example.com"
WIDGETS = Kind(
    group=GROUP,
    plural="widgets",
    kind="Widget",
    custom=True,
    has_status=True,
    has_generation=True,
    unconditional=False,
)
_PART = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer", "default": 1},
        "mode": {"type": "string", "nullable": True},
    },
}
SCHEMA: Object = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 2},
                "color": {"type": "string", "enum": ["red", "blue"]},
                "port": {"x-kubernetes-int-or-string": True},
                "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "parts": {
                    "type": "array",
                    "items": _PART,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                },
                "steps": {"type": "array", "items": {"type": "string"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "whole": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": {
                        "type": "object",
                        "required": ["type"],
                        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                    },
                },
            },
        },
    },
}


def build_crd(group: str, schema: Object = SCHEMA, **spec: Any) -> Object:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    ]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version], **spec},
    }


def widget(random: Random) -> Object:
    spec: Object = {
        "size": random.randint(1, 9),
        "color": random.choice(["red", "blue"]),
        "port": random.choice([80, "web"]),
        "tags": random.sample(["a", "b", "c"], random.randint(0, 3)),
        "parts": [{"name": name} for name in random.sample(["x", "y", "z"], random.randint(0, 3))],
        "steps": ["one", "two"],
        "labels": {"k": "v"},
        "whole": {"a": "1"},
        "free": {"any": {"thing": [1, 2.5, None]}},
    }
    return {"spec": {key: value for key, value in spec.items() if random.random() < 0.6}}
