"""The environment of a container."""

import base64
from typing import Any

import pytest

from bireme.node.downward import NotOfferedError, field_value, resource_value
from bireme.node.environment import Environment, References, Sources, build_environment, expand, needs
from unit.node.model import build_pod, container, sidecar

Object = dict[str, Any]
VALUES = {"A": "1", "B": "$(A)", "E": ""}


def encoded(**data: bytes) -> Object:
    return {"data": {key: base64.b64encode(value).decode() for key, value in data.items()}}


SOURCES = Sources(
    config_maps={"c": {"data": {"k": "v", "my-key.txt": "w"}, "binaryData": {"b": "AP8="}}, "gone": None},
    secrets={"s": encoded(p=b"secret", raw=b"\xff\xfe", nul=b"a\0b"), "gone": None},
    allocatable={"cpu": "8", "memory": "16Gi", "ephemeral-storage": "100Gi"},
)


def build(env: list[Object], *, env_from: tuple[Object, ...] = (), **fields: Any) -> Environment:
    own = container("a", env=env, envFrom=list(env_from), **fields)
    return build_environment(build_pod(own), own, SOURCES, {"PATH": "/bin", "HOME": "/root"})


# ---- references in texts


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain", "plain"),
        ("$(A)", "1"),
        ("-$(A)-$(A)-", "-1-1-"),
        ("$(B)", "$(A)"),
        ("$(E)", ""),
        ("$(NONE)", "$(NONE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$", "$"),
        ("$", "$"),
        ("$A", "$A"),
        ("${A}", "${A}"),
        ("$(A", "$(A"),
        ("$(A$$", "$(A$"),
        ("$(A$(A))", "$(A$(A))"),
        ("$()", "$()"),
        ("$(A\n)", "$(A\n)"),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, expanded: str) -> None:
    assert expand([text], VALUES) == [expanded]


# ---- variables


def test_a_variable_can_refer_to_those_before_it() -> None:
    made = build(
        [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C", "value": "3"}]
    )
    assert made.own == {"A": "1", "B": "1$(C)", "C": "3"}


def test_the_container_s_variables_win_over_the_caller_s() -> None:
    made = build([{"name": "HOME", "value": "/work"}, {"name": "X", "value": "$(PATH)"}])
    assert made.values == {"PATH": "/bin", "HOME": "/work", "X": "$(PATH)"}
    assert made.own == {"HOME": "/work", "X": "$(PATH)"}


def test_a_variable_without_a_value_is_empty() -> None:
    assert build([{"name": "A"}]).own == {"A": ""}


def test_later_variables_replace_earlier_ones() -> None:
    made = build([{"name": "k", "value": "mine"}], env_from=({"configMapRef": {"name": "c"}},))
    assert made.own == {"k": "mine", "my-key.txt": "w"}


def test_whole_maps_can_be_taken_with_a_prefix() -> None:
    made = build(
        [{"name": "X", "value": "$(C_k)"}], env_from=({"prefix": "C_", "configMapRef": {"name": "c"}},)
    )
    assert made.own == {"C_k": "v", "C_my-key.txt": "w", "X": "v"}


def test_names_that_no_process_can_have_are_skipped_and_told() -> None:
    made = build([], env_from=({"prefix": "=", "configMapRef": {"name": "c"}},))
    assert (made.own, made.skipped, made.problems) == ({}, ("=k", "=my-key.txt"), ())


def test_bytes_that_are_no_text_survive() -> None:
    made = build([{"name": "R", "valueFrom": {"secretKeyRef": {"name": "s", "key": "raw"}}}])
    assert made.own["R"].encode(errors="surrogateescape") == b"\xff\xfe"


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({"configMapKeyRef": {"name": "c", "key": "k"}}, "v"),
        ({"secretKeyRef": {"name": "s", "key": "p"}}, "secret"),
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "p"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "8"),
    ],
    ids=["config map", "secret", "field", "resource"],
)
def test_a_value_can_come_from_elsewhere(source: Object, value: str) -> None:
    assert build([{"name": "X", "valueFrom": source}]).own == {"X": value}


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"configMapKeyRef": {"name": "gone", "key": "k"}}, 'configmap "gone" not found'),
        ({"configMapKeyRef": {"name": "c", "key": "z"}}, "couldn't find key z in ConfigMap default/c"),
        ({"configMapKeyRef": {"name": "c", "key": "b"}}, "couldn't find key b in ConfigMap default/c"),
        ({"secretKeyRef": {"name": "gone", "key": "k"}}, 'secret "gone" not found'),
        ({"secretKeyRef": {"name": "s", "key": "z"}}, "couldn't find key z in Secret default/s"),
    ],
    ids=["no config map", "no such key", "binary data", "no secret", "no such key in a secret"],
)
def test_what_is_missing_is_a_problem_unless_it_is_optional(source: Object, problem: str) -> None:
    made = build([{"name": "X", "valueFrom": source}])
    assert (made.own, made.problems) == ({}, (problem,))
    optional = {field: ref | {"optional": True} for field, ref in source.items()}
    made = build([{"name": "X", "valueFrom": optional}])
    assert (made.own, made.problems) == ({}, ())


