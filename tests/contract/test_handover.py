"""The lead changes hands amid a hundred jobs, on a real API server with pretended nodes."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from support import audit, kwok
from support.control_plane import START_ORDER, BinariesMissingError, ControlPlane
from support.fixtures import unavailable
from support.installation import install_crds
from support.jobs import generic, mpi

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("handover")]

BIREME: Final = Path(sys.executable).parent / "bireme"
NAMESPACE: Final = "default"
JOBS: Final = 100
PODS: Final = 4
"""Of each job."""
NODES: Final = 10
COUNT: Final = 2
MOST_SECONDS: Final = 20
WAIT_SECONDS: Final = 300
Object = dict[str, Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    reason = kwok.why_not()
    if reason:
        raise unavailable(reason)
    new = AuditedPlane(parent=tmp_path_factory.getbasetemp())
    try:
        flags = {"kube-scheduler": ["--kube-api-qps=1000", "--kube-api-burst=1000"]}
        new.start(START_ORDER, flags=flags, deadline_seconds=180)
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None
    try:
        install_crds(new)
        with kwok.nodes(new, NODES):
            yield new
    finally:
        new.stop()


class AuditedPlane(ControlPlane):
    def _apiserver_flags(self, port: int) -> list[str]:
        return [*super()._apiserver_flags(port), *audit.flags(self.folder)]


class Controllers:
    """Two processes that stand for one lease, each under a user name of its own.

    As under a Deployment, one that ends is replaced: a leader that can't renew its lease ends by itself.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._users: list[str] = []

    def replace_ended(self) -> None:
        self._running = {user: each for user, each in self._running.items() if each.poll() is None}
        while len(self._running) < COUNT:
            self._add()

    def _add(self) -> None:
        user = f"controller-{len(self._users)}"
        self._users.append(user)
        kubeconfig = self._plane.kubeconfig_for(user, ["system:masters"])
        command = [str(BIREME), "controller", "--kubeconfig", str(kubeconfig), "--health-port", "0"]
        with (self._plane.folder / f"{user}.log").open("wb") as log:
            self._running[user] = subprocess.Popen(command, stderr=log)

    def end_leader(self, signum: signal.Signals) -> None:
        """End whoever leads, and put another in its place."""
        self.wait(lambda: self._leading() is not None, "a leader")
        process = self._leading()
        if process is not None:
            process.send_signal(signum)
            process.wait(60)
        self.replace_ended()

    def _leading(self) -> subprocess.Popen[bytes] | None:
        terms = self.requests_and_leaders()[1].terms
        return self._running.get(terms[-1].who) if terms else None

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"never: {what}"
            self.replace_ended()
            time.sleep(0.5)

    def requests_and_leaders(self) -> tuple[list[audit.Request], audit.Leaders]:
        requests = audit.read(self._plane.folder / "audit.log", self._users)
        return requests, audit.read_leaders(requests, "bireme-controller")

    def stop(self) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.wait(60)


@contextmanager
def controllers(plane: ControlPlane) -> Iterator[Controllers]:
    two = Controllers(plane)
    two.replace_ended()
    try:
        yield two
    finally:
        two.stop()


def build(index: int) -> Object:
    if index % 5:
        return generic(f"job-{index}", replicas=PODS)
    worker = {**mpi()["spec"]["worker"], "replicas": PODS - 1}
    return mpi(f"job-{index}", worker=worker)


def pod_names(job: Object) -> list[str]:
    name = job["metadata"]["name"]
    if job["kind"] == "GenericJob":
        return [f"{name}-worker-{index}" for index in range(PODS)]
    return [f"{name}-launcher", *(f"{name}-worker-{index}" for index in range(PODS - 1))]


def kubectl(plane: ControlPlane, *arguments: str, **options: Any) -> str:
    """A hundred jobs take their time on a busy machine."""
    return plane.kubectl("-n", NAMESPACE, *arguments, timeout_seconds=WAIT_SECONDS, **options).stdout


