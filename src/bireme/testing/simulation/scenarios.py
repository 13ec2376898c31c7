"""What is run: jobs of every kind, how their programs end, and what their user does meanwhile."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from bireme.admission import default
from bireme.apiserver.kinds import OURS, Kind
from bireme.apiserver.rules import Object
from bireme.planning.identity import MODE_ANNOTATION
from bireme.testing.builders import BATCH, CONTAINER, replicas, template
from bireme.testing.simulation.nodes import Programs
from bireme.testing.simulation.statuses import records
from bireme.testing.simulation.user import Step

KUBEFLOW: Final = "kubeflow.org/v1alpha2"
NAME: Final = "job"
_SIDECAR: Final = {"name": "sidecar", "image": "registry.example/side:1", "command": ["side"]}


class Scenario(NamedTuple):
    """One job. The programs of its replicas end only after the last step of its user, but for early ones."""

    name: str
    kind: Kind
    manifest: Object
    programs: Programs
    steps: tuple[Step, ...] = ()
    gang: bool = False
    """Whether all pods are lost with one."""
    taken: tuple[str, ...] = ()
    """Names of pods that somebody else has when the job comes."""
    early: Mapping[str, int] = MappingProxyType({})
    """How many runs of a replica end without waiting for the user."""
    hurried: bool = False
    """Whether its time may be up before all of it is there: then only how it ended is compared."""
    page_size: int = 500
    """How many objects a controller asks for at a time."""


# ---- what a user waits for


def _phase(phase: str, mode: str = "") -> Any:
    def reached(job: Object | None, pods: list[Object]) -> bool:
        status = (job or {}).get("status") or {}
        if job is None or status.get("observedGeneration", 0) != job["metadata"]["generation"]:
            return False
        own = [pod for pod in pods if "ownerReferences" in pod["metadata"]]
        modes = {pod["metadata"].get("annotations", {}).get(MODE_ANNOTATION) for pod in own}
        return status.get("phase") == phase and (not mode or (modes == {mode} and _all_run(own)))

    return reached


def _all_run(pods: list[Object]) -> bool:
    return all(
        pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in pods
    )


def _condition(type_: str, reason: str) -> Any:
    def reached(job: Object | None, _pods: list[Object]) -> bool:
        conditions = ((job or {}).get("status") or {}).get("conditions") or ()
        return any(c["type"] == type_ and c.get("reason") == reason for c in conditions)

    return reached


def _true(type_: str) -> Any:
    def reached(job: Object | None, _pods: list[Object]) -> bool:
        conditions = ((job or {}).get("status") or {}).get("conditions") or ()
        return any(c["type"] == type_ and c["status"] == "True" for c in conditions)

    return reached


def _restarted(job: Object | None, _pods: list[Object]) -> bool:
    """Whether a replica had to start again: its program ended, or its pod was lost with the news of that."""
    known = records(job).values() if job is not None else ()
    return any(record.get("restarts") or record.get("disruptions") for record in known)


def _stopped(job: Object | None, pods: list[Object]) -> bool:
    """Whether the job stands still, and its controller knows what it is like by now."""
    return bool(_phase("Paused")(job, pods)) and bool(_condition("Paused", "Stopped")(job, pods))


def _gone(job: Object | None, _pods: list[Object]) -> bool:
    return job is None


def _mode(**flags: Any) -> Object:
    return {"spec": {"runMode": {name: {"enabled": on} for name, on in flags.items()}}}


_PAUSE: Final = Step(_phase("Running"), _mode(pause=True))
_RESUME: Final = Step(_condition("Paused", "Stopped"), _mode(pause=False))
_PAUSE_RESTARTED: Final = Step(_restarted, _mode(pause=True))
_DEBUG: Final = Step(_phase("Running", "run"), _mode(debug=True))
_NO_DEBUG: Final = Step(_phase("Running", "debug"), _mode(debug=False))
_PAUSE_DEBUG: Final = Step(_phase("Running", "debug"), _mode(pause=True))
_HASTE: Final = Step(_true("Paused"), _mode(pause=False))
_DELETE: Final = Step(_true("Running"), None)


# ---- jobs


def _make(kind: str, spec: Object, api_version: str = BATCH) -> tuple[Kind, Object]:
    manifest = default({"apiVersion": api_version, "kind": kind, "metadata": {"name": NAME}, "spec": spec})
    found = next(each for each in OURS if (each.kind, each.api_version) == (kind, api_version))
    return found, manifest


def _generic(name: str, specs: list[Object], programs: Programs, *steps: Step, **more: Any) -> Scenario:
    taken, early = more.pop("taken", ()), more.pop("early", {})
    kind, manifest = _make("GenericJob", {"replicaSpecs": specs, **more})
    return Scenario(f"generic-{name}", kind, manifest, programs, steps, taken=taken, early=early)


def _launched(kind: str, name: str, workers: int, programs: Programs, *steps: Step, **more: Any) -> Scenario:
    worker: Object = {"replicas": workers, "template": template()}
    spec: Object = {
        "worker": worker | ({"cmd": ["x"]} if kind == "MPIJob" else {"command": ["x.py"]}),
        **more,
    }
    if kind == "ColossalAIJob":
        spec["launcher"] = {"image": "registry.example/l:1"}
    found, manifest = _make(kind, spec)
    short = "mpi" if kind == "MPIJob" else "colossalai"
    return Scenario(f"{short}-{name}", found, manifest, programs, steps, gang=True)


def _kubeflow(
    name: str, programs: Programs, *steps: Step, policy: str = "OnFailure", **more: Any
) -> Scenario:
    specs = {
        "Launcher": {"template": template(), "restartPolicy": policy},
        "Worker": {"replicas": 2, "template": template(), "restartPolicy": policy},
    }
    kind, manifest = _make("MPIJob", {"mpiReplicaSpecs": specs, **more}, KUBEFLOW)
    return Scenario(f"kubeflow-{name}", kind, manifest, programs, steps, gang=True)


_PORTS: Final = {"ports": [{"name": "http", "port": 80}]}
_QUEUE: Final = {"t9kScheduler": {"queue": "default"}}
_TWO: Final[Programs] = {"job-worker-0": (0,), "job-worker-1": (0,)}
_THREE: Final[Programs] = _TWO | {"job-worker-2": (0,)}
_LAUNCHER: Final[Programs] = {"job-launcher": (0,)}


def _restarts(policy: str, limit: int) -> Object:
    return {"policy": policy, "limit": limit}


def _workers(kind: str, count: int, **more: Any) -> Object:
    if kind == "GenericJob":
        return {"spec": {"replicaSpecs": [replicas("worker", count, **more)]}}
    return {"spec": {"worker": {"replicas": count}}}


def _scaled(kind: str, *counts: int) -> tuple[Step, ...]:
    """Pause, change the number of workers so often, and go on; no change waits until the last one is seen."""
    edits = (Step(_condition("Paused", "Stopped"), _workers(kind, count)) for count in counts)
    return _PAUSE, *edits, _RESUME


_TWICE: Final = _restarts("OnFailure", 2)

SHAPES: Final = (
    _generic(
        "plain", [replicas("worker", 2, restartPolicy=_restarts("Never", 0))], _TWO, service=_PORTS,
        cleanUpPolicy="All",
    ),
    _generic(
        "broken",
        [
            replicas("worker", 2, restartPolicy=_restarts("OnFailure", 2),
                     template=template(CONTAINER, _SIDECAR)),
            replicas("keeper"),
        ],
        {"job-worker-0": (0,), "job-worker-1": (1, 137, 0)},
        successRules=[{"worker": [0, 1]}], cleanUpPolicy="Unfinished", scheduler=_QUEUE,
    ),
    _generic("edited", [replicas("worker", 2)], _THREE, *_scaled("GenericJob", 3), scheduler=_QUEUE),
    _launched("MPIJob", "plain", 2, _LAUNCHER, runPolicy={"cleanUpWorkers": True}),
    _launched("MPIJob", "broken", 2, {"job-worker-1": (3,)}, runPolicy={"cleanUpWorkers": "unfinished"}),
    _launched("MPIJob", "edited", 2, _LAUNCHER, *_scaled("MPIJob", 3), scheduler=_QUEUE),
    _launched("ColossalAIJob", "plain", 2, _LAUNCHER, runPolicy={"cleanUpWorkers": True}),
    _launched("ColossalAIJob", "broken", 2, {"job-launcher": (1,)}),
    _launched("ColossalAIJob", "edited", 2, _LAUNCHER, *_scaled("ColossalAIJob", 3)),
    _kubeflow("plain", _LAUNCHER, cleanPodPolicy="Running"),
    _kubeflow("broken", {"job-launcher": (1, 1, 0)}, backoffLimit=3, cleanPodPolicy="All"),
    _kubeflow("expires", _LAUNCHER, runPolicy={"ttlSecondsAfterFinished": 60}),
)  # fmt: skip
"""Four kinds in three shapes: what every single fault is tried on."""

OTHERS: Final = (
    _generic(
        "failing", [replicas("worker", 2, restartPolicy=_restarts("OnFailure", 1))],
        {"job-worker-1": (2,)}, cleanUpPolicy="Unfinished", service=_PORTS,
        scheduler=_QUEUE,
    ),
    _generic("alone", [replicas("worker", 1)], {"job-worker-0": (0,)}),
    _generic("ruled", [replicas("worker", 2, restartPolicy=_restarts("Never", 0)), replicas("keeper")],
             {"job-worker-0": (1,), "job-worker-1": (1,)}, failureRules=[{"worker": [0, 1]}],
             cleanUpPolicy="All"),
    _generic("undecided", [replicas("worker", 2, restartPolicy=_restarts("Never", 0))],
             {"job-worker-0": (1,), "job-worker-1": (0,)}, failureRules=[{"worker": [0, 1]}],
             successRules=[{"worker": [0, 1]}]),
    _generic("late", [replicas("worker", 2)], _TWO, Step(_phase("Succeeded"), _mode(pause=True)),
             Step(_phase("Succeeded"), _mode(pause=False)), early={"job-worker-0": 1, "job-worker-1": 1}),
    _generic("hasty", [replicas("worker", 2)], _TWO, _PAUSE, _HASTE, scheduler=_QUEUE, service=_PORTS),
    _generic("stopped", [replicas("worker", 2)], _TWO, _DEBUG, _PAUSE_DEBUG, _RESUME, _NO_DEBUG),
    _generic("always", [replicas("worker", 2, restartPolicy=_restarts("Always", 2))], _TWO),
    _generic("debug", [replicas("worker", 2)], _TWO, _DEBUG, _NO_DEBUG),
    _generic("deleted", [replicas("worker", 2)], {}, _DELETE, service=_PORTS, scheduler=_QUEUE),
    _generic("taken", [replicas("worker", 2)], _TWO,
             Step(_condition("Initialized", "NameConflict"), "job-worker-1"), taken=("job-worker-1",)),
    _generic("paused", [replicas("worker", 2)], {}, _PAUSE, scheduler=_QUEUE, service=_PORTS),
    _generic("shrunk", [replicas("worker", 3)], {"job-worker-0": (0,)}, *_scaled("GenericJob", 1),
             service=_PORTS, scheduler=_QUEUE),
    _generic("restarted", [replicas("worker", 2, restartPolicy=_TWICE)],
             {"job-worker-0": (0,), "job-worker-1": (1, 1, 0)}, _PAUSE_RESTARTED, _RESUME,
             early={"job-worker-1": 1}),
    _generic("resized", [replicas("worker", 2, restartPolicy=_TWICE)],
             {"job-worker-0": (0,), "job-worker-1": (1, 0)}, _PAUSE_RESTARTED,
             # Seen in between: a replica that went and came back has no restarts.
             *(Step(_stopped, _workers("GenericJob", count, restartPolicy=_TWICE)) for count in (1, 2)),
             Step(_stopped, _RESUME.edit), early={"job-worker-1": 1}, service=_PORTS),
    _launched("MPIJob", "shrunk", 3, _LAUNCHER, *_scaled("MPIJob", 1), scheduler=_QUEUE),
    _launched("ColossalAIJob", "resized", 2, _LAUNCHER, *_scaled("ColossalAIJob", 1, 3)),
    _launched("MPIJob", "debug", 2, _LAUNCHER, _DEBUG, _NO_DEBUG),
    _launched("MPIJob", "deleted", 2, {}, _DELETE, scheduler=_QUEUE),
    _launched("ColossalAIJob", "paused", 2, {}, _PAUSE),
    _kubeflow("failing", {"job-launcher": (1,)}, backoffLimit=1, cleanPodPolicy="Running"),
    _kubeflow("deleted", {}, _DELETE),
    _launched("MPIJob", "hasty", 2, _LAUNCHER, _PAUSE, _HASTE, scheduler=_QUEUE),
    _launched("MPIJob", "resumed", 2, _LAUNCHER, _PAUSE, _RESUME, Step(_phase("Running", "resume"), _mode())),
    _kubeflow("deadline", {}, activeDeadlineSeconds=60, cleanPodPolicy="All")._replace(hurried=True),
    _kubeflow("permanent", {"job-launcher": (1,)}, policy="ExitCode"),
    _kubeflow("passing", {"job-launcher": (137, 0)}, policy="ExitCode"),
    _kubeflow("never", {"job-launcher": (1,)}, policy="Never"),
    _kubeflow("taken", _LAUNCHER, Step(_condition("Created", "NameConflict"), "job-worker-1"))._replace(
        taken=("job-worker-1",)
    ),
)  # fmt: skip


def _recreated(scenario: Scenario) -> Scenario:
    """The same, but deleted while it runs, and created again as soon as it is gone."""
    name = scenario.name.replace("plain", "recreated")
    return scenario._replace(name=name, steps=(_DELETE, Step(_gone, scenario.manifest)))


PAGED: Final = (
    _generic("paged", [replicas("worker", 3, restartPolicy=_TWICE)], {**_THREE, "job-worker-1": (1, 0)},
             _PAUSE, _RESUME, service=_PORTS, scheduler=_QUEUE)._replace(page_size=1),
    _launched("MPIJob", "paged", 3, _LAUNCHER, scheduler=_QUEUE)._replace(page_size=2),
)  # fmt: skip
"""Jobs with so many children that a list of them comes in pages."""

RECREATED: Final = tuple(_recreated(scenario) for scenario in SHAPES if scenario.name.endswith("-plain"))

SCENARIOS: Final = {scenario.name: scenario for scenario in (*SHAPES, *OTHERS, *PAGED, *RECREATED)}
