"""Kubernetes' own schemas of the types that we embed, offline."""

import pkgutil
from functools import cache
from typing import Any

import msgspec

Schema = dict[str, Any]

# A quantity is left without a type: Kubernetes takes strings, integers and fractions alike, and a
# structural schema has no word for that.
QUANTITY_PATTERN = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"


_KEPT = ("type", "format", "enum", "required", "pattern")


@cache
def _document() -> dict[str, Any]:
    data = pkgutil.get_data("bireme.api", "kubernetes.json")
    assert data is not None, "kubernetes.json is part of the package"
    document: dict[str, Any] = msgspec.json.decode(data)
    return document


def kubernetes_version() -> str:
    """The version whose schemas these are, such as `v1.36.3`."""
    version: str = _document()["kubernetes"]
    return version


@cache
def kube_schema(name: str) -> Schema:
    """A Kubernetes type as a structural schema that keeps fields it does not know.

    Equal names give the same object: never change what is returned.
    """
    if name == "Quantity":
        return {
            "x-kubernetes-preserve-unknown-fields": True,
            "pattern": QUANTITY_PATTERN,
            "x-bireme-quantity": True,
        }
    if name == "IntOrString":
        return {"x-kubernetes-int-or-string": True}
    return _structural(_document()["definitions"][name])


def _structural(node: Schema) -> Schema:
    if "$ref" in node:
        return kube_schema(node["$ref"])
    kept: Schema = {key: node[key] for key in _KEPT if key in node}
    if kept.get("format") in {"int-or-string", "byte"}:
        del kept["format"]
    if "properties" in node:
        kept["properties"] = {name: _structural(child) for name, child in node["properties"].items()}
    if isinstance(node.get("additionalProperties"), dict):
        kept["additionalProperties"] = _structural(node["additionalProperties"])
    elif kept.get("type") == "object":
        kept["x-kubernetes-preserve-unknown-fields"] = True
    if "items" in node:
        kept["items"] = _structural(node["items"])
    if node.get("x-kubernetes-map-type"):
        kept["x-kubernetes-map-type"] = node["x-kubernetes-map-type"]
    return kept
