"""A round does a bounded amount of work for each queue, and comes back to the rest in turn."""

from datetime import timedelta
from typing import Any

import pytest

from bireme.scheduling import Backlog, Decisions, Policy, schedule
from bireme.scheduling.units import Key
from support.scheduling import NAMESPACE, NOW, Cluster, node, queue

PLENTY = 10**9


def _hosts(count: int, cpu: int = 4) -> list[Any]:
    return [node(f"n{each}", {"host": f"n{each}"}, cpu=cpu) for each in range(count)]


def _apart(app: str) -> dict[str, Any]:
    """A pod that is alone on its node among those of its application."""
    term = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": app}}}
    return {
        "spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}},
        "labels": {"app": app},
    }


def _steps(*pods: int) -> int:
    """How much work it takes to find that gangs of so many pods, each alone on its node, do not fit."""
    cluster = Cluster(*_hosts(4), queues=(queue("q"),), policy=Policy(steps_per_queue=PLENTY))
    for number, count in enumerate(pods):
        cluster.submit(f"g{number}", "q", count, cpu=1, **_apart(f"g{number}"))
    used = 0
    for unit in list(cluster.state.units.values()):
        cluster.state.work.begin(PLENTY)
        cluster.state.eligible(next(iter(unit.pods.values())).shape, cluster.state.queues["q"])
        used += cluster.state.work.end()
    cluster.round()
    return used + cluster.state.work.used


