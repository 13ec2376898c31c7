"""Frameworks on top of MPI or beside it: dask-mpi, torchrun, a parameter server, a sweep."""

import json
import re
import shlex
import sys
from typing import Any

import pytest

from support.ports import free_port
from support.real import (
    OVERSUBSCRIBED_TIME_LIMIT,
    PROGRAMS,
    Lab,
    Layout,
    OpenMPI,
    Program,
    Run,
    framework_mpi,
    need,
    wall_time,
)

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("real")]

NO_MPI = OpenMPI("–", "/usr/bin:/bin")
PYTHON = sys.executable
TRAINERS = 3
SWEEP = 6


def matches(pattern: str, run: Run) -> list[str]:
    return sorted(re.findall(pattern, run.output))


@pytest.mark.parametrize("layout", [Layout(2, 2), Layout(1, 4)], ids=str)
def test_dask_mpi_computes_with_two_workers(lab: Lab, layout: Layout) -> None:
    mpi = framework_mpi()
    words = [mpi.python, str(PROGRAMS / "dask_sum.py")]
    read = wall_time(lambda run: matches(r"workers \d+ total \d+", run))
    lab.compare(Program("dask-mpi", words, read, most_seconds=120), mpi, layout, {}, rounds=1)


def job(kind: str, name: str, spec: dict[str, Any]) -> str:
    """Return a manifest; JSON is YAML, too."""
    head = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": kind, "metadata": {"name": name}}
    return json.dumps(head | {"spec": spec})


def test_torchrun_trains_the_same_weights(lab: Lab) -> None:
    torchrun, layout = need("torchrun", "python3-torch"), Layout(2, 2)
    # Debian's torchrun 1.13 fails with Python 3.11 without these two.
    arguments = ["--redirects", "1", "--tee", "1"]
    script = str(PROGRAMS / "train.py")
    worker = {
        "replicas": layout.workers,
        "procPerWorker": layout.slots,
        "torchArgs": arguments,
        "command": [script],
        "template": {"spec": {"containers": [{"name": "worker", "image": "none"}]}},
    }
    manifest = job("ColossalAIJob", "train", {"worker": worker, "runPolicy": {"cleanUpWorkers": True}})
    read = wall_time(lambda run: matches(r"rank \d of \d: weights [\d. ]+\d", run))
    program = Program("torchrun", [], read, files={"job.yaml": manifest}, most_seconds=120)
    processes = ["--nnodes", "1", "--nproc_per_node", str(layout.ranks)]
    bare = [torchrun, "--standalone", *processes, *arguments, script]
    lab.compare_commands(program, NO_MPI, layout, bare, ["run", "-f", "job.yaml"], {}, rounds=1)


def test_parameter_server_converges_to_the_same_weights(lab: Lab) -> None:
    command = [PYTHON, str(PROGRAMS / "parameter_server.py")]
    server = [*command, "server", "$(service.port[parameters])", str(TRAINERS)]
    worker = [*command, "worker", "$(service.server[0].host)", "$(service.port[parameters])", "$(rank)"]
    spec = {
        "service": {"ports": [{"name": "parameters", "port": 7000}]},
        "replicaSpecs": [replica("server", 1, server), replica("worker", TRAINERS, worker)],
    }
    read = wall_time(lambda run: matches(r"weights [\d. e-]+", run))
    manifest = job("GenericJob", "parameters", spec)
    program = Program("parameter server", [], read, files={"job.yaml": manifest}, most_seconds=60)
    port = free_port()
    clients = [[*command, "worker", "localhost", str(port), str(rank)] for rank in range(TRAINERS)]
    bare = at_once([*command, "server", str(port), str(TRAINERS)], *clients)
    lab.compare_commands(
        program, NO_MPI, Layout(TRAINERS + 1, 1), bare, ["run", "-f", "job.yaml"], {}, rounds=1
    )


def replica(kind: str, replicas: int, command: list[str]) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "command": command}
    return {"type": kind, "replicas": replicas, "template": {"spec": {"containers": [container]}}}


def at_once(*commands: list[str]) -> list[str]:
    """Return a shell's command that runs several in the background, and waits for all."""
    return ["sh", "-c", " & ".join(map(shlex.join, commands)) + " & wait"]


def sweep_results(run: Run) -> list[str]:
    return [file.read_text() for file in sorted(run.folder.glob("fit-*.json"))]


def test_sweep_takes_as_long_as_processes_of_a_shell(lab: Lab) -> None:
    command = [PYTHON, str(PROGRAMS / "fit.py")]
    program = Program("sweep of replicas", [], wall_time(sweep_results), most_seconds=120)
    bare = at_once(*([*command, str(rank)] for rank in range(SWEEP)))
    words = ["run", "--replicas", str(SWEEP), "--", *command, "$(rank)"]
    limits = {"": OVERSUBSCRIBED_TIME_LIMIT}
    lab.compare_commands(program, NO_MPI, Layout(SWEEP, 1), bare, words, limits)
