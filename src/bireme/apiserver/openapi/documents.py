"""What is served below /openapi/v3: an index, and a document for each group and version.

A document is that of a kube-apiserver (1.36) without what is not served: its discovery paths, the deprecated
paths below /watch, media types but JSON, the descriptions of parameters, and security schemes.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from bireme import __version__
from bireme.api.kubernetes import kubernetes_version
from bireme.apiserver.discovery import Resource, group_versions, served
from bireme.apiserver.kinds import Kind
from bireme.apiserver.openapi.custom import custom_definitions, definition_name
from bireme.apiserver.openapi.definitions import META, Schema, closure, digest, raw_definition, references
from bireme.apiserver.openapi.operations import Served, paths
from bireme.apiserver.reviews import REVIEWS
from bireme.apiserver.rules import Object


def index(kinds: Sequence[Kind]) -> Object:
    """/openapi/v3: where each document is. The hash in its address changes with the document."""
    found = {}
    for group, versions in group_versions(kinds).items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            address = f"/openapi/v3/{path}?hash={_hash(kinds, group, version)}"
            found[path] = {"serverRelativeURL": address}
    return {"paths": dict(sorted(found.items()))}


def _hash(kinds: Sequence[Kind], group: str, version: str) -> str:
    """Made from what a document is made of: that is there already, and smaller."""
    schemas = [(kind.plural, kind.crd_schema, kind.returns_deleted) for kind in _of(kinds, group, version)]
    source = (__version__, digest(), served(kinds, group, version), schemas)
    return hashlib.sha512(msgspec.json.encode(source)).hexdigest().upper()


def _of(kinds: Sequence[Kind], group: str, version: str) -> list[Kind]:
    return [kind for kind in (*REVIEWS, *kinds) if (kind.group, kind.version) == (group, version)]


def document(kinds: Sequence[Kind], group: str, version: str) -> Object | None:
    """/openapi/v3/api/v1, where the group is empty, or /openapi/v3/apis/GROUP/VERSION; None for others.

    Shares its definitions with other documents: never change it.
    """
    found = served(kinds, group, version)
    if not found:
        return None
    own = _of(kinds, group, version)
    made = paths(_with_definition(own, resource) for resource in found)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": kubernetes_version()},
        "paths": made,
        "components": {"schemas": _schemas(own, made, group, version)},
    }


def _with_definition(kinds: Sequence[Kind], resource: Resource) -> Served:
    kind = next(kind for kind in kinds if kind.plural == resource.plural)
    own = definition_name(kind)
    name = resource.type.definition if resource.type else own
    return Served(resource, name, own if kind.returns_deleted else f"{META}Status")


def _schemas(kinds: Sequence[Kind], made: Object, group: str, version: str) -> dict[str, Schema]:
    """All that the paths refer to."""
    custom = {
        name: schema for kind in kinds if kind.custom for name, schema in custom_definitions(kind).items()
    }
    wanted = references(made)
    if any(not kind.custom and kind not in REVIEWS for kind in kinds):
        wanted.add(f"{META}WatchEvent")
    for schema in custom.values():
        wanted |= references(schema)
    names = {name for each in wanted - custom.keys() for name in closure(each)}
    schemas = custom | {name: raw_definition(name) for name in names}
    for name in (f"{META}DeleteOptions", f"{META}WatchEvent"):
        if name in schemas and group:
            schemas[name] = _also_of(schemas[name], group, version)
    return dict(sorted(schemas.items()))


def _also_of(schema: Schema, group: str, version: str) -> Schema:
    """A definition that is known in every group, as the document of one says it."""
    known = schema["x-kubernetes-group-version-kind"]
    return schema | {
        "x-kubernetes-group-version-kind": [*known, {**known[0], "group": group, "version": version}]
    }
