"""CustomResourceDefinitions."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bireme.api.crd import build_crd as build_own_crd
from bireme.api.kinds import KINDS
from bireme.api.kinds import Kind as OwnKind
from bireme.apiserver.crd_rules import FINALIZER, CrdRules
from bireme.apiserver.crds import cleaned, cleanup_needed, kind_of, warnings
from bireme.apiserver.kinds import Column, custom
from support.bad_crds import BAD_CRDS, versions_with
from support.bad_crds import version as a_version
from support.custom_kinds import build_crd
from support.custom_schemas import SCHEMAS, root

Object = dict[str, Any]
NOW = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
MOMENT = "2024-01-02T03:04:05Z"
RULES = CrdRules()


def created(crd: Object) -> Object:
    new: Object = json.loads(json.dumps(crd))
    new["metadata"]["creationTimestamp"] = MOMENT
    RULES.default(new)
    RULES.prepare_create(new)
    return new


def widgets(**version: Any) -> Object:
    return created(build_crd("widgets", root(a={"type": "integer"}), **version))


def updated(old: Object, **spec: Any) -> Object:
    new = old | {"metadata": dict(old["metadata"]), "spec": old["spec"] | spec}
    RULES.default(new)
    RULES.prepare_update(new, old)
    return new


# ---- kinds


def test_a_crd_defines_a_kind() -> None:
    crd = widgets(
        subresources={"status": {}},
        additionalPrinterColumns=[{"name": "A", "type": "integer", "jsonPath": ".spec.a", "priority": 1}],
        selectableFields=[{"jsonPath": ".spec.a"}],
    )
    crd["spec"]["names"] |= {"shortNames": ["w"], "categories": ["all"]}
    kind = kind_of(crd)
    assert kind is not None
    assert kind.resource == "widgets.structural.example.com"
    assert (kind.api_version, kind.kind, kind.singular) == ("structural.example.com/v1", "Widgets", "widgets")
    assert (kind.namespaced, kind.custom, kind.has_status, kind.has_generation) == (False, True, True, True)
    assert (kind.short_names, kind.categories, kind.fields) == (("w",), ("all",), ("spec.a",))
    assert kind.columns == (Column(name="A", type="integer", json_path=".spec.a", priority=1),)
    assert kind.crd_schema == root(a={"type": "integer"})
    assert not kind.unconditional


def test_only_a_storage_version_that_is_served_defines_a_kind() -> None:
    two = created(versions_with(a_version(served=False), a_version("v2", storage=False)))
    assert kind_of(two) is None
    other = kind_of(created(versions_with(a_version(storage=False), a_version("v2"))))
    assert other is not None
    assert other.version == "v2"


@pytest.mark.parametrize("own", KINDS, ids=lambda each: each.crd_name)
def test_our_own_crds_define_the_kinds_that_we_serve(own: OwnKind) -> None:
    crd = created(build_own_crd(own))
    assert RULES.content_problems(crd, None) == []
    kind, expected = kind_of(crd), custom(own)
    assert kind is not None
    for field in (
        "group",
        "version",
        "plural",
        "kind",
        "namespaced",
        "custom",
        "has_status",
        "has_generation",
    ):
        assert getattr(kind, field) == getattr(expected, field), field
    assert kind.unconditional is expected.unconditional
    assert kind.short_names == own.short_names
    assert [column.json_path for column in kind.columns] == [column.json_path for column in own.columns]


# ---- what is filled in


def test_names_and_conversion_have_defaults() -> None:
    spec = widgets()["spec"]
    assert spec["names"] == {
        "plural": "widgets", "singular": "widgets", "kind": "Widgets", "listKind": "WidgetsList",
    }  # fmt: skip
    assert spec["conversion"] == {"strategy": "None"}


def test_a_new_crd_is_established() -> None:
    status = widgets()["status"]
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("NamesAccepted", "True"),
        ("Established", "True"),
    ]
    assert {each["lastTransitionTime"] for each in status["conditions"]} == {MOMENT}
    assert status["acceptedNames"] == widgets()["spec"]["names"]
    assert status["storedVersions"] == ["v1"]


def test_versions_that_were_stored_are_remembered() -> None:
    old = widgets()
    first = old["spec"]["versions"][0]
    new = updated(old, versions=[first | {"storage": False}, first | {"name": "v2"}])
    assert new["status"]["storedVersions"] == ["v1", "v2"]
    assert RULES.content_problems(new, old) == []
    gone = updated(new, versions=[first | {"name": "v2"}])
    assert [each.field for each in RULES.content_problems(gone, new)] == ["status.storedVersions[0]"]


def test_new_short_names_are_accepted() -> None:
    old = widgets()
    new = updated(old, names=old["spec"]["names"] | {"shortNames": ["w"]})
    assert new["status"]["acceptedNames"]["shortNames"] == ["w"]
    assert RULES.content_problems(new, old) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scope": "Namespaced"}, "spec.scope"),
        ({"group": "other.example.com"}, "spec.group"),
        ({"names": {"plural": "widgets", "kind": "Other"}}, "spec.names.kind"),
        ({"names": {"plural": "others", "kind": "Widgets"}}, "spec.names.plural"),
    ],
)
def test_what_names_the_objects_can_not_change(change: Object, field: str) -> None:
    old = widgets()
    problems = RULES.content_problems(updated(old, **change), old)
    assert [(each.field, each.body.rpartition(": ")[2]) for each in problems] == [
        (field, "field is immutable")
    ]


# ---- what is wrong


@pytest.mark.parametrize("crd", BAD_CRDS.values(), ids=BAD_CRDS)
def test_bad_crds_are_refused(crd: Object) -> None:
    assert RULES.content_problems(created(crd), None) != []


@pytest.mark.parametrize("name", SCHEMAS)
def test_good_schemas_are_taken(name: str) -> None:
    assert RULES.content_problems(created(build_crd(name, SCHEMAS[name])), None) == []


def test_paths_are_those_of_the_server() -> None:
    one = RULES.content_problems(created(build_crd("widgets", root(a={}))), None)
    assert [each.field for each in one] == [
        "spec.validation.openAPIV3Schema.properties[spec].properties[a].type"
    ]
    bad = a_version(schema={"openAPIV3Schema": root(a={})})
    two = RULES.content_problems(created(versions_with(bad, a_version("v2", storage=False))), None)
    expected = "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[a].type"
    assert [each.field for each in two] == [expected]


KEYWORDS = [
    "type", "items", "properties", "additionalProperties", "anyOf", "not", "required", "enum", "pattern",
    "default", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-validations", "minimum",
    "maxLength",
]  # fmt: skip
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["object", "array", "string", "map", "(", "k"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYWORDS), JSON, max_size=4))
def test_any_schema_is_judged(schema: Object) -> None:
    nested = {"type": "array", "items": schema}
    problems = RULES.content_problems(created(build_crd("widgets", root(a=nested))), None)
    assert all(each.field and each.body for each in problems)


# ---- going


def test_a_crd_stays_until_its_objects_have_gone() -> None:
    held = RULES.hold(widgets(), NOW)
    assert held is not None
    assert held["metadata"]["finalizers"] == [FINALIZER]
    assert held["metadata"]["deletionTimestamp"] == MOMENT
    assert held["status"]["conditions"][-1]["reason"] == "InstanceDeletionPending"
    assert cleanup_needed(held)
    assert RULES.hold(held, NOW) is None
    gone = cleaned(held)
    assert "finalizers" not in gone["metadata"]
    assert gone["status"]["conditions"][-1]["reason"] == "InstanceDeletionCompleted"
    assert not cleanup_needed(gone)


def test_finalizers_of_others_stay() -> None:
    crd = widgets()
    crd["metadata"]["finalizers"] = ["example.com/mine"]
    held = RULES.hold(crd, NOW)
    assert held is not None
    assert cleaned(held)["metadata"]["finalizers"] == ["example.com/mine"]


# ---- warnings


def test_a_plain_crd_gives_no_warning() -> None:
    assert warnings(widgets()) == []


@pytest.mark.parametrize(
    ("crd", "warning"),
    [
        (
            created(versions_with(a_version(), a_version("v2", storage=False))),
            "only the storage version v1 is served",
        ),
        (created(build_crd("rules", SCHEMAS["rules"])), "x-kubernetes-validations are not evaluated"),
        (
            created(build_crd("formats", root(a={"type": "string", "format": "odd"}))),
            'unrecognized format "odd"',
        ),
        (widgets(subresources={"scale": {}}), "the scale subresource is not served"),
    ],
    ids=["versions", "rules", "formats", "scale"],
)
def test_what_is_not_done_is_said(crd: Object, warning: str) -> None:
    assert [warning in text for text in warnings(crd)] == [True]
