"""What pods get where they leave things out."""

from typing import Any

import pytest

from bireme.apiserver.images import pull_policy
from bireme.apiserver.pod_defaults import begin_pod, default_pod, default_spec
from bireme.apiserver.pod_resources import quality_of_service

Object = dict[str, Any]
DIGEST = "sha256:" + "a" * 64


def spec_with(**fields: Any) -> Object:
    return default_spec({"containers": [{"name": "c", "image": "i"}], **fields})


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("i", "Always"),
        ("i:latest", "Always"),
        ("localhost:5000/i", "Always"),
        ("registry.example:5000/a/b:latest", "Always"),
        (f"i:latest@{DIGEST}", "Always"),
        (f"i@{DIGEST}", "IfNotPresent"),
        ("i:1", "IfNotPresent"),
        ("Upper", "IfNotPresent"),
        ("a" * 64, "IfNotPresent"),
        ("", "IfNotPresent"),
        ("not an image", "IfNotPresent"),
    ],
    ids=["bare", "latest", "port", "registry", "latest with digest", "digest", "tag", "upper case",
         "identifier", "none", "spaces"],
)  # fmt: skip
def test_only_the_latest_image_is_pulled_each_time(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_a_limit_is_a_request_where_there_is_none() -> None:
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
    spec = default_spec({"containers": [{"name": "c", "image": "i", "resources": resources}]})
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


def test_ports_of_a_pod_in_the_hosts_network_are_the_hosts() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]
    spec = default_spec({"hostNetwork": True, "containers": [{"name": "c", "image": "i", "ports": ports}]})
    assert [port["hostPort"] for port in spec["containers"][0]["ports"]] == [80, 8081]


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"terminationGracePeriodSeconds": -5}, "terminationGracePeriodSeconds", 1),
        ({"terminationGracePeriodSeconds": 0}, "terminationGracePeriodSeconds", 0),
        ({"serviceAccount": "a"}, "serviceAccountName", "a"),
        ({"serviceAccount": "a", "serviceAccountName": "b"}, "serviceAccount", "b"),
        ({"volumes": [{"name": "v"}]}, "volumes", [{"name": "v", "emptyDir": {}}]),
        (
            {"volumes": [{"name": "v", "image": {"reference": "i:1"}}]},
            "volumes",
            [{"name": "v", "image": {"reference": "i:1", "pullPolicy": "IfNotPresent"}}],
        ),
        ({"enableServiceLinks": False}, "enableServiceLinks", False),
    ],
    ids=["negative grace", "no grace", "old name", "both names", "volume", "image volume", "links"],
)
def test_fields_of_a_spec(given: Object, field: str, value: Any) -> None:
    assert spec_with(**given)[field] == value


def test_defaults_of_defaults_change_nothing() -> None:
    spec = spec_with(volumes=[{"name": "v"}], resources={"limits": {"cpu": "2"}})
    assert default_spec(spec) == spec


@pytest.mark.parametrize(
    ("resources", "container", "requests"),
    [
        ({"limits": {"cpu": "2"}}, {}, {"cpu": "2"}),
        ({"limits": {"cpu": "2"}}, {"requests": {"cpu": "1"}}, {"cpu": "1"}),
        ({"limits": {"cpu": "2"}, "requests": {"cpu": "3"}}, {"requests": {"cpu": "1"}}, {"cpu": "3"}),
        ({"limits": {"cpu": "2"}}, {"requests": {"memory": "1Gi"}}, {"cpu": "2", "memory": "1Gi"}),
        (
            {"limits": {"cpu": "2"}},
            {"limits": {"hugepages-2Mi": "4Mi"}},
            {"cpu": "2", "hugepages-2Mi": "4Mi"},
        ),
    ],
    ids=["its limit", "its container's", "its own", "both", "huge pages"],
)
def test_what_a_whole_pod_requests(resources: Object, container: Object, requests: Object) -> None:
    containers = [{"name": "c", "image": "i", "resources": container}]
    assert (
        default_spec({"containers": containers, "resources": resources})["resources"]["requests"] == requests
    )


def test_sidecars_count_beside_the_containers_and_others_only_at_the_start() -> None:
    def asks(cpu: str, **more: str) -> Object:
        return {"name": "n", "image": "i", "resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [asks("1"), asks("1")],
        "initContainers": [asks("1", restartPolicy="Always"), asks("4")],
        "resources": {"limits": {"cpu": "9"}},
    }
    assert default_spec(spec)["resources"]["requests"] == {"cpu": "5"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        (
            {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1Gi"}},
            "Guaranteed",
        ),
    ],
    ids=["nothing", "requests", "both"],
)
def test_a_whole_pods_resources_decide_its_quality_of_service(resources: Object, expected: str) -> None:
    ignored = {"resources": {"limits": {"cpu": "1"}}}
    assert quality_of_service({"containers": [ignored], "resources": resources}) == expected


def test_a_request_of_nothing_is_not_guaranteed() -> None:
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0"}}
    assert quality_of_service({"containers": [{"resources": resources}]}) == "Burstable"


def test_a_gated_pod_says_why_it_waits() -> None:
    pod = {"metadata": {"creationTimestamp": "t"}, "spec": spec_with(schedulingGates=[{"name": "g"}])}
    begin_pod(pod)
    (condition,) = pod["status"]["conditions"]
    assert (condition["reason"], condition["lastTransitionTime"]) == ("SchedulingGated", "t")


def test_label_keys_become_part_of_selectors_when_a_pod_is_created() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {},
        "matchLabelKeys": ["a", "b"],
        "mismatchLabelKeys": ["a"],
    }
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    terms = {required: [term], preferred: [{"weight": 1, "podAffinityTerm": term}]}
    pod = {"metadata": {"labels": {"a": "1"}}, "spec": spec_with(affinity={"podAntiAffinity": terms})}
    begin_pod(pod)
    expressions = [
        {"key": "a", "operator": "In", "values": ["1"]},
        {"key": "a", "operator": "NotIn", "values": ["1"]},
    ]
    made = pod["spec"]["affinity"]["podAntiAffinity"]
    assert made[required][0]["labelSelector"]["matchExpressions"] == expressions
    assert made[preferred][0]["podAffinityTerm"]["labelSelector"]["matchExpressions"] == expressions
    assert term["labelSelector"] == {}


def test_annotations_that_once_were_fields_are_forgotten() -> None:
    pod = {"metadata": {"annotations": {"pod.beta.kubernetes.io/init-containers": "[]"}}, "spec": {}}
    default_pod(pod)
    assert pod["metadata"] == {}