@pytest.mark.parametrize("field", ["configMapRef", "secretRef"])
def test_a_whole_map_that_is_missing_is_a_problem_unless_it_is_optional(field: str) -> None:
    kind = "configmap" if field == "configMapRef" else "secret"
    assert build([], env_from=({field: {"name": "gone"}},)).problems == (f'{kind} "gone" not found',)
    assert build([], env_from=({field: {"name": "gone", "optional": True}},)).problems == ()


def test_a_value_that_no_process_can_be_given_is_a_problem() -> None:
    made = build([{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "nul"}}}])
    assert made.problems == ("the value of X holds a NUL byte",)


def test_a_field_that_is_not_offered_is_a_problem() -> None:
    made = build([{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.hostname"}}}])
    assert made.problems == ("field label not supported: spec.hostname",)


# ---- fields and resources


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "default"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app.io/x']", "1"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['n']", 'a "b"\n'),
        ("metadata.annotations", 'm="\\u2028"\nn="a \\"b\\"\\n"'),
        ("spec.nodeName", "here"),
        ("spec.serviceAccountName", "sa"),
        ("status.hostIP", "10.0.0.1"),
        ("status.hostIPs", "10.0.0.1"),
        ("status.podIP", "10.0.0.2"),
        ("status.podIPs", "10.0.0.2,fd00::2"),
    ],
)
def test_a_pod_tells_its_fields(path: str, value: str) -> None:
    pod = build_pod(serviceAccountName="sa")
    pod["metadata"] |= {"labels": {"app.io/x": "1"}, "annotations": {"n": 'a "b"\n', "m": "\u2028"}}
    pod["status"] |= {
        "hostIP": "10.0.0.1",
        "hostIPs": [{"ip": "10.0.0.1"}],
        "podIP": "10.0.0.2",
        "podIPs": [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}],
    }
    assert field_value(pod, path) == value


RESOURCES = {
    "limits": {"cpu": "1500m", "memory": "1Gi", "hugepages-2Mi": "4Mi"},
    "requests": {"cpu": "250m", "memory": "1000M"},
}


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", "0", "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.cpu", "1", "1"),
        ("requests.cpu", "1m", "250"),
        ("limits.memory", "1Mi", "1024"),
        ("requests.memory", "1Mi", "954"),
        ("requests.memory", "0", "1000000000"),
        ("limits.hugepages-2Mi", "1Mi", "4"),
        ("limits.ephemeral-storage", "1Gi", "100"),
        ("requests.ephemeral-storage", "0", "0"),
    ],
)
def test_a_container_is_told_its_resources_rounded_up(resource: str, divisor: str, value: str) -> None:
    own = container("a", resources=RESOURCES)
    ref = {"resource": resource, "divisor": divisor}
    assert resource_value(build_pod(own), ref, own, SOURCES.allocatable) == value


def test_without_a_limit_of_its_own_a_container_has_its_pod_s_and_else_the_node_s() -> None:
    own, ref = container("a"), {"resource": "limits.memory", "divisor": "1Gi"}
    assert resource_value(build_pod(own), ref, own, SOURCES.allocatable) == "16"
    limited = build_pod(own, resources={"limits": {"memory": "2Gi"}})
    assert resource_value(limited, ref, own, SOURCES.allocatable) == "2"


def test_resources_of_another_container_can_be_asked_for() -> None:
    pod = build_pod(container("a"), container("b", resources=RESOURCES))
    assert resource_value(pod, {"resource": "limits.cpu", "containerName": "b", "divisor": "1m"}) == "1500"
    with pytest.raises(NotOfferedError, match="container z not found"):
        resource_value(pod, {"resource": "limits.cpu", "containerName": "z"})


def test_other_resources_are_not_offered() -> None:
    with pytest.raises(NotOfferedError, match="unsupported container resource : limits"):
        resource_value(build_pod(), {"resource": "limits.gpu"})


# ---- what a pod needs


def test_a_pod_needs_what_its_environment_and_its_volumes_refer_to() -> None:
    first = container("i", envFrom=[{"configMapRef": {"name": "c1"}}, {"secretRef": {"name": "s1"}}])
    keys = [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c2", "key": "k", "optional": True}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s2", "key": "k"}}},
        {"name": "C", "value": "x"},
    ]
    volumes = [
        {"name": "v1", "configMap": {"name": "c3"}},
        {"name": "v2", "secret": {"secretName": "s3"}},
        {"name": "v3", "projected": {"sources": [{"configMap": {"name": "c4"}}, {"secret": {"name": "s4"}}]}},
        {"name": "v4", "persistentVolumeClaim": {"claimName": "p1"}},
        {"name": "v5", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "v6", "emptyDir": {}},
    ]
    pod = build_pod(container("a", env=keys), init=(first, sidecar("s")), volumes=volumes)
    assert needs(pod) == References(
        frozenset({"c1", "c2", "c3", "c4"}), frozenset({"s1", "s2", "s3", "s4"}), frozenset({"p1", "p-v5"})
    )


def test_the_content_of_maps_and_secrets_is_bytes() -> None:
    assert SOURCES.config_map("c") == {"k": b"v", "my-key.txt": b"w", "b": b"\0\xff"}
    assert SOURCES.secret("s") == {"p": b"secret", "raw": b"\xff\xfe", "nul": b"a\0b"}
    assert (SOURCES.config_map("gone"), SOURCES.secret("none")) == (None, None)
