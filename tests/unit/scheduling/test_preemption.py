"""Who has to make way, and for whom."""

from bireme.api.meta import Condition
from bireme.scheduling import Policy
from bireme.scheduling.reasons import AwaitEnd, RaiseQuota
from support.scheduling import Cluster, node, queue

LOW, HIGH = queue("low", priority=1), queue("high", priority=2)


def _evicted(cluster: Cluster) -> list[str]:
    return sorted(uid for evict in cluster.round().evictions for uid in evict.pods)


def _full(**options: object) -> Cluster:
    """Four CPUs, in use by low's groups a (2 pods) and b (2 pods)."""
    cluster = Cluster(node("n", cpu=4), queues=(LOW, HIGH), **options)  # type: ignore[arg-type]
    cluster.submit("a", "low", 2, cpu=1)
    cluster.submit("b", "low", 2, cpu=1)
    cluster.settle()
    return cluster


def test_whole_groups_go_the_newest_first() -> None:
    cluster = _full()
    cluster.submit("new", "high", cpu=1)
    assert _evicted(cluster) == ["b-0", "b-1"]
    cluster.settle()
    assert cluster.running() == {"a", "new"}


def test_nobody_goes_when_preemption_is_switched_off() -> None:
    cluster = _full(policy=Policy(preemption=False))
    cluster.submit("new", "high", cpu=1)
    assert _evicted(cluster) == []
    assert cluster.reason("new") == "WaitingForResources"


def test_nobody_goes_for_a_group_that_would_not_fit_even_then() -> None:
    cluster = _full()
    cluster.submit("new", "high", 5, cpu=1)
    assert _evicted(cluster) == []


def test_nothing_is_taken_from_a_queue_of_equal_priority() -> None:
    cluster = _full()
    cluster.submit("new", "low", cpu=1)
    assert _evicted(cluster) == []


def test_nothing_is_taken_from_a_queue_that_is_not_preemptible() -> None:
    cluster = _full()
    cluster.state.put_queue(queue("low", priority=1, preemptible=False))
    cluster.submit("new", "high", cpu=1)
    assert _evicted(cluster) == []


def test_surplus_pods_go_before_whole_groups() -> None:
    cluster = Cluster(node("n", cpu=4), queues=(LOW, HIGH))
    cluster.submit("elastic", "low", 2, least=1, cpu=1)
    cluster.submit("fixed", "low", 2, cpu=1)
    cluster.settle()
    cluster.submit("new", "high", cpu=1)
    assert _evicted(cluster) == ["elastic-1"]


def test_the_lowest_queue_goes_first_then_the_lowest_group() -> None:
    lowest = queue("lowest", priority=0)
    cluster = Cluster(node("n", cpu=3), queues=(LOW, HIGH, lowest))
    cluster.submit("l", "low", cpu=1)
    cluster.submit("x", "lowest", priority=5, cpu=1)
    cluster.submit("y", "lowest", priority=9, cpu=1)
    cluster.settle()
    cluster.submit("one", "high", cpu=1)
    assert _evicted(cluster) == ["x-0"]
    cluster.submit("two", "high", cpu=1)
    assert _evicted(cluster) == ["x-0", "y-0"]


def test_none_is_taken_that_could_be_spared() -> None:
    cluster = Cluster(node("small", cpu=1), node("large", cpu=4), queues=(LOW, HIGH))
    cluster.submit("large", "low", cpu=4)
    cluster.submit("small", "low", cpu=1)
    cluster.settle()
    # The newest is on a node that is of no use to the one who comes.
    cluster.submit("new", "high", cpu=3)
    assert _evicted(cluster) == ["large-0"]


def test_a_job_over_its_own_quota_takes_nothing() -> None:
    cluster = _full()
    cluster.state.put_queue(queue("high", {"cpu": 1}, priority=2))
    cluster.submit("first", "high", cpu=1)
    cluster.settle()
    cluster.submit("second", "high", cpu=1)
    assert _evicted(cluster) == []
    assert cluster.reason("second") == "WaitingForQuota"


def _disrupt(cluster: Cluster, uid: str) -> None:
    """As the carrier does: the condition, then the deletion, and the pod takes its time."""
    import msgspec

    pod = cluster.state.pods[uid].pod
    condition = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    status = msgspec.structs.replace(pod.status, conditions=(condition,))
    cluster.state.put_pod(msgspec.structs.replace(pod, status=status))
    cluster.terminate(uid)


