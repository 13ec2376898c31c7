"""Pods that are refused for what they say."""

from typing import Any

import pytest

from bireme.apiserver.kinds import POD
from bireme.apiserver.pod_defaults import default_spec
from bireme.apiserver.pod_updates import kept_status, status_problems

Object = dict[str, Any]
CONTAINER: Object = {"name": "c", "image": "i"}


def refused(spec: Object) -> list[tuple[str, str]]:
    pod = {"metadata": {}, "spec": default_spec({"containers": [CONTAINER], **spec})}
    return [(each.field, each.type) for each in POD.rules.content_problems(pod, None)]


def of_container(**fields: Any) -> Object:
    return {"containers": [CONTAINER | fields]}


REQUIRED, INVALID, DUPLICATE = "FieldValueRequired", "FieldValueInvalid", "FieldValueDuplicate"
FORBIDDEN, NOT_FOUND, UNSUPPORTED = "FieldValueForbidden", "FieldValueNotFound", "FieldValueNotSupported"


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({}, []),
        ({"containers": [{"name": "c"}]}, [("spec.containers[0].image", REQUIRED)]),
        (of_container(name=""), [("spec.containers[0].name", REQUIRED)]),
        (of_container(name="C"), [("spec.containers[0].name", INVALID)]),
        ({"containers": [CONTAINER, CONTAINER]}, [("spec.containers[1].name", DUPLICATE)]),
        ({"initContainers": [CONTAINER]}, [("spec.initContainers[0].name", DUPLICATE)]),
        (
            of_container(volumeMounts=[{"name": "v", "mountPath": "/m"}]),
            [("spec.containers[0].volumeMounts[0].name", NOT_FOUND)],
        ),
        (
            of_container(volumeMounts=[{"name": "v", "mountPath": "/m"}] * 2) | {"volumes": [{"name": "v"}]},
            [("spec.containers[0].volumeMounts[1].mountPath", INVALID)],
        ),
        (
            of_container(volumeMounts=[{"name": "v"}]) | {"volumes": [{"name": "v"}]},
            [("spec.containers[0].volumeMounts[0].mountPath", REQUIRED)],
        ),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, [("spec.volumes[1].name", DUPLICATE)]),
        (
            {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
            [("spec.volumes[0].hostPath", FORBIDDEN)],
        ),
        ({"volumes": [{"name": "v", "secret": {}}]}, [("spec.volumes[0].secret.secretName", REQUIRED)]),
        (of_container(env=[{"name": "a=b"}]), [("spec.containers[0].env[0].name", INVALID)]),
        (of_container(env=[{"name": ""}]), [("spec.containers[0].env[0].name", REQUIRED)]),
        (
            of_container(env=[{"name": "a", "valueFrom": {}}]),
            [("spec.containers[0].env[0].valueFrom", INVALID)],
        ),
        (
            of_container(env=[{"name": "a", "value": "b", "valueFrom": {"fieldRef": {}}}]),
            [("spec.containers[0].env[0].valueFrom", INVALID)],
        ),
        (
            of_container(ports=[{"containerPort": 0}]),
            [("spec.containers[0].ports[0].containerPort", REQUIRED)],
        ),
        (
            of_container(ports=[{"containerPort": 65536, "hostPort": -1, "protocol": "ICMP"}]),
            [
                ("spec.containers[0].ports[0].containerPort", INVALID),
                ("spec.containers[0].ports[0].hostPort", INVALID),
                ("spec.containers[0].ports[0].protocol", UNSUPPORTED),
            ],
        ),
        (
            of_container(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]),
            [("spec.containers[0].ports[1].name", DUPLICATE)],
        ),
        (
            of_container(ports=[{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}]),
            [("spec.containers[0].ports[1].hostPort", DUPLICATE)],
        ),
        (of_container(imagePullPolicy="Often"), [("spec.containers[0].imagePullPolicy", UNSUPPORTED)]),
        (
            of_container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            [("spec.containers[0].resources.requests", INVALID)],
        ),
        (
            of_container(resources={"requests": {"example.com/gpu": 1}}),
            [("spec.containers[0].resources.limits", REQUIRED)],
        ),
        (
            of_container(resources={"requests": {"cpu": "-1"}}),
            [("spec.containers[0].resources.requests[cpu]", INVALID)],
        ),
        (
            {"initContainers": [{"name": "d", "image": "i", "lifecycle": {}}]},
            [("spec.initContainers[0].lifecycle", FORBIDDEN)],
        ),
        ({"initContainers": [{"name": "d", "image": "i", "restartPolicy": "Always", "lifecycle": {}}]}, []),
        (
            {"restartPolicy": "Maybe", "dnsPolicy": "Some"},
            [("spec.restartPolicy", UNSUPPORTED), ("spec.dnsPolicy", UNSUPPORTED)],
        ),
        ({"activeDeadlineSeconds": 0}, [("spec.activeDeadlineSeconds", INVALID)]),
        ({"hostname": "a.b", "nodeName": "N"}, [("spec.nodeName", INVALID), ("spec.hostname", INVALID)]),
        ({"nodeSelector": {"a b": "c"}}, [("spec.nodeSelector", INVALID)]),
        ({"nodeName": "n", "schedulingGates": [{"name": "g"}]}, [("spec.nodeName", FORBIDDEN)]),
    ],
    ids=["fine", "image", "no name", "bad name", "twice", "twice at the start", "no volume", "same mount",
         "no mount path", "same volume", "two sources", "no secret", "variable", "no variable", "no source",
         "value and source", "no port", "bad port", "port name", "host port", "pull policy",
         "above its limit", "no limit", "negative", "life at the start", "sidecar", "words",
         "deadline", "names", "selector",
         "gates"],
)  # fmt: skip
def test_specs_that_are_refused(spec: Object, problems: list[tuple[str, str]]) -> None:
    assert refused(spec) == problems


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"podIP": "a"}, {"podIP": "a", "podIPs": [{"ip": "a"}]}),
        ({"podIPs": [{"ip": "a"}, {"ip": "b"}]}, {"podIP": "a", "podIPs": [{"ip": "a"}, {"ip": "b"}]}),
        ({"podIP": "c", "podIPs": [{"ip": "a"}]}, {"podIP": "c", "podIPs": [{"ip": "c"}]}),
    ],
    ids=["one", "several", "both"],
)
def test_the_addresses_of_a_pod_are_in_step(written: Object, expected: Object) -> None:
    assert kept_status(written, {}) == expected


