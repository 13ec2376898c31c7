"""A collection of manifests that try every field, and the end that each must have.

The files are in `manifests`; SCRATCH in them stands for a folder of the test. Every file is in one of the
tables below, or in ELSEWHERE with the test that has its story.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import pytest
import yaml

from bireme.admission import default, validate
from bireme.api.paths import format_path
from bireme.kube.errors import NotFound
from bireme.kube.resources import Resource
from bireme.node.cgroups import Limits
from bireme.node.machine import look
from bireme.run.jobs import phase
from support.here import BIN, Here, Object, eventually, resource
from support.mpi_rounds import find

pytestmark = pytest.mark.xdist_group("here")

FOLDER: Final = Path(__file__).parent / "manifests"
FILES: Final = sorted(path.stem for path in FOLDER.glob("*.yaml"))
JOBS: Final = ("GenericJob", "MPIJob", "ColossalAIJob")
PLAIN: Final = {"ConfigMap": "configmaps", "Secret": "secrets"}
AT_ONCE: Final = 14

ELSEWHERE: Final = {
    "bjob": "contract tests of the API server: a kind that is not served",
    "dep": "contract tests of the API server: a kind that is not served",
    "d01": "test_debug.py", "d02": "test_debug.py", "d04": "test_debug.py",
    "m15": "test_failures.py, row 3: a rank that raises hangs the others",
    "p02": "tests/golden/validate and tests/behaviours: resumeSpecs can't change",
    "rs": "tests/behaviours: phase Resuming",
    "tx1": "tests/behaviours: restarts are kept over a pause",
    "pgman": "tests/behaviours and test_queues.py: groups of hand-made pods",
    "pgman2": "tests/behaviours and test_queues.py: groups of hand-made pods",
    "x05b": "test_commands_run.py: a finished job of another kind is replaced",
}  # fmt: skip


class End(NamedTuple):
    """How a job ends: its phase, the condition's reason, parts of firstFailure, and a line of output."""

    phase: str
    reason: str
    first: Mapping[str, Any] = MappingProxyType({})
    output: tuple[str, str, str] = ("", "", "")
    """Pod, container, and a regular expression for a line."""
    restarts: int | None = None
    needs: str = ""


def won(
    output: tuple[str, str, str] = ("", "", ""), reason: str = "AllReplicasSucceeded", **more: Any
) -> End:
    return End("Succeeded", reason, output=output, **more)


def ran(pod: str, line: str, *, container: str = "mpi-launcher", **more: Any) -> End:
    return End("Succeeded", "LauncherSucceeded", output=(pod, container, line), **more)


def lost(reason: str, /, **first: Any) -> End:
    more = {key: first.pop(key) for key in ("output", "restarts", "needs") if key in first}
    return End("Failed", reason, first, **more)