def test_what_victims_leave_is_held_until_they_are_gone() -> None:
    cluster = _full()
    cluster.submit("new", "high", 2, cpu=1)
    for uid in _evicted(cluster):
        _disrupt(cluster, uid)
    cluster.submit("thief", "low", priority=100, cpu=1)
    decisions = cluster.round()
    assert not decisions.evictions
    assert not decisions.starts
    assert cluster.reason("new") == "WaitingForVictims"
    # One victim is gone: its room is still the new one's.
    cluster.state.remove_pod("b-0")
    assert not cluster.round().starts
    cluster.state.remove_pod("b-1")
    assert [start.unit.short for start in cluster.round().starts] == ["new"]


def test_one_round_evicts_nobody_twice() -> None:
    cluster = _full()
    cluster.submit("one", "high", 2, cpu=1)
    cluster.submit("two", "high", 2, cpu=1)
    evictions = cluster.round().evictions
    assert [evict.pods for evict in evictions] == [("b-1", "b-0"), ("a-1", "a-0")]


def test_whoever_is_leaving_anyhow_is_told_of_though_others_are_evicted() -> None:
    cluster = Cluster(
        node("n1", cpu=2), node("n2", cpu=2), queues=(queue("low"), queue("high", {"cpu": 1}, priority=1))
    )
    cluster.submit("leaving", "high", cpu=1)
    cluster.submit("new", "high", 2, cpu=2)
    cluster.submit("victim", "low", cpu=1)
    cluster.settle()
    cluster.terminate("leaving-0")
    told = cluster.explain("new")
    # What the queue holds counts, too: the quota is named once, as it has to be.
    assert told.remedies == [RaiseQuota("high", {"cpu": 5000}), AwaitEnd(["team/leaving-0"])]


def test_of_a_group_that_is_evicted_no_surplus_pod_stays() -> None:
    cluster = Cluster(node("n1", cpu=2), node("n2", cpu=1), queues=(LOW, HIGH))
    cluster.submit("g", "low", 3, least=2, cpu=1)
    cluster.settle()
    assert cluster.running() == {"g"}
    cluster.submit("new", "high", cpu=2)
    assert _evicted(cluster) == ["g-0", "g-1", "g-2"]


def test_a_group_that_is_evicted_starts_nothing_in_the_same_round() -> None:
    cluster = Cluster(node("n1", cpu=2), queues=(LOW, HIGH))
    cluster.submit("g", "low", 3, least=2, cpu=1)
    cluster.settle()
    cluster.state.put_node(node("n2", cpu=1))
    cluster.submit("new", "high", cpu=2)
    decisions = cluster.round()
    assert [evict.pods for evict in decisions.evictions] == [("g-1", "g-0")]
    assert decisions.starts == []


def test_nobody_goes_for_pods_beyond_a_groups_minimum() -> None:
    cluster = Cluster(node("n", cpu=2), queues=(LOW, HIGH))
    cluster.submit("old", "low", cpu=1)
    cluster.settle()
    cluster.submit("new", "high", 3, least=1, cpu=1)
    assert _evicted(cluster) == []
    cluster.settle()
    assert cluster.running() == {"old"}
    assert cluster.nodes_of("new") == ["", "", "n"]
    assert cluster.reason("new") == "WaitingForResources"


def test_surplus_that_went_for_one_is_not_counted_for_the_next() -> None:
    cluster = Cluster(node("n", cpu=3), queues=(LOW, HIGH))
    cluster.submit("g", "low", 3, least=2, cpu=1)
    cluster.settle()
    cluster.submit("first", "high", cpu=1)
    cluster.submit("second", "high", cpu=1)
    cluster.submit("third", "high", cpu=1)
    assert _evicted(cluster) == ["g-0", "g-1", "g-2"]


def test_a_role_at_its_minimum_is_no_surplus() -> None:
    cluster = Cluster(node("n", cpu=3), queues=(LOW, HIGH))
    cluster.submit("g", "low", 2, least=2, roles={"head": 1}, role="worker", cpu=1)
    cluster.add_pod("g-head", "g", role="head", cpu=1)
    cluster.settle()
    cluster.submit("new", "high", cpu=1)
    assert _evicted(cluster) == ["g-1"]