def test_conditions_keep_the_generation_that_they_were_seen_at() -> None:
    old = {"conditions": [{"type": "A", "observedGeneration": 2}, {"type": "B"}]}
    new = {"conditions": [{"type": "B"}, {"type": "A"}, {"type": "A"}]}
    generations = [each.get("observedGeneration") for each in kept_status(new, old)["conditions"]]
    assert generations == [None, 2, None]


ENDED = {"name": "c", "state": {"terminated": {"exitCode": 42}}}
RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}


@pytest.mark.parametrize(
    ("container", "may"),
    [
        ({}, False),
        ({"restartPolicy": "Always"}, True),
        ({"restartPolicy": "OnFailure"}, True),
        ({"restartPolicy": "Never"}, False),
        ({"restartPolicy": "Never", "restartPolicyRules": [RULE]}, True),
        (
            {"restartPolicy": "Never", "restartPolicyRules": [RULE | {"exitCodes": {"operator": "NotIn"}}]},
            True,
        ),
        ({"restartPolicy": "Never", "restartPolicyRules": [RULE | {"action": "RestartAllContainers"}]}, True),
    ],
    ids=["as its pod", "always", "on failure", "never", "by rule", "by another rule", "all"],
)
def test_a_container_may_have_a_restart_policy_of_its_own(container: Object, may: bool) -> None:
    spec = {"containers": [CONTAINER | container], "restartPolicy": "Never"}
    old = {"spec": spec, "status": {"containerStatuses": [ENDED]}}
    new = {"spec": spec, "status": {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}}
    fields = [each.field for each in status_problems(new, old)]
    assert fields == ([] if may else ["status.containerStatuses[0].state"])


# ---- volumes

UP, ABSOLUTE, HIDDEN = "a/../../x", "/etc/x", "..x"
NO_UP, RELATIVE, NOT_HIDDEN = "must not contain '..'", "must be a relative path", "must not start with '..'"


def messages(spec: Object) -> list[tuple[str, str]]:
    pod = {"metadata": {}, "spec": default_spec({"containers": [CONTAINER], **spec})}
    return [(each.field, each.body) for each in POD.rules.content_problems(pod, None)]


def volume(**source: Any) -> Object:
    return {"volumes": [{"name": "v", **source}]}


def items(path: str) -> Object:
    return {"items": [{"key": "k", "path": path}]}


