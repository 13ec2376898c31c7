"""What must hold for every job, whatever happens to it."""

import os
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from bireme.api.generic import GenericJob
from bireme.api.job import DebugMode, JobStatus, PauseMode, RunMode
from bireme.api.kubeflow import DEFAULT_BACKOFF_LIMIT, MPIJobStatus
from bireme.api.names import is_dns_1123
from bireme.planning import plan
from bireme.planning.actions import Create, CreatePod, EmitEvent
from bireme.planning.observed import Job, Status
from bireme.testing.builders import build_job, colossalai_job, generic_job, kubeflow_job, mpi_job, replicas
from bireme.testing.model import ModelCluster

EXAMPLES = 200_000 if os.environ.get("BIREME_LONG") else 5_000
MOST_EVENTS = 10

POLICIES = st.fixed_dictionaries(
    {"policy": st.sampled_from(["Never", "OnFailure", "Always"]), "limit": st.integers(0, 3)}
)


@st.composite
def generic_jobs(draw: st.DrawFn) -> Job:
    counts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    specs = [replicas(f"t{i}", count, restartPolicy=draw(POLICIES)) for i, count in enumerate(counts)]
    extra: dict[str, Any] = {"cleanUpPolicy": draw(st.sampled_from(["None", "Unfinished", "All"]))}
    rule = st.fixed_dictionaries({"t0": st.just([counts[0] - 1])})
    if draw(st.booleans()):
        extra["successRules"] = [draw(rule)]
    if draw(st.booleans()):
        extra["failureRules"] = [draw(rule)]
    if draw(st.booleans()):
        extra["service"] = {"ports": [{"port": 80}]}
    if draw(st.booleans()):
        extra["scheduler"] = {"t9kScheduler": {"queue": "q"}}
    return generic_job(*specs, **extra)


@st.composite
def kubeflow_jobs(draw: st.DrawFn) -> Job:
    policy = draw(st.sampled_from(["Never", "OnFailure", "Always", "ExitCode"]))
    return kubeflow_job(
        draw(st.integers(1, 3)),
        launcher={"restartPolicy": policy},
        backoffLimit=draw(st.integers(0, 2)),
        cleanPodPolicy=draw(st.sampled_from(["None", "Running", "All"])),
    )


CLEAN = st.sampled_from([True, False, "unfinished"])
JOBS = (
    generic_jobs()
    | st.builds(lambda n, clean: mpi_job(n, runPolicy={"cleanUpWorkers": clean}), st.integers(1, 3), CLEAN)
    | st.builds(
        lambda n, clean: colossalai_job(n, runPolicy={"cleanUpWorkers": clean}), st.integers(1, 2), CLEAN
    )
    | kubeflow_jobs()
)
EVENTS = st.sampled_from(
    [
        "run",
        "finish",
        "fail",
        "evict",
        "delete",
        "remove",
        "vanish",
        "time",
        "pause",
        "resume",
        "debug",
        "unknown",
    ]
)


class World:
    """A model cluster in which things happen, and what was true of it before."""

    def __init__(self, job: Job) -> None:
        self.cluster = ModelCluster(job)
        self.before: Status | None = None

    def happen(self, event: str, which: int, code: int) -> None:
        cluster = self.cluster
        names = sorted(cluster.pods)
        name = names[which % len(names)] if names else None
        match event:
            case "run":
                cluster.run()
            case "time":
                cluster.pass_time(float(code * 7))
            case "remove":
                cluster.remove()
            case "pause" | "resume" | "debug":
                self._edit(event)
            case _ if name is not None:
                self._to_pod(event, name, code)

    def _to_pod(self, event: str, name: str, code: int) -> None:
        cluster = self.cluster
        ended = cluster.pods[name].status.phase in ("Succeeded", "Failed")
        if event == "vanish":
            del cluster.pods[name]
        elif event == "delete":
            cluster.delete(name)
        elif ended:
            return
        elif event == "finish":
            cluster.finish(name, 0)
        elif event == "fail":
            cluster.finish(name, code)
        elif event == "evict":
            cluster.evict(name)
        elif event == "unknown":
            cluster.mark_unknown(name)

    def _edit(self, event: str) -> None:
        if not isinstance(self.cluster.job.status, JobStatus):
            return
        modes = {
            "pause": RunMode(pause=PauseMode(enabled=True)),
            "resume": RunMode(pause=PauseMode(enabled=False)),
            "debug": RunMode(debug=DebugMode(enabled=True)),
        }
        self.cluster.edit(run_mode=modes[event])

    def check_pass(self) -> None:
        """Reconcile once, and hold the result against what must always be true."""
        cluster = self.cluster
        observed, now = cluster.observed(), cluster.now
        made = plan(observed, now)
        assert plan(observed, now) == made
        creates = [action for action in made.actions if isinstance(action, CreatePod)]
        if is_paused(cluster.job) or is_finished(cluster.job.status):
            assert not creates
        assert all(
            is_dns_1123(action.name) for action in made.actions if isinstance(action, Create | CreatePod)
        )
        check_conditions(cluster.job.status, made.status)
        check_records(cluster.job, cluster.job.status, made.status)
        if is_finished(cluster.job.status):
            assert verdict(made.status) == verdict(cluster.job.status)
        cluster.reconcile()
        if isinstance(made.status, MPIJobStatus):
            # Its launcher, and the launcher's rights, come once all workers are there.
            assert all(
                isinstance(action, Create | CreatePod | EmitEvent) for action in cluster.reconcile().actions
            )
        again = cluster.plan()
        assert [action for action in again.actions if not isinstance(action, EmitEvent)] == []
        assert not cluster.job_deleted


