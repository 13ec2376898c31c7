"""Whose turn it is, who may, and how much."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from bireme.scheduling import Policy
from bireme.scheduling.objects import Namespace, Profiles
from bireme.scheduling.units import Key
from support.scheduling import NAMESPACE, NOW, Cluster, node, queue


def test_the_queue_of_higher_priority_goes_first() -> None:
    cluster = Cluster(node("a", cpu=1), queues=(queue("low", priority=1), queue("high", priority=2)))
    cluster.submit("early", "low", cpu=1)
    cluster.submit("late", "high", cpu=1)
    assert [start.unit.short for start in cluster.round().starts] == ["late"]


def test_without_a_quota_a_share_is_of_the_capacity_that_the_queue_may_use() -> None:
    queues = (
        queue("half", nodeSelector={"matchLabels": {"zone": "x"}}),
        queue("whole"),
    )
    nodes = (node("a", {"zone": "x"}, cpu=10), node("b", cpu=10))
    cluster = Cluster(*nodes, queues=queues)
    cluster.submit("h", "half", cpu=4)
    cluster.submit("w", "whole", cpu=7)
    cluster.settle()
    # half holds 4 of 10, whole 7 of 20: whole goes first.
    cluster.submit("h2", "half", cpu=1)
    cluster.submit("w2", "whole", cpu=1)
    assert [start.unit.short for start in cluster.round().starts] == ["w2", "h2"]


def test_inside_a_queue_priority_goes_before_age() -> None:
    cluster = Cluster(node("a", cpu=3), queues=(queue("q"),))
    for name, priority in (("old", 1), ("young", 1), ("important", 2)):
        cluster.submit(name, "q", priority=priority, cpu=1)
    assert [start.unit.short for start in cluster.round().starts] == ["important", "old", "young"]


def test_a_share_follows_what_the_round_has_started() -> None:
    cluster = Cluster(node("a", cpu=4), queues=(queue("x"), queue("y")))
    for name in ("x1", "x2", "y1", "y2"):
        cluster.submit(name, name[0], cpu=1)
    assert [start.unit.short for start in cluster.round().starts] == ["x1", "y1", "x2", "y2"]


def test_a_closed_queue_starts_nothing_new_and_what_runs_goes_on() -> None:
    cluster = Cluster(node("a", cpu=2), queues=(queue("q"),))
    cluster.submit("runs", "q", cpu=1)
    cluster.settle()
    cluster.state.put_queue(queue("q", closed=True))
    cluster.submit("waits", "q", cpu=1)
    decisions = cluster.settle()
    assert cluster.running() == {"runs"}
    assert not decisions.evictions
    assert cluster.reason("waits") == "QueueClosed"


def test_over_quota_waits_and_what_runs_goes_on() -> None:
    cluster = Cluster(node("a", cpu=9), queues=(queue("q", {"cpu": 2}),))
    cluster.submit("runs", "q", 2, cpu=1)
    cluster.settle()
    cluster.submit("waits", "q", cpu=1)
    assert cluster.reason("waits") == "WaitingForQuota"
    cluster.state.put_queue(queue("q", {"cpu": 1}))
    cluster.settle()
    assert cluster.running() == {"runs"}


def test_a_resource_that_the_quota_does_not_name_is_free() -> None:
    cluster = Cluster(node("a", cpu=9, memory=9), queues=(queue("q", {"cpu": 2}),))
    cluster.submit("much", "q", cpu=1, memory=9)
    cluster.settle()
    assert cluster.running() == {"much"}


def test_more_than_the_whole_quota_waits_for_ever() -> None:
    cluster = Cluster(node("a", cpu=9), queues=(queue("q", {"cpu": 2}),))
    cluster.submit("large", "q", 3, cpu=1)
    assert cluster.reason("large") == "ExceedsQuotaEver"


def test_a_pod_that_is_leaving_still_holds_its_quota() -> None:
    cluster = Cluster(node("a", cpu=9), queues=(queue("q", {"cpu": 1}),))
    cluster.submit("old", "q", cpu=1)
    cluster.settle()
    cluster.terminate("old-0")
    cluster.submit("new", "q", cpu=1)
    assert cluster.reason("new") == "WaitingForQuota"


@pytest.mark.parametrize(
    ("selector", "labels", "reason"),
    [
        (None, {}, "NotPermitted"),
        ({}, {}, ""),
        ({"matchLabels": {"team": "x"}}, {"team": "x"}, ""),
        ({"matchLabels": {"team": "x"}}, {"team": "y"}, "NotPermitted"),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, {}, "NotPermitted"),
    ],
    ids=["unset", "all", "selected", "not selected", "expression"],
)
def test_namespaces_that_the_selector_selects_may_use_a_queue(
    selector: dict[str, object] | None, labels: dict[str, str], reason: str
) -> None:
    cluster = Cluster(node("a", cpu=1), queues=(queue("q", namespaceSelector=selector),))
    cluster.state.put_namespace(
        msgspec.convert({"metadata": {"name": NAMESPACE, "labels": labels}}, Namespace)
    )
    cluster.submit("job", "q", cpu=1)
    assert cluster.reason("job") == reason


def test_no_annotation_of_a_user_stands_for_a_permission() -> None:
    cluster = Cluster(node("a", cpu=1), queues=(queue("q", namespaceSelector=None),))
    key = cluster.submit("job", "q", cpu=1)
    group = cluster.state.units[key].group
    assert group is not None
    annotations = {"scheduler.tensorstack.dev/granted-queue": "q"}
    claimed = msgspec.structs.replace(group.metadata, annotations=annotations)
    cluster.state.put_group(msgspec.structs.replace(group, metadata=claimed))
    assert cluster.reason("job") == "NotPermitted"


def test_where_there_is_one_user_nobody_is_asked() -> None:
    queues = (queue("q", namespaceSelector=None),)
    cluster = Cluster(node("a", cpu=1), queues=queues, policy=Policy(permissions=False))
    cluster.submit("job", "q", cpu=1)
    assert cluster.reason("job") == ""


def test_a_shape_profile_limits_what_one_pod_may_request() -> None:
    cluster = Cluster(node("a", cpu=9), queues=(queue("q", resourceShapeProfile="small"),))
    cluster.submit("job", "q", 2, cpu=2)
    assert cluster.reason("job") == "Misconfigured"
    cluster.state.profiles = Profiles({"small": {"cpu": 1000}})
    assert "at most 1" in cluster.explain("job").message
    cluster.state.profiles = Profiles({"small": {"cpu": 2000}})
    assert cluster.reason("job") == ""


def test_a_queue_uses_its_own_nodes_only() -> None:
    queues = (queue("q", nodeSelector={"matchLabels": {"zone": "x"}}),)
    cluster = Cluster(node("a", cpu=9), node("b", {"zone": "x"}, cpu=1), queues=queues)
    cluster.submit("job", "q", cpu=1)
    cluster.settle()
    assert cluster.nodes_of("job") == ["b"]


def test_pod_bound_for_longer_than_its_queue_allows_is_ended() -> None:
    cluster = Cluster(node("a", cpu=9), queues=(queue("q", maxDuration="1h"),))
    cluster.submit("job", "q", cpu=1)
    cluster.now = bound = NOW + timedelta(hours=5)
    cluster.settle()
    assert cluster.round().wake_at == bound + timedelta(hours=1)
    cluster.now = bound + timedelta(hours=1)
    assert [each.pod for each in cluster.round().expirations] == ["job-0"]


@pytest.mark.parametrize("limit", ["0", None], ids=["zero", "left out"])
def test_without_a_limit_pods_live_for_ever(limit: str | None) -> None:
    cluster = Cluster(node("a", cpu=9), queues=(queue("q", maxDuration=limit),))
    cluster.submit("job", "q", cpu=1)
    cluster.settle()
    cluster.now = NOW + timedelta(days=10_000)
    assert not cluster.round().expirations


def test_a_queue_that_is_not_there_is_a_mistake() -> None:
    cluster = Cluster(node("a", cpu=9))
    cluster.submit("job", "nowhere", cpu=1)
    assert cluster.reason("job") == "Misconfigured"
    assert "nowhere" in cluster.explain("job").message


def test_pods_whose_group_is_not_there_wait() -> None:
    cluster = Cluster(node("a", cpu=9), queues=(queue("default"),))
    cluster.add_pod("orphan", "lost", cpu=1)
    waiting = cluster.round().waiting[Key(NAMESPACE, "lost")]
    assert waiting.reason == "Misconfigured"
    assert "PodGroup lost" in waiting.message


def test_resource_claims_can_not_be_used_with_a_queue() -> None:
    cluster = Cluster(node("a", cpu=9), queues=(queue("q"),))
    cluster.submit("job", "q", spec={"resourceClaims": [{"name": "gpu"}]}, cpu=1)
    assert cluster.reason("job") == "Misconfigured"


def test_a_job_whose_pods_are_being_replaced_is_not_larger_than_its_quota() -> None:
    cluster = Cluster(node("a", cpu=9), queues=(queue("q", {"cpu": 2}),))
    cluster.submit("job", "q", 2, cpu=1)
    cluster.settle()
    cluster.terminate("job-0")
    cluster.add_pod("job-2", "job", cpu=1)
    assert cluster.reason("job") == "WaitingForQuota"


def test_a_pod_of_our_scheduler_that_names_no_queue_is_of_the_default_one() -> None:
    cluster = Cluster(node("a", cpu=9), queues=(queue("default", closed=True),))
    cluster.add_pod("alone", cpu=1)
    assert cluster.round().waiting[Key(NAMESPACE, "", "alone")].reason == "QueueClosed"


def test_waiting_does_not_count_towards_max_duration() -> None:
    cluster = Cluster(node("a", cpu=1), queues=(queue("q", maxDuration="1h"),))
    cluster.submit("huge", "q", cpu=2)
    cluster.now = NOW + timedelta(hours=2)
    assert not cluster.round().expirations
    assert cluster.round().wake_at is None


@pytest.mark.parametrize(
    ("nodes", "held", "count", "cpu", "message"),
    [
        (1, 1, 1, 2, "its pod asks for 2 of cpu (1 free)"),
        (1, 1, 2, 1, "its 2 pods ask for 2 of cpu (1 free)"),
        (1, 0, 1, 3, "pod job-0 asks for 3 of cpu (the largest has 2); the only node is eligible"),
        (2, 0, 1, 3, "pod job-0 asks for 3 of cpu (the largest has 2); 2 of 2 nodes are eligible"),
        (1, 0, 3, 1, "the cluster can't hold its 3 pods at once, not even with nothing else on it"),
    ],
    ids=["a pod", "pods", "a node", "nodes", "too many"],
)
def test_reasons_speak_of_one_and_of_several(
    nodes: int, held: int, count: int, cpu: int, message: str
) -> None:
    cluster = Cluster(*(node(f"n{i}", cpu=2) for i in range(nodes)), queues=(queue("q"),))
    if held:
        cluster.submit("holder", "q", cpu=held)
        cluster.settle()
    cluster.submit("job", "q", count, cpu=cpu)
    cluster.settle()
    assert cluster.explain("job").message == message


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"quota": {"requests": {"cpu": "4 cores"}}}, "Misconfigured"),
        ({"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "in"}]}}, "Misconfigured"),
        ({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}, "Misconfigured"),
    ],
    ids=["quota", "nodes", "namespaces"],
)
def test_a_queue_that_nobody_checked_harms_itself_alone(spec: dict[str, Any], reason: str) -> None:
    cluster = Cluster(node("n", cpu=4), queues=(queue("good"), queue("bad", **spec)))
    cluster.submit("mine", "good", cpu=1)
    cluster.submit("theirs", "bad", cpu=1)
    cluster.settle()
    assert cluster.running() == {"mine"}
    assert cluster.explain("theirs").reason == reason


@pytest.mark.parametrize(
    ("field", "selector"),
    [
        ("nodeSelector", {"zone": "mars"}),
        ("namespaceSelector", {"team": "research"}),
        ("nodeSelector", {"matchExpressions": [{"key": "zone", "operator": "In"}]}),
    ],
    ids=["nodes", "namespaces", "no values"],
)
def test_queue_whose_selector_cannot_be_read_starts_nothing(field: str, selector: dict[str, Any]) -> None:
    spec: dict[str, Any] = {field: selector}
    cluster = Cluster(node("a", {"zone": "mars"}, cpu=1), queues=(queue("q", **spec),))
    cluster.submit("waits", "q", cpu=1)
    cluster.settle()
    assert not cluster.running()
    assert cluster.reason("waits") == "Misconfigured"
    explanation = cluster.explain("waits")
    assert [type(each).__name__ for each in explanation.remedies] == ["RepairSelector"]
    assert f"its {field} cannot be read" in explanation.message