def end(plane: ControlPlane, jobs: list[Object]) -> None:
    """Let all pods of a GenericJob end, or an MPIJob's launcher, which decides."""
    names = [
        name for job in jobs for name in pod_names(job) if job["kind"] == "GenericJob" or "launcher" in name
    ]
    kubectl(plane, "annotate", "pods", *names, f"{kwok.ENDS}=yes")


def items(plane: ControlPlane, kind: str) -> list[Object]:
    found: list[Object] = json.loads(kubectl(plane, "get", kind, "-o", "json"))["items"]
    return found


def phases(plane: ControlPlane) -> dict[str, str]:
    jobs = items(plane, "genericjobs.batch.tensorstack.dev,mpijobs.batch.tensorstack.dev")
    return {job["metadata"]["name"]: (job.get("status") or {}).get("phase", "") for job in jobs}


def wait_phase(crew: Controllers, plane: ControlPlane, jobs: list[Object], phase: str) -> None:
    names = {job["metadata"]["name"] for job in jobs}
    crew.wait(lambda: {phases(plane)[name] for name in names} == {phase}, f"all {phase}")


def test_a_hundred_jobs_do_not_notice_who_leads(plane: ControlPlane) -> None:
    """Handed over while pods are made, by a sudden death while half of the jobs end, and once more."""
    jobs = [build(index) for index in range(JOBS)]
    pods = [name for job in jobs for name in pod_names(job)]
    with controllers(plane) as crew:
        crew.wait(lambda: bool(crew.requests_and_leaders()[1].terms), "a leader")
        began = datetime.now(UTC)
        everything = {"apiVersion": "v1", "kind": "List", "items": jobs}
        kubectl(plane, "create", "-f", "-", input=json.dumps(everything))
        crew.wait(lambda: len(made(crew)) > len(pods) // 4, "a quarter of all pods")
        crew.end_leader(signal.SIGTERM)
        wait_phase(crew, plane, jobs, "Running")
        uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in items(plane, "pods")}
        assert sorted(uids) == sorted(pods)

        crew.end_leader(signal.SIGKILL)
        end(plane, jobs[:50])
        wait_phase(crew, plane, jobs[:50], "Succeeded")
        crew.end_leader(signal.SIGTERM)
        end(plane, jobs[50:])
        wait_phase(crew, plane, jobs[50:], "Succeeded")
        requests, leaders = crew.requests_and_leaders()

    handovers = leaders.handovers(began)
    print(f"\n{len(pods)} pods: {handovers}")
    assert {each.was_given for each in handovers} == {True, False}
    assert max(each.to_lease for each in handovers) <= MOST_SECONDS
    assert [each.message for each in leaders.strays] == []
    # A create whose client has ended before the answer is not logged as 201, though the pod is there.
    created = audit.pods_created(requests, NAMESPACE)
    assert created.keys() <= set(pods)
    assert set(created.values()) == {1}
    assert len(created) > len(pods) * 0.9
    assert {each["metadata"]["name"]: each["metadata"]["uid"] for each in items(plane, "pods")} == uids
    for job in items(plane, "genericjobs.batch.tensorstack.dev,mpijobs.batch.tensorstack.dev"):
        check(job, uids)


def made(crew: Controllers) -> set[str]:
    return set(audit.pods_created(crew.requests_and_leaders()[0], NAMESPACE))


def check(job: Object, uids: dict[str, str]) -> None:
    """Nothing is missing from its status, and nothing was counted that did not happen."""
    replicas = [replica for task in job["status"]["tasks"] for replica in task["replicas"]]
    assert {each["name"]: each["uid"] for each in replicas} == {
        name: uids[name] for name in pod_names({"kind": job["kind"], "metadata": job["metadata"]})
    }
    assert {task["restartCount"] for task in job["status"]["tasks"]} == {0}
    assert "disruptions" not in job["status"]
    assert job["status"]["observedGeneration"] == job["metadata"]["generation"]
