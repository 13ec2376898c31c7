"""A tenant's job cannot stop the scheduler of queues: not with many terms, nor with many pods.

Bounds are CPU seconds of this process, so that other work on the machine does not count. Without limits,
indexes and budgets, 300 replicas with 100 terms blocked the event loop for 44 s, again in each round.
"""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest

from bireme.admission import default, is_valid, validate
from bireme.api.scheduler import SCHEDULER_NAME
from bireme.api.term_limits import refuse_excess
from bireme.control.webhooks.queues import QueueAccess
from bireme.control.webhooks.reviews import Request
from bireme.kube.client import Client
from bireme.scheduling import Backlog, Policy, schedule
from bireme.scheduling.placement import place
from bireme.scheduling.units import standing
from support.jobs import generic
from support.local_scheduler import local_scheduler, measured_lag
from support.scheduling import Cluster, node, queue
from unit.kube.scripted import ScriptedTransport

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
DELAY_SECONDS = 1.0
"""By so much a job of another queue may be delayed."""
LAG_SECONDS = 0.5
"""By so much the event loop may be late, the store's and the test's own work included; a lease has 15 s."""
QUICK_SECONDS = 1.0


def anti_affinity(terms: int) -> dict[str, Any]:
    """Terms that look for labels which no pod has: the scheduler can't stop at the first."""
    rules = [
        {"topologyKey": HOST, "labelSelector": {"matchLabels": {f"k{number}": "v"}}}
        for number in range(terms)
    ]
    return {"affinity": {"podAntiAffinity": {REQUIRED: rules}}}


def all_rules() -> dict[str, Any]:
    """All that the limits allow, in forms that no index helps with."""

    def rules(number: int) -> dict[str, Any]:
        absent = [{"key": f"absent-{number}-{each}", "operator": "DoesNotExist"} for each in range(20)]
        return {"matchExpressions": [*absent, {"key": f"never-{number}", "operator": "Exists"}]}

    apart = [
        {"topologyKey": HOST, "labelSelector": rules(number), "mismatchLabelKeys": ["index"]}
        for number in range(16)
    ]
    spread = [
        {
            "topologyKey": ("zone", HOST)[number % 2],
            "maxSkew": 1000,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchExpressions": [{"key": f"absent-{number}", "operator": "DoesNotExist"}]},
        }
        for number in range(16)
    ]
    return {"affinity": {"podAntiAffinity": {REQUIRED: apart}}, "topologySpreadConstraints": spread}


def node_affinity(terms: int) -> dict[str, Any]:
    rules = [
        {"matchExpressions": [{"key": f"k{number}", "operator": "In", "values": ["v"]}]}
        for number in range(terms)
    ]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": rules}}}}


@pytest.mark.parametrize(
    ("spec", "replicas"), [(anti_affinity(16), 300), (all_rules(), 300)], ids=["anti-affinity", "all rules"]
)
def test_a_gang_with_all_terms_delays_another_queue_by_less_than_a_second(
    spec: dict[str, Any], replicas: int
) -> None:
    async def main() -> tuple[float, float]:
        async with local_scheduler() as (cluster, _):
            for number in range(40):
                await cluster.add_node(f"n{number}", 4, zone=f"z{number % 3}")
            await cluster.add_queue("bad", priority=10)
            await cluster.add_queue("good")
            # More pods than CPUs: the gang waits, and is looked at in each round.
            await cluster.submit(
                "bomb", "bad", replicas, spec=spec, labels=lambda number: {"index": str(number)}
            )
            # The store works in this process, too: let it take in what is told of so many pods.
            await cluster.wait_told(f"bomb-{replicas - 1}")
            async with measured_lag() as lag:
                longest = 0.0
                for number in range(5):
                    await cluster.submit(f"job{number}", "good")
                    longest = max(longest, await cluster.seconds_to_start(f"job{number}-0"))
            return longest, lag.largest

    delay, lag = asyncio.run(main())
    assert delay <= DELAY_SECONDS
    assert lag <= LAG_SECONDS


@pytest.mark.parametrize("spec", [anti_affinity(16), all_rules()], ids=["anti-affinity", "all rules"])
def test_no_round_takes_a_second_and_the_other_queue_is_served_in_the_first(spec: dict[str, Any]) -> None:
    hosts = [node(f"n{each}", {HOST: f"n{each}", "zone": f"z{each % 3}"}, cpu=4) for each in range(40)]
    cluster = Cluster(*hosts, queues=(queue("bad", priority=10), queue("good")))
    cluster.submit("bomb", "bad", 0, least=300)
    for number in range(300):
        cluster.add_pod(f"bomb-{number}", "bomb", spec=spec, labels={"index": str(number)}, cpu=1)
    cluster.submit("job", "good", cpu=1)
    backlog = Backlog()
    for _ in range(5):
        start = time.process_time()
        decisions = schedule(cluster.state, cluster.policy, cluster.now, backlog)
        assert time.process_time() - start <= DELAY_SECONDS
        assert [start.unit.short for start in decisions.starts] == ["job"]
        backlog, cluster.now = decisions.backlog, cluster.now + timedelta(seconds=60)


