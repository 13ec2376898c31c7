"""A kind with every way in which fields can be owned."""

from typing import Any

import pytest

TEXT = {"type": "string"}
INNER = {"type": "object", "properties": {"z": TEXT}}
ITEM = {
    "type": "object",
    "properties": {
        "port": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
        "note": TEXT,
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
    },
}


@pytest.fixture(scope="session")
def schema() -> dict[str, Any]:
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "on": {"type": "boolean"},
            "names": {"type": "object", "additionalProperties": TEXT},
            "color": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
            "tags": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": TEXT},
            "steps": {"type": "array", "items": TEXT},
            "ports": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["protocol", "port"],
                "items": ITEM,
            },
            "mounts": {
                "type": "array",
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "path",
                "items": {"type": "object", "properties": {"path": TEXT, "from": TEXT}},
            },
            "inner": {"type": "object", "properties": {"x": TEXT, "y": INNER}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "any": {},
        },
    }  # fmt: skip
    labels = {"type": "object", "additionalProperties": TEXT}
    metadata = {
        "type": "object",
        "properties": {
            **dict.fromkeys(("name", "namespace", "uid", "resourceVersion", "generateName"), TEXT),
            "generation": {"type": "integer"},
            "labels": labels,
            "annotations": labels,
            "managedFields": {"type": "array", "items": {"type": "object"}},
        },
    }
    status = {"type": "object", "properties": {"phase": TEXT}}
    top = {"apiVersion": TEXT, "kind": TEXT, "metadata": metadata, "spec": spec, "status": status}
    return {"type": "object", "properties": top}
