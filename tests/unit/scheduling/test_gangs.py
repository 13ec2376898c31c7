"""A set of pods starts together, or not at all."""

from datetime import timedelta

import msgspec

from bireme.api.scheduler import GangBinding, PodGroupStatus
from bireme.scheduling.units import Key
from support.scheduling import NAMESPACE, NOW, Cluster, node, queue


def _cluster(*nodes: object, **options: object) -> Cluster:
    return Cluster(*nodes, queues=(queue("q"),), **options)  # type: ignore[arg-type]


def test_a_group_starts_whole_or_not_at_all() -> None:
    cluster = _cluster(node("a", cpu=2), node("b", cpu=2))
    cluster.submit("five", "q", 5, cpu=1)
    cluster.settle()
    assert cluster.nodes_of("five") == [""] * 5
    cluster.submit("four", "q", 4, cpu=1)
    cluster.settle()
    assert cluster.nodes_of("four") == ["a", "a", "b", "b"]


def test_pods_beyond_the_minimum_follow_one_by_one() -> None:
    cluster = _cluster(node("a", cpu=3))
    cluster.submit("group", "q", 5, least=2, cpu=1)
    cluster.settle()
    assert cluster.nodes_of("group") == ["", "", "a", "a", "a"]
    assert cluster.reason("group") == "WaitingForResources"


def test_finished_pods_count_for_the_minimum() -> None:
    cluster = _cluster(node("a", cpu=1))
    cluster.submit("group", "q", 2, least=3, cpu=1)
    assert cluster.reason("group") == "InsufficientMembers"
    cluster.add_pod("group-done", "group", node="a", cpu=1)
    cluster.finish("group-done")
    cluster.state.remove_pod("group-1")
    cluster.add_pod("group-gone", "group", node="a", cpu=1)
    cluster.finish("group-gone", "Failed")
    cluster.settle()
    assert cluster.state.pods["group-0"].node == "a"


def test_after_a_pause_the_group_starts_whole_again() -> None:
    cluster = _cluster(node("a", cpu=2))
    cluster.submit("group", "q", 2, cpu=1)
    cluster.settle()
    for uid in ("group-0", "group-1"):
        cluster.state.remove_pod(uid)
    cluster.add_pod("other", queue="q", node="a", cpu=1)
    for name in ("group-2", "group-3"):
        cluster.add_pod(name, "group", cpu=1)
    cluster.settle()
    assert cluster.nodes_of("group") == ["", ""]


def test_a_lost_pod_of_a_running_group_comes_back_alone() -> None:
    cluster = _cluster(node("a", cpu=2))
    cluster.submit("group", "q", 2, cpu=1)
    cluster.settle()
    cluster.state.remove_pod("group-1")
    cluster.add_pod("group-1b", "group", cpu=1)
    cluster.settle()
    assert cluster.nodes_of("group") == ["a", "a"]


def test_every_role_has_its_minimum() -> None:
    cluster = _cluster(node("a", cpu=3))
    cluster.submit("group", "q", 3, least=2, roles={"launcher": 1, "worker": 1}, role="worker", cpu=1)
    assert cluster.reason("group") == "InsufficientMembers"
    assert "1 of role launcher" in cluster.explain("group").message
    cluster.add_pod("group-launcher", "group", role="launcher", cpu=1)
    decisions = cluster.round()
    assert set(decisions.starts[0].nodes) == {"group-0", "group-launcher"}


def test_a_pod_may_name_its_queue_by_label_alone() -> None:
    cluster = Cluster(node("a", cpu=1), queues=(queue("q", {"cpu": 1}),))
    cluster.add_pod("alone", queue="q", cpu=1)
    cluster.settle()
    assert cluster.state.pods["alone"].node == "a"
    assert cluster.state.held["q"]["cpu"] == 1000


def test_pods_of_other_schedulers_are_left_alone_and_counted() -> None:
    cluster = _cluster(node("a", cpu=2))
    cluster.add_pod("theirs", scheduler="default-scheduler", node="a", cpu=1)
    cluster.add_pod("waiting", scheduler="default-scheduler", cpu=1)
    cluster.submit("group", "q", 2, cpu=1)
    cluster.settle()
    assert cluster.nodes_of("group") == ["", ""]
    assert not cluster.state.pods["waiting"].node