def test_a_gang_that_takes_too_much_work_says_so_and_its_queue_goes_on() -> None:
    async def main() -> tuple[dict[str, Any], float]:
        async with local_scheduler(policy=Policy(steps_per_queue=2_000)) as (cluster, _):
            for number in range(10):
                await cluster.add_node(f"n{number}", 4, zone=f"z{number % 3}")
            await cluster.add_queue("bad")
            await cluster.submit("bomb", "bad", 100, spec=all_rules())
            told = await cluster.wait_reason("bomb", "TooExpensive")
            await cluster.submit("behind", "bad")
            return told, await cluster.seconds_to_start("behind-0")

    told, seconds = asyncio.run(main())
    assert "2000 steps" in told["message"]
    assert seconds <= DELAY_SECONDS


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (
            anti_affinity(100),
            f"spec.affinity.podAntiAffinity.{REQUIRED}: too many terms: 100, and at most 16",
        ),
        (
            node_affinity(10_000),
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: too many terms: 10000, and at most 64",
        ),
    ],
    ids=["100 anti-affinity terms", "10,000 node affinity terms"],
)
def test_pods_beyond_the_limits_are_not_placed_and_say_why(spec: dict[str, Any], field: str) -> None:
    async def main() -> tuple[dict[str, Any], str, float]:
        async with local_scheduler() as (cluster, _):
            for number in range(20):
                await cluster.add_node(f"n{number}", 64)
            await cluster.add_queue("bad", priority=10)
            await cluster.add_queue("good")
            await cluster.submit("bomb", "bad", 3, spec=spec)
            told = await cluster.wait_reason("bomb", "Misconfigured")
            await cluster.submit("job", "good")
            return told, await cluster.node_of("bomb-0"), await cluster.seconds_to_start("job-0")

    told, place_of_bomb, delay = asyncio.run(main())
    assert field in told["message"]
    assert not place_of_bomb
    assert delay <= DELAY_SECONDS


def pod(spec: dict[str, Any]) -> dict[str, Any]:
    main = {"name": "main", "image": "registry.example/x:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {"schedulerName": SCHEDULER_NAME, "containers": [main], **spec},
    }


def queued_job(spec: dict[str, Any]) -> dict[str, Any]:
    job = generic(scheduler={"t9kScheduler": {"queue": "research"}})
    job["spec"]["replicaSpecs"][0]["template"]["spec"] |= spec
    return job


def test_the_queue_webhook_refuses_many_terms_quickly_and_without_a_call() -> None:
    access = QueueAccess(Client(ScriptedTransport()), "controller", "home")
    where = f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: too many terms: 10000, and at most 64"
    for obj, path in (
        (pod(node_affinity(10_000)), "spec."),
        (queued_job(node_affinity(10_000)), "spec.replicaSpecs[0].template.spec."),
    ):
        start = time.process_time()
        reply = access.question(Request("1", "CREATE", "p", "team", object=obj))
        assert time.process_time() - start <= QUICK_SECONDS
        assert isinstance(reply, dict)
        answer = reply["response"]
        assert not answer["allowed"]
        assert (answer["status"]["code"], answer["status"]["reason"]) == (422, "Invalid")
        assert answer["status"]["message"].startswith(path + where)


def test_admission_refuses_many_terms_of_a_queued_job_quickly() -> None:
    job = default(queued_job(node_affinity(10_000)))
    start = time.process_time()
    problems = validate(job)
    assert time.process_time() - start <= 5 * QUICK_SECONDS
    assert not is_valid(problems)
    assert any("too many terms" in problem.message for problem in problems)
    del job["spec"]["scheduler"]
    assert is_valid(validate(job))


def test_terms_up_to_the_limits_are_let_in() -> None:
    assert refuse_excess(pod(all_rules())) is None
    assert refuse_excess(pod(node_affinity(64))) is None
    assert is_valid(validate(default(queued_job(all_rules()))))


@pytest.mark.parametrize("nodes", [20, 400])
def test_the_core_places_many_pods_with_many_terms_quickly(nodes: int) -> None:
    """Without any limit: pods of other schedulers carry terms, too."""
    hosts = [node(f"n{number}", {HOST: f"n{number}"}, cpu=64) for number in range(nodes)]
    cluster = Cluster(*hosts, queues=(queue("q"),))
    key = cluster.submit("bomb", "q", 300, spec=anti_affinity(100), cpu=1)
    members = [each.member for each in standing(cluster.state.units[key]).first]
    start = time.process_time()
    found = place(cluster.state.ground(), members, cluster.state.eligible_for(cluster.state.queues["q"]))
    assert time.process_time() - start <= QUICK_SECONDS
    assert found is not None
    assert len(found.columns) == 300


def test_ten_thousand_node_affinity_terms_take_the_core_less_than_a_second() -> None:
    hosts = [node(f"n{number}", {HOST: f"n{number}"}, cpu=64) for number in range(1000)]
    cluster = Cluster(*hosts, queues=(queue("q"),))
    cluster.submit("bomb", "q", spec=node_affinity(10_000), cpu=1)
    shape = cluster.state.pods["bomb-0"].shape
    start = time.process_time()
    assert not cluster.state.eligible(shape, cluster.state.queues["q"]).any()
    assert time.process_time() - start <= QUICK_SECONDS