ENDS: Final = {
    "c01": ran("c01-launcher", "rank 3/4 .* LENV=l env 'q' BOTH=worker argv .*", container="launcher"),
    "c02": lost("LauncherFailed", replica="c02-worker-1", exitCode=17),
    "c03": ran("c03-launcher", "rank 0/1 .*", container="launcher"),
    "e01": won(("e01-w-0", "c", "hi")),
    "e02": won(("e02-w-0", "c", "hi")),
    "e03": won(("e03-w-0", "c", "hello")),
    "e05": lost("ReplicaFailed", reason="OOMKilled", signal=9, needs="memory"),
    "e07": lost("ReplicaFailed", exitCode=127, reason="StartError", restarts=1),
    "e08": lost("ReplicaFailed", exitCode=6, isInit=True, container="i", message="initfail"),
    "e09": lost("ReplicaFailed", reason="DeadlineExceeded"),
    "g01": won(("g01-ps-1", "c", "main ps 1 2 g01-ps-0:8080 V=env-ps-1 .* host=g01-ps-1")),
    "g02": won(("g02-w-0", "c", "try 3"), restarts=2),
    "g03": won(("g03-w-0", "c", "run"), restarts=2),
    "g04": lost("ReplicaFailed", exitCode=9, message="bad", restarts=0),
    "g05": lost("FailureRuleSatisfied", replica="g05-worker-0", exitCode=3, restarts=2),
    "g06": lost("NoRuleSatisfied", exitCode=1),
    "g07": won(reason="SuccessRuleSatisfied"),
    "g08": won(("g08-b-0", "c", "b 0")),
    "g09": won(("g09-w-0", "main", "main")),
    "ha": won(("ha-w-0", "c", r"1\.2\.3\.4\s+foo\.example")),
    "k01": ran("k01-launcher", "rank 3 on k01-worker-1", container="l"),
    "k02": lost("BackoffLimitExceeded", exitCode=5, message="fail", restarts=3),
    "k03": lost("BackoffLimitExceeded", exitCode=5, restarts=2),
    "k04": lost("ReplicaFailed", exitCode=7, message="perm", restarts=0),
    "k05": ran("k05-launcher", "try 2", container="l", restarts=1),
    "k06": lost("DeadlineExceeded"),
    "k07": End("Succeeded", "LauncherSucceeded"),
    "k08": End("Succeeded", "LauncherSucceeded"),
    "k10": ran("k10-launcher", "rank 1 in main W=wenv .*", container="l"),
    "k14": lost("BackoffLimitExceeded", replica="k14-worker-1"),
    "k15": lost("BackoffLimitExceeded", replica="k15-worker-1"),
    "k16": End("Succeeded", "LauncherSucceeded"),
    "k17": lost("ReplicaFailed", replica="k17-worker-1", exitCode=1),
    "k18": lost("", replica="k18-worker-1"),
    "k19": End("Succeeded", "LauncherSucceeded", needs="4.1"),
    "k20": lost("BackoffLimitExceeded", exitCode=5, restarts=1),
    "kd": ran("kd-launcher", "8 1"),
    "kwalways": lost("BackoffLimitExceeded"),
    "kwnever": lost("WorkerExited", replica="kwnever-worker-0", reason="WorkerExited", restarts=0),
    "kwonfailure": lost("WorkerExited", replica="kwonfailure-worker-0", restarts=0),
    "m01": ran("m01-launcher", r"rank 3 host m01-worker-1 FOO=\[a b;\$\(c\)\] BAR=\[with 'quotes' .*"),
    "m02": ran("m02-launcher", "rank 2 size 3 m02-worker-1 .*", needs="4.1"),
    "m03": lost("LauncherFailed", exitCode=42),
    "m04": ran("m04-launcher", "m04-worker-0"),
    "m05": ran("m05-launcher", "3 on m05-worker-1"),
    "m06": ran("m06-launcher", "rank 1 sum 2 from-cm m06-worker-1 s3cret m06-worker-1-x"),
    "m08": ran("m08-launcher", "3/5 m08-worker-1"),
    "m08b": ran("m08b-launcher", "3/5 m08b-worker-1", needs="4.1"),
    "m08c": ran("m08c-launcher", "1/5 m08c-worker-1"),
    "m09": lost("LauncherFailed", reason="StartError", message="mpirun has no option --nosuchoption"),
    "m10": ran("m10-launcher", "done 1"),
    # Now and then mpirun does not say which rank has failed.
    "m13": lost("LauncherFailed", exitCode=42, needs="4.1"),
    "m14": lost("LauncherFailed", signal=9, exitCode=137),
    "pt": won(("pt-w-1", "c", "1 500 .* hello")),
    "pu": won(("pu-w-0", "c", "ok")),
    "pv": won(("pv-w-0", "c", "ok")),
    "pw": won(("pw-w-0", "c", "ok")),
    "py": lost("ReplicaFailed", message="volume nn: nfs is not offered without a cluster"),
    "shm1": won(("shm1-w-0", "c", r"tmpfs\s+64M\s.*")),
    "shm2": won(("shm2-w-0", "c", r"tmpfs\s+64M\s.*")),
    "slots": lost("LauncherFailed", exitCode=1),
    "tie": End("", ""),
    "x01": End("Succeeded", "AllReplicasSucceeded"),
    "x01b": ran("x01-launcher", "x01-worker-0"),
    "x02": lost("ReplicaFailed", message="container c has no command, .*"),
    "x03": lost("ReplicaFailed", replica="x03-k-0", signal=11, restarts=1),
    "x04": End("Succeeded", "SuccessRuleSatisfied"),
}
"""Jobs that end by themselves."""

