"""The lead changes hands amid twenty running jobs: they go on, and nothing is lost or done twice."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from support import audit
from support.cluster import Cluster
from support.fixtures import unavailable
from support.installed import ACCOUNTS, EVERYTHING, LEASE, NAMESPACE, Installation
from support.manifests import Manifest, generic_job, mpi_job
from support.stage import Object, Stage
from support.stage import stage as new_stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

JOBS: Final = 20
MOST_SECONDS: Final = 20
"""From the last write of one leader to the first of the next."""
ROUNDING: Final = timedelta(seconds=1)
UNTIL_TOLD: Final = "busybox mkfifo /tmp/go && read told </tmp/go"
RANKS_UNTIL_TOLD: Final = "os.mkfifo('/tmp/go')\nopen('/tmp/go').read()\n"


class Crew:
    """Twenty jobs that run until they are told to end; their pods stay."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._left = [self._build(f"job-{index}", index % 5 == 0) for index in range(JOBS)]

    def _build(self, name: str, is_mpi: bool) -> Manifest:
        if is_mpi:
            return mpi_job(name, self.stage.image("mpi4"), RANKS_UNTIL_TOLD, workers=1, clean_up="none")
        scripts = {"worker": UNTIL_TOLD, "other": UNTIL_TOLD}
        return generic_job(name, self.stage.image("busybox"), scripts)

    def start(self) -> None:
        for job in self._left:
            self.stage.create(job)
        for job in self._left:
            self.stage.wait_phase(job, "Running", seconds=600)

    def end_some(self, count: int) -> list[Manifest]:
        """Tell some of them to end, and return these."""
        told, self._left = self._left[:count], self._left[count:]
        for job in told:
            name = job["metadata"]["name"]
            ending = ("worker-0",) if job["kind"] == "MPIJob" else ("worker-0", "other-0")
            for replica in ending:
                # It may end before kubectl has heard of it.
                self.stage.try_kubectl("exec", f"{name}-{replica}", "--", "sh", "-c", "echo go >/tmp/go")
        return told

    def pods(self) -> dict[str, str]:
        return {each["metadata"]["name"]: each["metadata"]["uid"] for each in self.stage.items("pods")}

    def statuses(self) -> dict[str, Object]:
        """Of those who have not been told to end."""
        items = [*self.stage.items("genericjobs.batch.tensorstack.dev")]
        items += self.stage.items("mpijobs.batch.tensorstack.dev")
        left = {job["metadata"]["name"] for job in self._left}
        return {
            item["metadata"]["name"]: item["status"] for item in items if item["metadata"]["name"] in left
        }


@pytest.fixture(scope="module")
def installation(cluster: Cluster, controller: str) -> Installation:
    if controller != "chart" or cluster.node is None:
        raise unavailable("needs the chart's controller, and the API server's audit log")
    image = cluster.image_name("controller")
    assert image is not None
    return Installation(cluster, image)


@pytest.fixture(scope="module")
def crew(cluster: Cluster, installation: Installation) -> Iterator[Crew]:
    with new_stage(cluster, "handover") as stage:
        new = Crew(stage)
        new.start()
        yield new


def restart(installation: Installation) -> None:
    installation.kubectl("rollout", "restart", "deployment/bireme-controller")
    installation.kubectl("rollout", "status", "deployment/bireme-controller", "--timeout=15m")


def upgrade(installation: Installation) -> None:
    installation.upgrade(*EVERYTHING, "controller.logFormat=text")


def delete_leader(installation: Installation) -> None:
    installation.kubectl("delete", "pod", installation.leader())


def kill_leader(installation: Installation) -> None:
    """As the kernel does it where there is no memory left: nothing is given back."""
    uid = installation.kubectl("get", "pod", installation.leader(), "-o", "jsonpath={.metadata.uid}")
    os.kill(process_in(uid), signal.SIGKILL)