def test_gated_and_leaving_pods_are_not_placed() -> None:
    cluster = _cluster(node("a", cpu=9))
    cluster.submit("gated", "q", cpu=1, spec={"schedulingGates": [{"name": "x"}]})
    cluster.submit("leaving", "q", cpu=1)
    cluster.terminate("leaving-0")
    assert not cluster.settle().waiting
    assert cluster.running() == set()


def _half_bound(cluster: Cluster) -> Key:
    """A group of three, of which one is bound, by a plan of two minutes ago less a second."""
    key = cluster.submit("half", "q", 3, cpu=1)
    cluster.bind("half-0", "a")
    group = cluster.state.units[key].group
    assert group is not None
    status = PodGroupStatus(binding=GangBinding(since=NOW, nodes={"a": ("half-0", "half-1", "half-2")}))
    cluster.state.put_group(msgspec.structs.replace(group, status=status))
    return key


def test_what_was_begun_goes_before_everything_else() -> None:
    cluster = _cluster(node("a", cpu=3))
    cluster.submit("first", "q", 2, priority=100, cpu=1)
    key = _half_bound(cluster)
    decisions = cluster.round()
    assert [start.unit for start in decisions.starts] == [key]
    assert decisions.starts[0].plan is not None
    assert decisions.starts[0].plan.since == NOW


def test_the_rest_of_what_was_begun_goes_elsewhere_if_its_node_is_full() -> None:
    cluster = _cluster(node("a", cpu=1), node("b", cpu=2))
    _half_bound(cluster)
    (start,) = cluster.round().starts
    assert start.nodes == {"half-1": "b", "half-2": "b"}


def test_nothing_takes_the_place_of_what_was_begun_and_lost_its_room() -> None:
    cluster = _cluster(node("a", cpu=3))
    cluster.add_pod("theirs", scheduler="default-scheduler", node="a", cpu=1)
    _half_bound(cluster)
    cluster.submit("small", "q", cpu=1)
    decisions = cluster.round()
    assert not decisions.starts
    assert decisions.wake_at == NOW + timedelta(minutes=2)


def test_what_is_completed_is_not_evicted_in_part_in_the_same_round() -> None:
    cluster = _cluster(node("a", cpu=1), node("b", cpu=2))
    cluster.state.put_queue(queue("high", priority=9))
    key = _half_bound(cluster)
    cluster.submit("winner", "high", cpu=1)
    decisions = cluster.round()
    assert [start.unit for start in decisions.starts] == [key]
    assert decisions.evictions == []
    cluster.carry_out(decisions)
    assert sorted(cluster.round().evictions[0].pods) == ["half-0", "half-1", "half-2"]


def test_what_was_begun_and_lost_a_pod_asks_for_no_nodes() -> None:
    cluster = _cluster(node("a", cpu=3))
    _half_bound(cluster)
    cluster.state.remove_pod("half-1")
    assert cluster.reason("half") == "InsufficientMembers"


def test_after_two_minutes_the_pods_of_a_group_that_is_not_whole_are_made_anew() -> None:
    cluster = _cluster(node("a", cpu=2))
    key = _half_bound(cluster)
    cluster.now = NOW + timedelta(minutes=2)
    decisions = cluster.round()
    assert [each.unit for each in decisions.made_anew] == [key]
    assert set(decisions.made_anew[0].pods) == {"half-0", "half-1", "half-2"}


def test_a_gang_carries_its_plan_and_a_single_pod_does_not() -> None:
    cluster = _cluster(node("a", cpu=9))
    cluster.submit("gang", "q", 2, cpu=1)
    cluster.submit("one", "q", cpu=1)
    plans = {start.unit.short: start.plan for start in cluster.round().starts}
    assert plans["one"] is None
    assert plans["gang"] == GangBinding(since=NOW, nodes={"a": ("gang-0", "gang-1")})


def test_two_gangs_that_each_need_more_than_half_never_deadlock() -> None:
    cluster = _cluster(*(node(f"n{number}", cpu=1) for number in range(5)))
    cluster.submit("one", "q", 3, cpu=1)
    cluster.submit("two", "q", 3, cpu=1)
    cluster.settle()
    assert cluster.running() == {"one"}
    for number in range(3):
        cluster.state.remove_pod(f"one-{number}")
    cluster.state.remove_group(NAMESPACE, "one")
    cluster.settle()
    assert cluster.running() == {"two"}