QUEUED: Final = {
    **{
        name: End("Succeeded", "AllReplicasSucceeded") for name in ("h1", "h2", "l2", "l3", "l4", "np", "ns2")
    },
    **{name: End("Succeeded", "AllReplicasSucceeded") for name in ("tp", "tp2")},
    "l1": End("Succeeded", "AllReplicasSucceeded"),
    "kq": End("Succeeded", "LauncherSucceeded"),
    "mq": End("Succeeded", "LauncherSucceeded"),
    "sh": lost("ReplicaFailed", reason="MaxDurationExceeded"),
    "tx5": lost("ReplicaFailed", reason="MaxDurationExceeded"),
    "mqs": End("Failed", ""),
    "kqs": End("Failed", ""),
}
"""Jobs of the queues of queues.yaml, on a node with four CPUs; some are preempted, and come back."""

REFUSED: Final = {
    "inv": [
        "spec.cleanUpPolicy:enum", "spec.successRules[0]:too-few", "spec.failureRules[0].w[0]:type",
        "spec.scheduler.t9kScheduler.queue:required", "spec.replicaSpecs[0].replicas:range",
        "spec.replicaSpecs:too-few", "metadata.name:name", "metadata.name:name-too-long",
        "spec.succesRules:unknown-field",
    ],
    "k11": [
        "spec.slotsPerWorker:range", "spec.backoffLimit:range", "spec.cleanPodPolicy:enum",
        "spec.suspend:unknown-field", "spec.mpiReplicaSpecs.Worker:required",
        "spec.mpiReplicaSpecs.Launcher:required",
    ],
    "m07": [
        "spec.runPolicy.cleanUpWorkers:enum", "spec.mca.a:type", "spec.mpiHome:pattern",
        "spec.worker.replicas:range", "spec.worker.cmd:too-few", "spec.worker.extraMPIArgs[0]:host-option",
        "spec.worker.extraMPIArgs[2]:host-option", "spec.worker.template.spec.containers:main-container",
    ],
    "qinv": [
        "spec.priority:range", "spec.quota.requests.cpu:quantity", "spec.preemptible:type",
        "spec.maxDuration:pattern", "spec.maxDuration:too-short", "metadata.namespace:namespace",
        "spec.namespaceSelector.matchExpressions[0].operator:enum", "spec.minMember:range",
        "spec.roles[1].name:duplicate", "spec.queue:pattern",
    ],
    "qsel": ["spec.nodeSelector.zone:unknown-field", "spec.namespaceSelector.team:unknown-field"],
    "rl": ["spec.replicaSpecs[0].template.spec.schedulerName:queued"],
}  # fmt: skip
"""Errors that admission must find, by path and rule; it may find more."""

WARNED: Final = {
    "c05": ["spec.runMode.pause.resumeSpecs[0].args[0]:launcher-arguments"],
    "d03": ["spec.runMode.pause.resumeSpecs[0].args[0]:launcher-arguments"],
    "k07": ["spec.activeDeadlineSeconds:deadline-ignored"],
    "m01": ["spec.worker.extraMPIArgs[6]:dropped-option", "spec.worker.extraMPIArgs[7]:dropped-option"],
    "m04": ["spec.worker.template.spec.containers[0].command:replaced"],
    "m06": ["spec.worker.template.spec.containers[1].args:replaced"],
    "m09": ["spec.worker.extraMPIArgs[1]:process-count"],
}
"""Warnings that admission must give, and no error."""

WAITS: Final = {
    "big": "ExceedsQuotaEver",
    "cl": "QueueClosed",
    "el": "DoesNotFitAnyNode",
    "huge": "DoesNotFitAnyNode",
    "no": "Misconfigured",
    "ns": "DoesNotFitAnyNode",
    "qs": "Misconfigured",
    "sp": "Misconfigured",
    "e04": "WaitingForReplicas",
    "e06": "WaitingForReplicas",
}
"""Jobs that can't start, and the reason of their condition Running."""

RESUMED: Final = {
    "c04": ("c04-launcher", "launcher", "resumed"),
    "c06": ("c06-launcher", "launcher", r"rank 1/2 .*argv \['--resume'\]"),
    "d05": ("d05-launcher", "mpi-launcher", "resumed rank 1 on d05-worker-1"),
    "p01": ("p01-a-1", "c", "resumed a 1 of 2"),
    "pq": ("pq-w-1", "c", "FIRST"),
    "st": ("st-b-0", "c", "resumed"),
}
"""Jobs that are paused once they run, and the line that they print when they go on."""