def is_paused(job: Job) -> bool:
    mode: RunMode | None = getattr(job.spec, "run_mode", None)
    return mode is not None and mode.pause is not None and mode.pause.on


def is_finished(status: Status | None) -> bool:
    return verdict(status) is not None


def verdict(status: Status | None) -> Any:
    if isinstance(status, JobStatus):
        done = status.phase in ("Succeeded", "Failed")
        return (status.phase, status.completion_time, status.first_failure) if done else None
    if isinstance(status, MPIJobStatus):
        done = any(c.type in ("Succeeded", "Failed") and c.status == "True" for c in status.conditions)
        return (status.conditions, status.completion_time) if done else None
    return None


def check_conditions(old: Status | None, new: Status) -> None:
    before = {condition.type: condition for condition in (old.conditions if old is not None else ())}
    for condition in new.conditions:
        known = before.get(condition.type)
        if known is not None and known.status == condition.status:
            assert condition.last_transition_time == known.last_transition_time
    if isinstance(new, JobStatus):
        names = [condition.type for condition in new.conditions]
        assert names == ["Initialized", "Running", "ReplicaFailure", "Completed", "Failed", "Paused"]
        assert new.aggregate is not None
        total = sum(msgspec.structs.astuple(new.aggregate))
        assert total == sum(len(task.replicas) for task in new.tasks)


def check_records(job: Job, old: Status | None, new: Status) -> None:
    before = {r.name: r for task in (old.tasks if old is not None else ()) for r in task.replicas}
    for task in new.tasks:
        assert task.restart_count == sum(record.restarts for record in task.replicas)
        for record in task.replicas:
            known = before.get(record.name)
            assert known is None or record.restarts >= known.restarts
            if isinstance(job, GenericJob):
                limits = {spec.type: spec.restart_policy.limit for spec in job.spec.replica_specs}
                assert record.restarts <= limits[task.type]
    if isinstance(new, MPIJobStatus) and not isinstance(job, GenericJob):
        retries = sum(task.restart_count for task in new.tasks)
        limit = job.spec.backoff_limit  # type: ignore[union-attr]
        assert retries <= (DEFAULT_BACKOFF_LIMIT if limit is None else limit)


@settings(max_examples=EXAMPLES)
@given(JOBS, st.lists(st.tuples(EVENTS, st.integers(0, 5), st.integers(1, 140)), max_size=MOST_EVENTS))
def test_whatever_happens_the_rules_hold(job: Job, events: list[tuple[str, int, int]]) -> None:
    world = World(job)
    world.check_pass()
    for event, which, code in events:
        world.happen(event, which, code)
        world.check_pass()


@settings(max_examples=EXAMPLES // 10)
@given(JOBS, st.lists(st.tuples(EVENTS, st.integers(0, 5), st.integers(1, 140)), max_size=MOST_EVENTS))
def test_left_alone_every_job_comes_to_rest(job: Job, events: list[tuple[str, int, int]]) -> None:
    """After any history: pods run, terminating ones go, time passes, and nothing is left to do."""
    world = World(job)
    cluster = world.cluster
    for event, which, code in events:
        world.happen(event, which, code)
        cluster.reconcile()
    for _ in range(8):
        cluster.settle()
        cluster.remove()
        cluster.pass_time(301)
        cluster.settle()
        cluster.run()
    cluster.settle()
    assert cluster.plan().actions == ()
    wanted = not is_finished(cluster.job.status) and not is_paused(cluster.job)
    if wanted and isinstance(cluster.job, GenericJob):
        ended = (
            {r.name for t in cluster.job.status.tasks for r in t.replicas if r.finished_at}
            if cluster.job.status
            else set()
        )
        names = {f"job-{s.type}-{i}" for s in cluster.job.spec.replica_specs for i in range(s.replicas)}
        assert names - ended <= set(cluster.pods)


def test_the_status_of_five_thousand_replicas_fits_into_an_object() -> None:
    """The worst case: names as long as they may be, and every replica failed and about to be restarted."""
    job = build_job(
        "GenericJob",
        {"replicaSpecs": [replicas("worker", 5000, restartPolicy={"policy": "OnFailure", "limit": 10})]},
        name="n" * 51,
    )
    cluster = ModelCluster(job)
    cluster.settle()
    cluster.pods = {
        name: msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, uid=f"{index:036d}")
        )
        for index, (name, pod) in enumerate(cluster.pods.items())
    }
    cluster.job = msgspec.structs.replace(cluster.job, status=None)
    cluster.run()
    cluster.settle()
    for name in cluster.pods:
        cluster.finish(name, 1, message="x" * 4096)
    status = cluster.reconcile().status
    assert all(record.restarts == 1 for record in status.tasks[0].replicas)
    assert len(msgspec.json.encode(status)) < 2**20
