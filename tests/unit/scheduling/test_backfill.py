"""Reservations where end times are known."""

from datetime import timedelta

from bireme.scheduling import Policy
from support.scheduling import NOW, Cluster, node, queue

TIMED, OTHER = queue("timed", maxDuration="1h"), queue("other")


def _cluster(**options: object) -> Cluster:
    """Four CPUs; one is in use for an hour, and the group that is ahead wants all four."""
    cluster = Cluster(node("n", cpu=4), queues=(TIMED, OTHER), **options)  # type: ignore[arg-type]
    cluster.submit("runs", "timed", cpu=1)
    cluster.settle()
    cluster.submit("ahead", "other", priority=9, cpu=4)
    return cluster


def test_a_unit_ahead_knows_when_it_starts() -> None:
    cluster = _cluster()
    created = cluster.state.pods["runs-0"].pod.metadata.creation_timestamp
    assert created is not None
    assert cluster.explain("ahead").earliest_start == created + timedelta(hours=1)


def test_a_start_that_would_delay_it_is_put_off() -> None:
    cluster = _cluster()
    cluster.submit("behind", "other", cpu=1)
    cluster.settle()
    assert "behind" not in cluster.running()
    waiting = cluster.explain("behind")
    assert waiting.reason == "WaitingForResources"
    assert "would delay ahead" in waiting.message


def test_what_ends_by_then_may_start() -> None:
    cluster = _cluster()
    cluster.state.put_queue(queue("short", maxDuration="10m"))
    cluster.submit("behind", "short", cpu=1)
    cluster.settle()
    assert "behind" in cluster.running()


def test_what_leaves_enough_may_start() -> None:
    cluster = _cluster()
    cluster.state.put_node(node("m", cpu=1))
    cluster.submit("behind", "other", cpu=1)
    cluster.settle()
    assert cluster.nodes_of("behind") == ["m"]


def test_without_known_ends_later_units_go_past() -> None:
    cluster = Cluster(node("n", cpu=4), queues=(OTHER,))
    cluster.submit("runs", "other", cpu=1)
    cluster.settle()
    cluster.submit("ahead", "other", priority=9, cpu=4)
    cluster.submit("behind", "other", cpu=1)
    cluster.settle()
    assert "behind" in cluster.running()
    assert cluster.explain("ahead").earliest_start is None


def test_reservations_can_be_switched_off() -> None:
    cluster = _cluster(policy=Policy(backfill=False))
    cluster.submit("behind", "other", cpu=1)
    cluster.settle()
    assert "behind" in cluster.running()


def test_a_quota_is_reserved_too() -> None:
    cluster = Cluster(node("n", cpu=9), queues=(queue("q", {"cpu": 4}, maxDuration="1h"),))
    cluster.submit("runs", "q", cpu=1)
    cluster.settle()
    cluster.now = NOW + timedelta(minutes=30)
    cluster.submit("ahead", "q", priority=9, cpu=4)
    cluster.submit("behind", "q", cpu=1)
    # It was made seconds after the one that runs, and so ends after it.
    assert cluster.reason("ahead") == "WaitingForQuota"
    assert cluster.reason("behind") == "WaitingForQuota"
    assert "would delay ahead" in cluster.explain("behind").message