EXAMPLE: Final = ("a1", "a2", "a3", "b1", "c1", "d1", "b2", "c2", "d2")
OTHER: Final = ("k09", "queues", "wq", *EXAMPLE)
"""Files with a test of their own below."""


def test_every_manifest_of_the_collection_has_an_end() -> None:
    tables: Sequence[Iterable[str]] = (
        ENDS,
        QUEUED,
        REFUSED,
        WARNED,
        WAITS,
        RESUMED,
        OTHER,
        ELSEWHERE,
    )
    assert {name for table in tables for name in table} == set(FILES)


def load(name: str, scratch: Path = Path("/scratch")) -> list[Object]:
    text = (FOLDER / f"{name}.yaml").read_text().replace("SCRATCH", str(scratch))
    documents = list(yaml.safe_load_all(text))
    return sorted(documents, key=lambda document: document["kind"] in JOBS)


def problems(name: str, severity: str) -> set[str]:
    return {
        f"{format_path(problem.path)}:{problem.rule}"
        for document in load(name)
        for problem in validate(default(document))
        if problem.severity == severity
    }


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_manifest_is_refused(name: str) -> None:
    assert problems(name, "error") >= set(REFUSED[name])


@pytest.mark.parametrize("name", sorted({*ENDS, *QUEUED, *WARNED, *WAITS, *RESUMED, *OTHER}))
def test_a_right_manifest_is_accepted_with_its_warnings(name: str) -> None:
    assert problems(name, "error") == set()
    assert problems(name, "warning") >= set(WARNED.get(name, ()))


# ---- running them


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scratch")
    (folder / "train.py").write_text((FOLDER / "train.py").read_text())
    return folder


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """The embedded mode on a node that has four CPUs for queued jobs, with the queues of the collection."""
    yield from _with_queues(tmp_path_factory, "4", "queues")


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """As `wide`, with three CPUs and the queues of the worked example."""
    yield from _with_queues(tmp_path_factory, "3", "wq")


def _with_queues(factory: pytest.TempPathFactory, cpu: str, file: str) -> Iterator[Here]:
    made = Here(factory.mktemp(file), msgspec.structs.replace(look(), cpu=cpu, memory="8Gi"))
    made.start()
    for queue in load(file):
        made.do(made.client.create(resource(queue), None, queue))
    yield made
    made.clear()
    made.stop()


def start(here: Here, name: str, scratch: Path) -> Object:
    """Create all objects of a file; return its job."""
    for document in load(name, scratch):
        if document["kind"] in PLAIN:
            kind = Resource("", "v1", PLAIN[document["kind"]], document["kind"])
            here.do(here.client.create(kind, "default", document))
    job = next(document for document in load(name, scratch) if document["kind"] in JOBS)
    path = f"{FOLDER}:{BIN}:/usr/bin:/bin"
    job["metadata"]["annotations"] = {"bireme.dev/path": path}
    return here.create(job)


def reason_of(status: Object) -> str:
    names = ("Completed", "Failed", "Succeeded")
    return next(
        (
            each["reason"]
            for each in status["conditions"]
            if each["type"] in names and each["status"] == "True"
        ),
        "",
    )


def differences(here: Here, job: Object, status: Object, expected: End) -> Iterator[str]:
    """What is not as it must be."""
    ended = {"metadata": job["metadata"], "status": status}
    if expected.phase and phase(ended) != expected.phase:
        yield f"{phase(ended)}: {status}"
    if expected.reason and reason_of(status) != expected.reason:
        yield f"reason {reason_of(status)}: {status}"
    if "startTime" not in status:
        yield f"no startTime: {status}"
    first = status.get("firstFailure") or {}
    for key, value in expected.first.items():
        is_there = re.fullmatch(value, first.get(key, "")) if key == "message" else first.get(key) == value
        if not is_there:
            yield f"firstFailure.{key} is not {value}: {first}"
    restarts = sum(task["restartCount"] for task in status.get("tasks") or ())
    if expected.restarts is not None and restarts != expected.restarts:
        yield f"{restarts} restarts"
    pod, container, line = expected.output
    if pod and not has_line(here, pod, container, line):
        yield f"no line {line} in {here.output(pod, container)}"


