"""CustomResourceDefinitions, made from the kinds."""

from typing import Any

from bireme.api.kinds import Kind
from bireme.api.schema import kind_schema

CATEGORY = "bireme"


def build_crd(kind: Kind) -> dict[str, Any]:
    """The CRD of a kind, ready to be applied; `kubectl apply` works without server-side apply."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": kind.crd_name,
            "labels": {"app.kubernetes.io/name": "bireme", "app.kubernetes.io/managed-by": "bireme"},
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": list(kind.short_names),
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(column) for column in kind.columns],
                    "schema": {"openAPIV3Schema": _root_schema(kind)},
                }
            ],
        },
    }


def _column(column: Any) -> dict[str, Any]:
    result = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.json_path,
        "description": column.description,
    }
    return {**result, "priority": column.priority} if column.priority else result


def _root_schema(kind: Kind) -> dict[str, Any]:
    schema: dict[str, Any] = _public(kind_schema(kind))
    # The API server checks these itself and takes no schema for them beyond their type.
    schema["properties"]["apiVersion"] = {"type": "string"}
    schema["properties"]["kind"] = {"type": "string"}
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


def _public(node: Any) -> Any:
    """A copy without our own keywords."""
    if isinstance(node, dict):
        return {key: _public(child) for key, child in node.items() if not str(key).startswith("x-bireme-")}
    return [_public(child) for child in node] if isinstance(node, list) else node
