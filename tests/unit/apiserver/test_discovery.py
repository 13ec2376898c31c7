"""What a client finds below /api and /apis."""

import pytest

from bireme.api.kubernetes import kubernetes_version
from bireme.apiserver import discovery
from bireme.apiserver.kinds import CORE, LEASE, NAMESPACE, POD, Kind

THING = Kind(
    group="example.com", version="v1beta1", plural="things", kind="Thing", custom=True, has_status=True,
    singular="thing", short_names=("th",), categories=("all",), namespaced=False,
)  # fmt: skip
KINDS = (NAMESPACE, POD, LEASE, THING)
REVIEW_GROUPS = ["authentication.k8s.io", "authorization.k8s.io"]


def of_version(version: str) -> Kind:
    return Kind(group="example.com", version=version, plural=f"p{version}", kind="Other", custom=True)


def test_the_core_api_has_one_version() -> None:
    assert discovery.api_versions()["versions"] == ["v1"]


def test_groups_are_in_the_order_in_which_clients_prefer_them() -> None:
    names = [each["name"] for each in discovery.groups((THING, *CORE))["groups"]]
    assert names == [
        *REVIEW_GROUPS,
        "rbac.authorization.k8s.io",
        "apiextensions.k8s.io",
        "scheduling.k8s.io",
        "coordination.k8s.io",
        "example.com",
    ]


def test_a_group_prefers_its_most_stable_and_newest_version() -> None:
    kinds = [of_version(each) for each in ("v1alpha1", "other", "v2beta1", "v1", "v2beta10", "v10", "v2")]
    found = discovery.group(kinds, "example.com")
    assert found is not None
    versions = [each["version"] for each in found["versions"]]
    assert versions == ["v10", "v2", "v1", "v2beta10", "v2beta1", "v1alpha1", "other"]
    assert found["preferredVersion"] == {"groupVersion": "example.com/v10", "version": "v10"}


@pytest.mark.parametrize("name", ["", "apps"], ids=["core", "unknown"])
def test_what_is_no_group_is_not_there(name: str) -> None:
    assert discovery.group(KINDS, name) is None


@pytest.mark.parametrize(
    ("group", "version"),
    [("", "v2"), ("apps", "v1"), ("example.com", "v1")],
    ids=["core", "group", "version"],
)
def test_what_is_not_served_has_no_resources(group: str, version: str) -> None:
    assert discovery.resources(KINDS, group, version) is None


def test_a_custom_kind_is_a_resource_with_its_status() -> None:
    assert discovery.resources(KINDS, "example.com", "v1beta1") == {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "example.com/v1beta1",
        "resources": [
            {
                "name": "things",
                "singularName": "thing",
                "namespaced": False,
                "kind": "Thing",
                "verbs": [
                    "delete",
                    "deletecollection",
                    "get",
                    "list",
                    "patch",
                    "create",
                    "update",
                    "watch",
                ],
                "shortNames": ["th"],
                "categories": ["all"],
            },
            {
                "name": "things/status",
                "singularName": "",
                "namespaced": False,
                "kind": "Thing",
                "verbs": ["get", "patch", "update"],
            },
        ],
    }


def test_subresources_say_what_they_take() -> None:
    found = discovery.resources(KINDS, "", "v1")
    assert found is not None
    resources = {each["name"]: each for each in found["resources"]}
    assert list(resources) == sorted(resources)
    assert resources["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert resources["pods/exec"]["kind"] == "PodExecOptions"
    assert resources["namespaces/finalize"]["verbs"] == ["update"]
    assert "deletecollection" not in resources["namespaces"]["verbs"]


def test_reviews_are_served_whatever_kinds_there_are() -> None:
    assert [each["name"] for each in discovery.groups(())["groups"]] == REVIEW_GROUPS
    found = discovery.resources((), "authorization.k8s.io", "v1")
    assert found is not None
    assert {each["name"]: (each["namespaced"], each["verbs"]) for each in found["resources"]} == {
        "localsubjectaccessreviews": (True, ["create"]),
        "selfsubjectaccessreviews": (False, ["create"]),
        "selfsubjectrulesreviews": (False, ["create"]),
        "subjectaccessreviews": (False, ["create"]),
    }


@pytest.mark.parametrize("version", [discovery.V2, discovery.V2_BETA])
def test_aggregated_discovery_says_the_same_in_one_answer(version: str) -> None:
    core = discovery.aggregated(KINDS, core=True, version=version)
    others = discovery.aggregated(KINDS, core=False, version=version)
    assert core["apiVersion"] == others["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    assert [each["metadata"] for each in core["items"]] == [{}]
    assert [each["metadata"]["name"] for each in others["items"]] == [
        each["name"] for each in discovery.groups(KINDS)["groups"]
    ]
    for item in (*core["items"], *others["items"]):
        group = item["metadata"].get("name", "")
        for each in item["versions"]:
            plain = discovery.resources(KINDS, group, each["version"])
            assert plain is not None
            assert {(name, tuple(verbs)) for name, verbs in flat(each)} == {
                (resource["name"], tuple(resource["verbs"])) for resource in plain["resources"]
            }


def flat(version: dict[str, list[dict[str, object]]]) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for each in version["resources"]:
        plural, verbs, below = str(each["resource"]), each["verbs"], each.get("subresources", [])
        assert isinstance(verbs, list)
        assert isinstance(below, list)
        found += [(plural, verbs), *((f"{plural}/{sub['subresource']}", sub["verbs"]) for sub in below)]
    return found


def test_the_version_is_that_of_kubernetes_with_our_name() -> None:
    found = discovery.version()
    assert found["gitVersion"] == f"{kubernetes_version()}+bireme"
    assert f"v{found['major']}.{found['minor']}." in found["gitVersion"]
    assert all(isinstance(value, str) for value in found.values())