class Rounds:
    """Rounds one after the other, each with the backlog of the one before."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.backlog = cluster, Backlog()

    def next(self) -> Decisions:
        decisions = schedule(self.cluster.state, self.cluster.policy, self.cluster.now, self.backlog)
        self.backlog = decisions.backlog
        return decisions


def _reasons(decisions: Decisions) -> dict[str, str]:
    return {key.short: each.reason.value for key, each in decisions.waiting.items()}


def _expensive_cluster(steps: int) -> Cluster:
    """In queue `bad` a gang that takes more work than there is, in front of two small ones."""
    queues = (queue("bad", priority=1), queue("good"))
    cluster = Cluster(*_hosts(4), queues=queues, policy=Policy(steps_per_queue=steps))
    cluster.submit("bomb", "bad", 40, cpu=1, **_apart("bomb"))
    cluster.submit("behind", "bad", cpu=1)
    cluster.submit("other", "good", cpu=1)
    return cluster


def test_a_gang_that_takes_too_much_work_holds_up_no_other_queue() -> None:
    rounds = Rounds(_expensive_cluster(steps=400))
    first = rounds.next()
    assert [start.unit.short for start in first.starts] == ["other"]
    assert _reasons(first) == {"behind": "WaitingForTurn", "bomb": "TooExpensive"}
    assert first.wake_at == NOW
    assert "400 steps" in first.waiting[Key(NAMESPACE, "bomb")].message


def test_the_rest_of_the_queue_is_served_in_the_next_round() -> None:
    rounds = Rounds(_expensive_cluster(steps=400))
    rounds.cluster.carry_out(rounds.next())
    second = rounds.next()
    assert [start.unit.short for start in second.starts] == ["behind"]
    assert _reasons(second) == {"bomb": "TooExpensive"}
    assert second.wake_at == NOW + timedelta(seconds=1)


def test_a_gang_that_takes_too_much_work_is_tried_less_and_less_often() -> None:
    rounds, waits = Rounds(_expensive_cluster(steps=400)), []
    for _ in range(9):
        decisions = rounds.next()
        (retry,) = rounds.backlog.expensive.values()
        waits.append((retry.at - rounds.cluster.now).total_seconds())
        assert _reasons(decisions)["bomb"] == "TooExpensive"
        rounds.cluster.now = retry.at
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_gang_is_no_longer_too_expensive_once_its_place_is_found() -> None:
    cluster = _expensive_cluster(steps=400)
    rounds = Rounds(cluster)
    rounds.next()
    cluster.policy = Policy(steps_per_queue=PLENTY)
    assert _reasons(rounds.next())["bomb"] == "TooExpensive"
    cluster.now += timedelta(seconds=1)
    assert _reasons(rounds.next()) == {"bomb": "DoesNotFitAnyNode"}
    assert rounds.backlog == Backlog()


def test_each_gang_of_a_queue_is_reached_though_a_round_has_work_for_few() -> None:
    one, gangs = _steps(5), 12
    cluster = Cluster(*_hosts(4), queues=(queue("q"),), policy=Policy(steps_per_queue=3 * one))
    for number in range(gangs):
        cluster.submit(f"g{number}", "q", 5, cpu=1, **_apart(f"g{number}"))
    rounds, reached, count = Rounds(cluster), set[str](), 0
    while len(reached) < gangs:
        count += 1
        assert count <= gangs
        decisions = rounds.next()
        reasons = _reasons(decisions)
        # What was found stays known, also where a round does not come to a gang.
        assert reached <= {name for name, reason in reasons.items() if reason == "DoesNotFitAnyNode"}
        reached |= {name for name, reason in reasons.items() if reason == "DoesNotFitAnyNode"}
        assert list(reasons) == [f"g{number}" for number in range(gangs)]
        assert (decisions.wake_at == cluster.now) == (len(reached) < gangs)
    assert count > 1


def test_two_gangs_that_are_too_expensive_are_tried_in_different_rounds() -> None:
    cluster = _expensive_cluster(steps=400)
    cluster.submit("second", "bad", 40, cpu=1, **_apart("second"))
    rounds = Rounds(cluster)
    while len(rounds.backlog.expensive) < 2:
        rounds.next()
    cluster.now += timedelta(seconds=5)
    before = {key.short: each.tries for key, each in rounds.backlog.expensive.items()}
    rounds.next()
    after = {key.short: each.tries for key, each in rounds.backlog.expensive.items()}
    assert sum(after.values()) == sum(before.values()) + 1


def test_a_round_with_work_enough_leaves_nothing_and_decides_as_one_without_a_limit() -> None:
    decided = []
    for steps in (Policy().steps_per_queue, PLENTY):
        cluster = _expensive_cluster(steps)
        decided.append(cluster.round())
    assert decided[0] == decided[1]
    assert decided[0].backlog == Backlog()


def test_preemption_is_cut_short_too() -> None:
    queues = (queue("low"), queue("high", priority=1))
    cluster = Cluster(*_hosts(8, cpu=8), queues=queues, policy=Policy(steps_per_queue=2_000))
    for number in range(64):
        cluster.submit(f"low{number}", "low", cpu=1)
    cluster.settle()
    cluster.submit("taker", "high", 8, cpu=8, **_apart("taker"))
    decisions = cluster.round()
    assert _reasons(decisions) == {"taker": "TooExpensive"}
    assert not decisions.evictions
    cluster.policy = Policy(steps_per_queue=PLENTY)
    assert len(cluster.round().evictions) == 1


# Terms.

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _pod_terms(count: int) -> list[dict[str, Any]]:
    return [{"topologyKey": "host", "labelSelector": {"matchLabels": {"app": f"a{n}"}}} for n in range(count)]


def _node_terms(count: int) -> dict[str, Any]:
    terms = [
        {"matchExpressions": [{"key": "host", "operator": "NotIn", "values": [f"x{n}"]}]}
        for n in range(count)
    ]
    return {"nodeSelectorTerms": terms}


def _spread(count: int) -> list[dict[str, Any]]:
    return [
        {"topologyKey": "host", "maxSkew": 5, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        for _ in range(count)
    ]


@pytest.mark.parametrize(
    ("spec", "field", "limit"),
    [
        (lambda n: {"affinity": {"nodeAffinity": {_REQUIRED: _node_terms(n)}}}, "nodeSelectorTerms", 64),
        (lambda n: {"affinity": {"podAffinity": {_REQUIRED: _pod_terms(n)}}}, "podAffinity", 16),
        (lambda n: {"affinity": {"podAntiAffinity": {_REQUIRED: _pod_terms(n)}}}, "podAntiAffinity", 16),
        (lambda n: {"topologySpreadConstraints": _spread(n)}, "topologySpreadConstraints", 16),
    ],
    ids=["node affinity", "affinity", "anti-affinity", "spread"],
)
def test_a_pod_with_too_many_terms_is_not_placed_and_says_so(spec: Any, field: str, limit: int) -> None:
    cluster = Cluster(*_hosts(2), queues=(queue("q"),))
    cluster.submit("most", "q", spec=spec(limit), cpu=1)
    cluster.submit("more", "q", spec=spec(limit + 1), cpu=1)
    decisions = cluster.round()
    waiting = decisions.waiting[Key(NAMESPACE, "more")]
    assert waiting.reason == "Misconfigured"
    assert f"too many terms: {limit + 1}, and at most {limit} can be queued" in waiting.message
    assert field in waiting.message
    assert Key(NAMESPACE, "more") not in {start.unit for start in decisions.starts}
    most = decisions.waiting.get(Key(NAMESPACE, "most"))
    assert most is None or most.reason != "Misconfigured"


def test_what_explains_too_many_terms_names_the_pod() -> None:
    cluster = Cluster(*_hosts(2), queues=(queue("q"),))
    spec = {"affinity": {"podAntiAffinity": {_REQUIRED: _pod_terms(17)}}}
    cluster.submit("job", "q", spec=spec, cpu=1)
    (remedy,) = cluster.explain("job").remedies
    assert "job-0" in str(remedy)


def test_nothing_is_told_to_help_a_gang_that_takes_too_much_work() -> None:
    assert _expensive_cluster(steps=400).explain("bomb").remedies == []
