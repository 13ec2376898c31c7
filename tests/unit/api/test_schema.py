"""The schema that everything else is made from."""

from typing import Any

import msgspec
import pytest

from bireme.api.kinds import KINDS, Kind, find_kind, kinds_named
from bireme.api.schema import kind_schema


def walk(schema: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    found = [(path, schema)]
    for name, child in schema.get("properties", {}).items():
        found += walk(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            found += walk(schema[key], f"{path}[]")
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.crd_name)
def test_every_field_of_ours_is_described(kind: Kind) -> None:
    for path, schema in walk(kind_schema(kind)):
        if (
            "x-kubernetes-preserve-unknown-fields" in schema
            or "template" in path
            or "[]" in path.split(".")[-1]
        ):
            continue
        if path.startswith((".spec", ".status")) and not any(
            part in path for part in (".env", ".resources", "Selector", ".metadata")
        ):
            assert schema.get("description"), path


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.crd_name)
def test_an_empty_object_decodes_to_its_defaults(kind: Kind) -> None:
    empty = msgspec.convert({"apiVersion": kind.api_version, "kind": kind.kind}, kind.struct)
    assert empty == kind.struct()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.crd_name)
def test_lists_decode(kind: Kind) -> None:
    data = {
        "kind": f"{kind.kind}List",
        "metadata": {"resourceVersion": "7", "continue": "abc"},
        "items": [{}, {}],
    }
    decoded: Any = msgspec.convert(data, kind.list_struct)
    assert (len(decoded.items), decoded.metadata.continue_) == (2, "abc")


def test_kinds_are_found_by_every_name() -> None:
    assert [kind.group for kind in kinds_named("mpijob")] == ["batch.tensorstack.dev", "kubeflow.org"]
    assert [kind.group for kind in kinds_named("mpijobs.kubeflow.org")] == ["kubeflow.org"]
    assert [kind.kind for kind in kinds_named("CAIJ")] == ["ColossalAIJob"]
    assert list(kinds_named("pod")) == []
    assert find_kind("v1", "Pod") is None
