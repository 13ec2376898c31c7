"""The files, keys and command lines of a plan, put into pods as they are, run real MPI jobs."""

import base64
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pytest

from bireme.control.keys import generate_keys
from bireme.planning import Observed, Settings, plan
from bireme.planning.actions import Create, CreatePod
from bireme.planning.observed import Profile
from bireme.testing.builders import mpi_job, template
from scripts.jobs import Job, MakeJob
from scripts.mpi import ARGUMENTS, RANK, Rank, mpirun
from scripts.pods import UNKNOWN_UID, Container, Pod

# Where a test may mount things; a cluster has other places, by the same field.
PROFILE: Final = Profile("cluster", files="/mnt/bireme", keys="/mnt/keys", ssh="/mnt/ssh")
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


def render(version: str, command: list[str], workers: int) -> list[dict[str, Any]]:
    """What a plan creates for an MPIJob with this command."""
    container = {"name": "mpi-worker", "image": "registry.example/x:1", "workingDir": "/mnt/work"}
    worker = {"cmd": command, "extraMPIArgs": ["-bind-to", "none"], "template": template(container)}
    job = mpi_job(workers, worker=worker)
    program = mpirun(version)
    job = msgspec.structs.replace(
        job, spec=msgspec.structs.replace(job.spec, mpi_home=program.removesuffix("/bin/mpirun"))
    )
    observed = Observed(job, keys=generate_keys(), settings=Settings(profile=PROFILE))
    return [action.object for action in plan(observed, NOW).actions if isinstance(action, Create | CreatePod)]


def give(job: Job, objects: list[dict[str, Any]]) -> None:
    """Mount ConfigMap and Secret, each pod its own keys."""
    (config,) = [obj for obj in objects if obj["kind"] == "ConfigMap"]
    (secret,) = [obj for obj in objects if obj["kind"] == "Secret"]
    pods = {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == "Pod"}
    for pod in job.pods:
        _empty(pod, "bireme")
        for name, text in config["data"].items():
            (pod.volume("bireme") / name).write_text(text)
        _empty(pod, "keys")
        volumes = {volume["name"]: volume for volume in pods[pod.name]["spec"]["volumes"]}
        for item in volumes["bireme-keys"]["secret"]["items"]:
            file = pod.volume("keys") / item["path"]
            file.write_bytes(base64.b64decode(secret["data"][item["key"]]))
            file.chmod(0o444)


def _empty(pod: Pod, volume: str) -> None:
    for file in pod.volume(volume).iterdir():
        file.unlink()


def start(job: Job, objects: list[dict[str, Any]]) -> Container:
    """Start all pods with their rendered commands, `$$` read as a kubelet reads it."""
    containers = {
        obj["metadata"]["name"]: obj["spec"]["containers"][0] for obj in objects if obj["kind"] == "Pod"
    }
    for worker in job.workers:
        assert containers[worker.name]["command"] == ["/bin/sh", "/mnt/bireme/worker"]
    job.start_workers({"PLAIN": "of the worker"})
    launcher = containers[job.launcher.name]
    words = [word.replace("$$", "$") for word in (*launcher["command"], *launcher["args"])]
    assert words[:2] == ["/bin/sh", "/mnt/bireme/launch"]
    return job.launch(*words[2:])


@pytest.mark.parametrize(("version", "uid"), [("4.1", UNKNOWN_UID), ("5.0", 0)])
def test_a_rendered_job_runs_and_its_arguments_arrive(make_job: MakeJob, version: str, uid: int) -> None:
    job = make_job("dash", uid)
    objects = render(version, ["/bin/sh", "-c", RANK, "rank", *ARGUMENTS], len(job.workers))
    give(job, objects)
    start(job, objects).ok()
    for number, worker in enumerate(job.workers):
        rank = Rank(job, number)
        assert rank.arguments == list(ARGUMENTS)
        assert rank.facts[:3] == [worker.name, "/mnt/work", str(uid)]
        assert rank.environment["PLAIN"] == "of the worker"


def test_another_jobs_key_opens_nothing(make_job: MakeJob) -> None:
    job = make_job()
    objects, others = (render("4.1", ["true"], len(job.workers)) for _ in range(2))
    give(job, objects)
    (secret,) = [obj for obj in others if obj["kind"] == "Secret"]
    file = job.launcher.volume("keys") / "id_ed25519"
    file.unlink()
    file.write_bytes(base64.b64decode(secret["data"]["id_ed25519"]))
    file.chmod(0o444)
    job.start_workers()
    for worker in job.workers:
        worker.wait_listening()
    launcher = job.launch("true", env={"BIREME_REFUSED_SECONDS": "1", "BIREME_REACH_SECONDS": "3"})
    assert launcher.wait() == 120
    assert "key refused" in launcher.stderr