def process_in(pod_uid: str) -> int:
    """The controller's process in a pod of our own node, by the name of its control group."""
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            is_there = pod_uid in path.read_text()
            words = path.with_name("cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if is_there and b"controller" in words:
            return int(path.parent.name)
    raise AssertionError(f"no controller runs in the pod {pod_uid}")


HANDS = {
    "a rollout": restart,
    "an upgrade by helm": upgrade,
    "a deletion": delete_leader,
    "a sudden death": kill_leader,
}


@pytest.mark.parametrize("hand_over", HANDS.values(), ids=[name.replace(" ", "-") for name in HANDS])
def test_a_new_leader_goes_on_where_the_old_one_stopped(
    installation: Installation, crew: Crew, hand_over: Callable[[Installation], None]
) -> None:
    pods, before, since = crew.pods(), crew.statuses(), datetime.now(UTC)
    with ThreadPoolExecutor(1) as beside:
        handing = beside.submit(hand_over, installation)
        if hand_over is kill_leader:
            handing.result()
        ended = crew.end_some(JOBS // len(HANDS))
        handing.result()
    statuses = [crew.stage.wait_phase(job, "Succeeded") for job in ended]
    found = leaders(crew.stage.cluster)
    handovers = found.handovers(since)
    print(f"\n{hand_over.__name__}: {handovers}")
    assert [each.was_given for each in handovers] == [hand_over is not kill_leader] * len(handovers)
    assert handovers
    assert max(each.to_lease for each in handovers) <= MOST_SECONDS
    if hand_over is kill_leader:
        assert handovers[0].to_work is not None
        assert handovers[0].to_work <= MOST_SECONDS
    assert [each.message for each in found.strays if each.at >= since] == []
    for status in statuses:
        check_ended(status, pods)
    assert crew.pods() == pods
    after = crew.statuses()
    assert after == {name: status for name, status in before.items() if name in after}
    created = audit.pods_created(audit.read(log(crew.stage.cluster), ACCOUNTS), crew.stage.namespace)
    assert created == dict.fromkeys(pods, 1)


def log(cluster: Cluster) -> Path:
    assert cluster.node is not None
    return cluster.node.audit_log


def leaders(cluster: Cluster) -> audit.Leaders:
    return audit.read_leaders(audit.read(log(cluster), ACCOUNTS[:1]), LEASE)


def check_ended(status: dict[str, Any], pods: dict[str, str]) -> None:
    """Every replica is told of, as the very pod that it was, and the end was noticed soon."""
    replicas = [replica for task in status["tasks"] for replica in task["replicas"]]
    assert {each["name"]: each["uid"] for each in replicas}.items() <= pods.items()
    assert [task["restartCount"] for task in status["tasks"]] == [0, 0]
    assert "disruptions" not in status
    last = max(moment(each["finishedAt"]) for each in replicas if "finishedAt" in each)
    assert moment(status["completionTime"]) - last <= timedelta(seconds=MOST_SECONDS) + ROUNDING


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@contextmanager
def asked_all_the_time(stage: Stage) -> Iterator[list[str]]:
    """Ask whether a bad job would be taken, again and again; lists what was said but that it is refused."""
    job = mpi_job("bad", "image", workers=2)
    job["spec"]["worker"]["extraMPIArgs"] = ["--host", "elsewhere"]
    others: list[str] = []
    done = threading.Event()

    def ask() -> None:
        while not done.wait(0.3):
            result = stage.try_kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(job))
            if "spec.worker.extraMPIArgs[0]" not in result.stderr:
                others.append(f"{datetime.now(UTC)} {result}")

    with ThreadPoolExecutor(1) as beside:
        asking = beside.submit(ask)
        try:
            yield others
        finally:
            done.set()
            asking.result()


def test_webhooks_are_served_while_every_pod_is_replaced(installation: Installation, stage: Stage) -> None:
    """Whoever did not get an answer would take the bad job: their failure policy is Ignore."""
    with asked_all_the_time(stage) as others:
        for name in ("bireme-controller", "bireme-webhooks"):
            installation.kubectl("rollout", "restart", f"deployment/{name}")
            installation.kubectl("rollout", "status", f"deployment/{name}", "--timeout=15m")
    assert others == [], installation.kubectl("get", "events", "-n", NAMESPACE)
