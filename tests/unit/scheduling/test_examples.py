"""The two worked examples, to the letter."""

from support.scheduling import Cluster, node, queue


def _cluster_of_six_jobs() -> Cluster:
    """300 CPUs, all of them in use."""
    queues = (
        queue("A", {"cpu": 200}, 1),
        queue("B", {"cpu": 100}, 1),
        queue("C", {"cpu": 50}, 2),
        queue("D", {"cpu": 200}, 2),
    )
    cluster = Cluster(node("n", cpu=300), queues=queues)
    for name in ("A1", "A2", "A3", "B1", "C1", "D1"):
        cluster.submit(name, name[0], cpu=50)
    cluster.settle()
    assert cluster.running() == {"A1", "A2", "A3", "B1", "C1", "D1"}
    return cluster


def test_a_job_waits_where_there_is_nothing_to_take() -> None:
    cluster = _cluster_of_six_jobs()
    cluster.submit("B2", "B", cpu=50)
    assert cluster.reason("B2") == "WaitingForResources"
    cluster.settle()
    assert "B2" not in cluster.running()


def test_a_job_waits_for_the_quota_of_its_queue() -> None:
    cluster = _cluster_of_six_jobs()
    cluster.submit("C2", "C", cpu=50)
    assert cluster.reason("C2") == "WaitingForQuota"
    cluster.settle()
    assert "C2" not in cluster.running()


def test_a_job_of_higher_priority_takes_from_the_queue_with_the_largest_share() -> None:
    cluster = _cluster_of_six_jobs()
    cluster.submit("D2", "D", cpu=50)
    decisions = cluster.round()
    assert [evict.pods for evict in decisions.evictions] == [("A3-0",)]
    cluster.settle()
    assert cluster.running() == {"A1", "A2", "B1", "C1", "D1", "D2"}


def test_of_equal_queues_the_one_with_the_smaller_dominant_share_goes_first() -> None:
    queues = (queue("A", {"cpu": 6, "memory": 8}), queue("B", {"cpu": 8, "memory": 2}))
    cluster = Cluster(node("n", cpu=7, memory=7), queues=queues)
    cluster.submit("a", "A", cpu=3, memory=5)
    cluster.submit("b", "B", cpu=3, memory=1)
    cluster.settle()
    # A holds 5 of 8, B holds 1 of 2: there is one CPU left, and both want it.
    cluster.submit("a2", "A", cpu=1)
    cluster.submit("b2", "B", cpu=1)
    cluster.settle()
    assert cluster.running() == {"a", "b", "b2"}
