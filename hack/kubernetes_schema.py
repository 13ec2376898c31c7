"""Cut the schemas that we use out of Kubernetes' own OpenAPI document.

    kubectl get --raw /openapi/v3/api/v1 | python hack/kubernetes_schema.py v1.36.3

writes src/bireme/api/kubernetes.json: pod template, service port and what they refer to, without
descriptions. A contract test compares the file with what the pinned API server serves.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOTS = ("io.k8s.api.core.v1.PodTemplateSpec",)
TARGET = Path(__file__).parents[1] / "src/bireme/api/kubernetes.json"
DROPPED = {
    "description",
    "default",
    "x-kubernetes-unions",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
}


def cut(openapi: dict[str, Any], version: str) -> dict[str, Any]:
    """Return the closure of ROOTS, each definition under its short name."""
    schemas = openapi["components"]["schemas"]
    wanted: dict[str, Any] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if _short(name) not in wanted:
            wanted[_short(name)] = _trim(schemas[name])
            waiting.extend(_references(schemas[name]))
    return {"kubernetes": version, "definitions": dict(sorted(wanted.items()))}


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _references(node: object) -> Iterator[str]:
    match node:
        case {"$ref": str(reference)}:
            yield reference.rsplit("/", 1)[-1]
        case dict():
            for child in node.values():
                yield from _references(child)
        case list():
            for child in node:
                yield from _references(child)


def _trim(node: Any, *, names: bool = False) -> Any:
    """Drop what is not checked; `names` says that the keys are field names, not keywords."""
    if isinstance(node, list):
        return [_trim(child) for child in node]
    if not isinstance(node, dict):
        return node
    match node:
        case {"$ref": str(reference)}:
            return {"$ref": _short(reference)}
        case {"allOf": [{"$ref": str(reference)}]}:
            return {"$ref": _short(reference)}
    return {
        key: _trim(child, names=key == "properties" and not names)
        for key, child in sorted(node.items())
        if names or key not in DROPPED
    }


def render(openapi: dict[str, Any], version: str) -> str:
    """The file's text, one line per definition so that a diff can be read."""
    result = cut(openapi, version)
    lines = [
        f"    {json.dumps(name)}: {json.dumps(schema, separators=(',', ':'))}"
        for name, schema in result["definitions"].items()
    ]
    return (
        f'{{\n  "kubernetes": {json.dumps(version)},\n  "definitions": {{\n'
        + ",\n".join(lines)
        + "\n  }\n}\n"
    )


if __name__ == "__main__":
    TARGET.write_text(render(json.load(sys.stdin), sys.argv[1]))