def has_line(here: Here, pod: str, container: str, line: str) -> bool:
    with contextlib.suppress(NotFound):
        return re.search(f"^{line}$", here.output(pod, container), re.MULTILINE) is not None
    return False


def is_possible(end: End) -> bool:
    if end.needs == "memory":
        return "memory" in Limits().offered
    return end.needs != "4.1" or find("4.1") is not None


def batches(names: Iterable[str]) -> list[list[str]]:
    listed = list(names)
    return [listed[index : index + AT_ONCE] for index in range(0, len(listed), AT_ONCE)]


@pytest.mark.parametrize("names", batches(ENDS), ids=lambda names: f"{names[0]} to {names[-1]}")
def test_jobs_end_as_they_must(here: Here, scratch: Path, names: list[str]) -> None:
    jobs = {name: start(here, name, scratch) for name in names if is_possible(ENDS[name])}
    seen = {name: [*differences(here, job, here.end_of(job), ENDS[name])] for name, job in jobs.items()}
    assert {name: found for name, found in seen.items() if found} == {}


def test_queued_jobs_end_as_they_must(wide: Here, scratch: Path) -> None:
    jobs = {name: start(wide, name, scratch) for name in QUEUED}
    seen = {name: [*differences(wide, job, wide.end_of(job), QUEUED[name])] for name, job in jobs.items()}
    wide.clear()
    assert {name: found for name, found in seen.items() if found} == {}


@pytest.mark.parametrize("name", WAITS)
def test_a_job_that_can_not_start_says_why(wide: Here, scratch: Path, name: str) -> None:
    job = start(wide, name, scratch)

    def says_why(seen: Object) -> bool:
        conditions = (seen.get("status") or {}).get("conditions") or ()
        return any(each["type"] == "Running" and each["reason"] == WAITS[name] for each in conditions)

    wide.until(job, says_why)
    wide.clear()


@pytest.mark.parametrize("name", RESUMED)
def test_a_paused_job_goes_on_as_its_manifest_says(here: Here, scratch: Path, name: str) -> None:
    job = start(here, name, scratch)
    mode = job["spec"]["runMode"]["pause"]
    flag = "enable" if "enable" in mode else "enabled"
    if not mode.get(flag):
        here.until(job, lambda seen: phase(seen) == "Running")
        here.change(job, {"runMode": {"pause": {flag: True}}})
    here.until(job, lambda seen: phase(seen) == "Paused" and _is_stopped(seen))
    here.change(job, {"runMode": {"pause": {flag: False}}})
    eventually(lambda: has_line(here, *RESUMED[name]), here.pods)


def _is_stopped(job: Object) -> bool:
    conditions = job["status"]["conditions"]
    return any(each["type"] == "Paused" and each["reason"] == "Stopped" for each in conditions)


def test_a_job_is_deleted_when_its_time_is_over(here: Here, scratch: Path) -> None:
    """k09: ttlSecondsAfterFinished."""
    job = start(here, "k09", scratch)
    assert phase({"metadata": job["metadata"], "status": here.end_of(job)}) == "Succeeded"

    def is_gone() -> bool:
        try:
            here.do(here.client.get(resource(job), "default", "k09"))
        except NotFound:
            return True
        return False

    eventually(is_gone)


def test_queues_share_as_in_the_worked_example(narrow: Here, scratch: Path) -> None:
    """A, B, C and D fill the node; B2 and C2 wait, D2 starts and one job of A goes."""
    jobs = {name: start(narrow, name, scratch) for name in EXAMPLE[:6]}
    for job in jobs.values():
        narrow.until(job, lambda seen: phase(seen) == "Running")
    later = {name: start(narrow, name, scratch) for name in EXAMPLE[6:]}
    narrow.until(later["d2"], lambda seen: phase(seen) == "Running")
    running = {pod for pod in narrow.pods() if narrow.pod(pod)["status"]["phase"] == "Running"}
    assert {"b2-w-0", "c2-w-0"}.isdisjoint(running)
    assert {"b1-w-0", "c1-w-0", "d1-w-0", "d2-w-0"} <= running
    assert len({"a1-w-0", "a2-w-0", "a3-w-0"} & running) == 2
    narrow.clear()
