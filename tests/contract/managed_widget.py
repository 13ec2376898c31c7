"""A custom kind with every way in which fields can be owned."""

from bireme.apiserver.kinds import Kind
from contract.managed_play import Object

TEXT = {"type": "string"}
WIDGET_SCHEMA: Object = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "share": {"type": "number"},
                "on": {"type": "boolean"},
                "hint": {"type": "string", "nullable": True},
                "limit": {"x-kubernetes-int-or-string": True},
                "names": {"type": "object", "additionalProperties": TEXT},
                "color": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "steps": {"type": "array", "items": TEXT},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {
                        "type": "object",
                        "required": ["port"],
                        "properties": {
                            "port": {"type": "integer"},
                            "protocol": {"type": "string", "default": "TCP"},
                            "note": TEXT,
                            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                        },
                    },
                },
                "inner": {
                    "type": "object",
                    "properties": {"x": TEXT, "y": {"type": "object", "properties": {"z": TEXT}}},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": TEXT,
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": {
                        "type": "object",
                        "required": ["type"],
                        "properties": {"type": TEXT, "status": TEXT},
                    },
                },
            },
        },
    },
}
WIDGET = Kind(
    group="managed.example.com", plural="widgets", kind="Widget", custom=True, has_status=True,
    has_generation=True, crd_schema=WIDGET_SCHEMA,
)  # fmt: skip
CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": WIDGET.resource},
    "spec": {
        "group": WIDGET.group,
        "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": WIDGET_SCHEMA},
            }
        ],
    },
}  # fmt: skip
