"""Cut the definitions of the kinds that we serve out of Kubernetes' own OpenAPI documents.

    python hack/openapi_definitions.py v1.36.3

asks the API server that kubectl talks to, and writes src/bireme/apiserver/openapi/definitions.json: what
bireme.apiserver.kinds.CORE names, what else goes over the wire, and all that these refer to. A contract test
compares the file with what the pinned API server serves.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bireme.apiserver.kinds import CORE

TARGET = Path(__file__).parents[1] / "src/bireme/apiserver/openapi/definitions.json"
# The first document that has a definition gives it: they differ in the groups that DeleteOptions and
# WatchEvent are said to be of.
DOCUMENTS = (
    "api/v1",
    "apis/coordination.k8s.io/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/scheduling.k8s.io/v1",
    "apis/apiextensions.k8s.io/v1",
    "apis/authorization.k8s.io/v1",
    "apis/authentication.k8s.io/v1",
)
ROOTS = (
    *(kind.definition for kind in CORE),
    *(f"{kind.definition}List" for kind in CORE),
    *(
        f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}"
        for name in ("DeleteOptions", "Patch", "Status", "WatchEvent")
    ),
    "io.k8s.api.core.v1.Binding",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.api.authentication.v1.SelfSubjectReview",
    "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    "io.k8s.api.authorization.v1.SubjectAccessReview",
)


def cut(fetch: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The closure of ROOTS; `fetch` brings a document by its path."""
    schemas: dict[str, Any] = {}
    for path in DOCUMENTS:
        schemas = fetch(path)["components"]["schemas"] | schemas
    wanted: set[str] = set()
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting.extend(_references(schemas[name]))
    return {name: schemas[name] for name in sorted(wanted)}


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


def render(fetch: Callable[[str], dict[str, Any]], version: str) -> str:
    """The file's text, one line per definition so that a diff can be read."""
    lines = [
        f"    {json.dumps(name)}: {json.dumps(schema, separators=(',', ':'), sort_keys=True)}"
        for name, schema in cut(fetch).items()
    ]
    return (
        f'{{\n  "kubernetes": {json.dumps(version)},\n  "definitions": {{\n'
        + ",\n".join(lines)
        + "\n  }\n}\n"
    )


def _ask_kubectl(path: str) -> dict[str, Any]:
    reply = subprocess.run(
        ["kubectl", "get", "--raw", f"/openapi/v3/{path}"], check=True, capture_output=True
    )
    document: dict[str, Any] = json.loads(reply.stdout)
    return document


if __name__ == "__main__":
    TARGET.write_text(render(_ask_kubectl, sys.argv[1]))
