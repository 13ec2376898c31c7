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
    assert cluster.explain("ahead").earliest_start == cluster.now + timedelta(hours=1)


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


def test_a_short_start_takes_its_room_from_those_who_last_too() -> None:
    queues = (
        queue("timed", maxDuration="1h", preemptible=False),
        queue("top", priority=9),
        queue("large", priority=8),
        queue("short", priority=7, maxDuration="10m"),
        OTHER,
    )
    cluster = Cluster(node("n", cpu=4), node("m", {"name": "m"}, cpu=3), queues=queues)
    cluster.add_pod("runs", queue="timed", node="n", cpu=1)
    cluster.submit("ahead", "top", cpu=4)
    cluster.submit("too-large", "large", cpu=4)
    cluster.submit("short", "short", cpu=2, spec={"nodeSelector": {"name": "m"}})
    cluster.submit("lasting", "other", cpu=2)
    cluster.settle()
    assert cluster.running() == {"runs", "short"}


def test_a_unit_that_would_delay_the_one_ahead_claims_nothing_of_what_comes_free() -> None:
    cluster = _cluster()
    cluster.state.put_node(node("m", cpu=1))
    cluster.add_pod("leaves", scheduler="", node="m", cpu="100m")
    cluster.terminate("leaves")
    cluster.submit("behind", "other", cpu=2)
    assert "would delay ahead" in cluster.explain("behind").message


def test_nobody_makes_way_for_a_unit_that_would_still_have_to_wait_for_the_one_ahead() -> None:
    """Else the victim, which is short, comes back in its place, and is asked to go again, for ever."""
    queues = (
        queue("top", priority=5, maxDuration="3h", preemptible=False),
        queue("mid", priority=4),
        queue("low", priority=1, maxDuration="1h"),
    )
    cluster = Cluster(node("n", cpu=4), node("m", cpu=4), queues=queues)
    cluster.add_pod("runs", queue="top", node="n", cpu=4)
    cluster.submit("ahead", "top", 2, cpu=4)
    cluster.add_pod("victim", queue="low", node="m", cpu=4)
    cluster.submit("behind", "mid", cpu=4)
    assert cluster.round().evictions == []


def test_others_make_way_for_a_unit_that_does_not_delay_the_one_ahead() -> None:
    queues = (
        queue("top", priority=5, maxDuration="3h", preemptible=False),
        queue("mid", priority=4),
        queue("low", priority=1),
    )
    cluster = Cluster(node("n", cpu=4), node("m", cpu=3), queues=queues)
    cluster.add_pod("runs", queue="top", node="n", cpu=4)
    cluster.submit("ahead", "top", cpu=4)
    cluster.add_pod("victim", queue="low", node="m", cpu=2)
    cluster.submit("behind", "mid", cpu=3)
    assert [evict.pods for evict in cluster.round().evictions] == [("victim",)]
    cluster.settle()
    assert cluster.nodes_of("behind") == ["m"]


def test_quota_that_pods_are_leaving_is_not_taken_by_those_behind() -> None:
    cluster = Cluster(node("n", cpu=100), queues=(queue("q", {"cpu": 10}),))
    cluster.submit("ends", "q", 5, cpu=2)
    cluster.settle()
    cluster.submit("first", "q", priority=9, cpu=8)
    cluster.submit("second", "q", cpu=5)
    for number in range(5):
        cluster.terminate(f"ends-{number}")
    for number in range(4):
        cluster.state.remove_pod(f"ends-{number}")
        assert "second" not in {start.unit.short for start in cluster.round().starts}
    cluster.settle()
    assert "first" in cluster.running()