@pytest.mark.parametrize("path", [UP, "../x", "a/..", ".."])
@pytest.mark.parametrize(
    ("source", "field"),
    [
        (lambda path: volume(configMap={"name": "c", **items(path)}), "configMap.items[0].path"),
        (lambda path: volume(secret={"secretName": "c", **items(path)}), "secret.items[0].path"),
        (
            lambda path: volume(
                downwardAPI={"items": [{"path": path, "fieldRef": {"fieldPath": "metadata.name"}}]}
            ),
            "downwardAPI.path",
        ),
        (
            lambda path: volume(projected={"sources": [{"configMap": {"name": "c", **items(path)}}]}),
            "projected.sources[0].configMap.items[0].path",
        ),
        (
            lambda path: volume(projected={"sources": [{"secret": {"name": "c", **items(path)}}]}),
            "projected.sources[0].secret.items[0].path",
        ),
        (
            lambda path: volume(projected={"sources": [{"serviceAccountToken": {"path": path}}]}),
            "projected.path",
        ),
        (lambda path: volume(hostPath={"path": path}), "hostPath.path"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_path_that_leaves_its_volume_is_refused(source: Any, field: str, path: str) -> None:
    (refusal, *more) = messages(source(path))
    assert refusal[0] == f"spec.volumes[0].{field}"
    assert NO_UP in refusal[1]
    assert all(NOT_HIDDEN in message for _, message in more)


@pytest.mark.parametrize(("path", "problem"), [(ABSOLUTE, RELATIVE), (HIDDEN, NOT_HIDDEN)])
def test_a_file_of_a_volume_is_relative_and_not_hidden(path: str, problem: str) -> None:
    ((field, message),) = messages(volume(configMap={"name": "c", **items(path)}))
    assert field == "spec.volumes[0].configMap.items[0].path"
    assert message == f'Invalid value: "{path}": {problem}'


@pytest.mark.parametrize("field", ["subPath", "subPathExpr"])
@pytest.mark.parametrize(("path", "problem"), [(UP, NO_UP), (ABSOLUTE, RELATIVE)])
def test_a_part_of_a_volume_is_below_it(field: str, path: str, problem: str) -> None:
    mount = {"name": "v", "mountPath": "/m", field: path}
    spec = of_container(volumeMounts=[mount]) | volume(emptyDir={})
    assert messages(spec) == [
        (f"spec.containers[0].volumeMounts.{field}", f'Invalid value: "{path}": {problem}')
    ]


def test_sub_path_and_its_expression_exclude_each_other() -> None:
    mount = {"name": "v", "mountPath": "/m", "subPath": "a", "subPathExpr": "$(A)"}
    ((field, message),) = messages(of_container(volumeMounts=[mount]) | volume(emptyDir={}))
    assert field == "spec.containers[0].volumeMounts[0].subPathExpr"
    assert "mutually exclusive" in message


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({"configMap": {"name": "c", "defaultMode": 0o4755}}, "configMap.defaultMode"),
        ({"secret": {"secretName": "s", "defaultMode": -1}}, "secret.defaultMode"),
        (
            {"configMap": {"name": "c", "items": [{"key": "k", "path": "p", "mode": 0o1000}]}},
            "configMap.items[0].mode",
        ),
        ({"projected": {"defaultMode": 0o2755, "sources": []}}, "projected.defaultMode"),
        ({"downwardAPI": {"defaultMode": 0o2755}}, "downwardAPI.defaultMode"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_mode_has_permission_bits_only(source: Object, field: str) -> None:
    assert [each for each, _ in messages(volume(**source))] == [f"spec.volumes[0].{field}"]


def test_two_sources_of_a_projected_volume_write_no_file_twice() -> None:
    sources = [{"configMap": {"name": "c", **items("p")}}, {"secret": {"name": "s", **items("p")}}]
    ((field, message),) = messages(volume(projected={"sources": sources}))
    assert (field, message) == (
        "spec.volumes[0].projected",
        'Invalid value: "s": conflicting duplicate paths',
    )


def test_paths_that_only_look_dangerous_are_taken() -> None:
    paths = ["a..b", "a/..b", ".hidden", "a/./b", "...x/y", "-"]
    assert [messages(volume(configMap={"name": "c", **items(path)})) for path in paths[:4]] == [[]] * 4
    assert messages(volume(hostPath={"path": "/a..b"})) == []
