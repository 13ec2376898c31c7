"""What depends on other objects: accounts, priorities, tolerations."""

from typing import Any

import pytest

from bireme.apiserver import plugins
from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import NODE, POD, PRIORITY_CLASS, SERVICE_ACCOUNT, Kind
from bireme.apiserver.rules import Object

URGENT: Object = {"metadata": {"name": "urgent"}, "value": 7, "preemptionPolicy": "Never"}
USUAL: Object = {"metadata": {"name": "usual"}, "value": 3, "globalDefault": True}
ACCOUNT: Object = {"metadata": {"name": "builder"}, "imagePullSecrets": [{"name": "pull"}]}
THERE = {
    (PRIORITY_CLASS.plural, "urgent"): URGENT,
    (SERVICE_ACCOUNT.plural, "builder"): ACCOUNT,
    (NODE.plural, "here"): {},
}


def lookup(kind: Kind, namespace: str, name: str) -> Object | None:
    assert namespace == ("n" if kind.namespaced else "")
    return THERE.get((kind.plural, name))


def admitted(*, default: Object | None = None, old: Object | None = None, **spec: Any) -> Object:
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": spec}
    plugins.admit(lookup, POD, pod, old, every=lambda _: [URGENT, default] if default else [URGENT])
    made: Object = pod["spec"]
    return made


def test_a_pod_runs_as_the_account_of_its_namespace() -> None:
    spec = admitted()
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")


def test_an_account_brings_its_pull_secrets() -> None:
    assert admitted(serviceAccountName="builder")["imagePullSecrets"] == [{"name": "pull"}]
    own = [{"name": "own"}]
    assert admitted(serviceAccountName="builder", imagePullSecrets=own)["imagePullSecrets"] == own


@pytest.mark.parametrize(
    ("spec", "default", "expected"),
    [
        ({}, None, (None, 0, "PreemptLowerPriority")),
        ({}, USUAL, ("usual", 3, "PreemptLowerPriority")),
        ({"priorityClassName": "urgent"}, USUAL, ("urgent", 7, "Never")),
        ({"priorityClassName": "urgent", "priority": 7}, None, ("urgent", 7, "Never")),
    ],
    ids=["none", "the default", "its own", "said twice"],
)
def test_a_pod_has_the_priority_of_its_class(
    spec: Object, default: Object | None, expected: tuple[Any, ...]
) -> None:
    made = admitted(default=default, **spec)
    assert (made.get("priorityClassName"), made["priority"], made["preemptionPolicy"]) == expected


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"serviceAccountName": "nobody"},
            'error looking up service account n/nobody: serviceaccount "nobody" not found',
        ),
        ({"priorityClassName": "x"}, "no PriorityClass with name x was found"),
        ({"priority": 5}, r"the integer value of priority \(5\) must not be provided in pod spec; priority"),
        (
            {"priorityClassName": "urgent", "preemptionPolicy": "PreemptLowerPriority"},
            r"the string value of PreemptionPolicy \(PreemptLowerPriority\) must not be provided",
        ),
    ],
    ids=["account", "class", "priority", "preemption"],
)
def test_what_is_not_there_can_not_be_named(spec: Object, words: str) -> None:
    with pytest.raises(StatusError, match=f'pods "p" is forbidden: {words}') as refused:
        admitted(**spec)
    assert refused.value.code == 403


def test_with_stand_ins_a_pod_may_name_what_is_not_there() -> None:
    spec = {"serviceAccountName": "nobody", "priorityClassName": "x", "nodeName": "elsewhere"}
    pod: Object = {"metadata": {"name": "p", "namespace": "n", "annotations": {"a": "b"}}, "spec": spec}
    plugins.admit(lookup, POD, pod, None, stand_ins=True)
    assert (pod["spec"]["serviceAccountName"], pod["spec"]["priorityClassName"]) == ("nobody", "x")
    assert pod["spec"]["priority"] == 0
    assert "nodeName" not in pod["spec"]
    assert pod["metadata"]["annotations"] == {"a": "b", "bireme.dev/node-name": "elsewhere"}


def test_a_pod_stays_bound_to_a_node_that_is_there() -> None:
    pod: Object = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "here"}}
    plugins.admit(lookup, POD, pod, None, stand_ins=True)
    assert pod["spec"]["nodeName"] == "here"
    assert "annotations" not in pod["metadata"]


def test_an_update_keeps_the_priority() -> None:
    old = {"spec": {"priority": 7, "preemptionPolicy": "Never"}}
    made = admitted(old=old, priorityClassName="urgent")
    assert (made["priority"], made["preemptionPolicy"], "serviceAccountName" in made) == (7, "Never", False)


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], ["not-ready", "unreachable"]),
        ([{"operator": "Exists"}], []),
        ([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}], ["unreachable"]),
        ([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}], ["not-ready", "unreachable"]),
    ],
    ids=["none", "all", "one", "another effect"],
)
def test_a_lost_node_is_tolerated_for_five_minutes(given: list[Object], added: list[str]) -> None:
    made = admitted(tolerations=given)["tolerations"]
    assert made[: len(given)] == given
    assert [(each["key"], each["tolerationSeconds"]) for each in made[len(given) :]] == [
        (f"node.kubernetes.io/{key}", 300) for key in added
    ]


def test_there_is_one_default_priority() -> None:
    other: Object = {"metadata": {"name": "other"}, "value": 5, "globalDefault": True}
    with pytest.raises(StatusError, match="PriorityClass usual is already marked as default"):
        plugins.admit(lookup, PRIORITY_CLASS, other, None, every=lambda _: [USUAL])
    plugins.admit(lookup, PRIORITY_CLASS, USUAL, USUAL, every=lambda _: [USUAL])


def test_what_lies_deeper_is_not_changed() -> None:
    spec: Object = {"tolerations": []}
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": spec}
    plugins.admit(lookup, POD, pod, None)
    assert spec == {"tolerations": []}
