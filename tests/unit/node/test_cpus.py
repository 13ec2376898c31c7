"""Which CPUs a worker of a job gets whose ranks are bound to CPUs."""

from pathlib import Path
from typing import Any

import pytest

from bireme.node.cpus import binding_workers, read_cores, share


def write_core(topology: Path, cpu: int, package: int, core: int) -> None:
    folder = topology / f"cpu{cpu}" / "topology"
    folder.mkdir(parents=True)
    (folder / "physical_package_id").write_text(f"{package}\n")
    (folder / "core_id").write_text(f"{core}\n")


def test_hardware_threads_of_one_core_stay_together(tmp_path: Path) -> None:
    for cpu in range(8):
        write_core(tmp_path, cpu, package=cpu % 2, core=cpu // 2 % 2)
    assert read_cores(range(8), tmp_path) == [(0, 4), (2, 6), (1, 5), (3, 7)]


def test_cpus_of_unknown_cores_are_cores_of_their_own(tmp_path: Path) -> None:
    assert read_cores({3, 1}, tmp_path) == [(1,), (3,)]


@pytest.mark.parametrize(
    ("cores", "workers", "shares"),
    [
        ([(0,), (1,)], 2, ["0", "1"]),
        ([(0, 4), (2, 6), (1, 5), (3, 7)], 2, ["0,4,2,6", "1,5,3,7"]),
        ([(0,), (1,), (2,)], 2, ["0", "1,2"]),
        ([(0,)], 2, ["", ""]),
    ],
)
def test_workers_share_all_cores_and_none_twice(
    cores: list[tuple[int, ...]], workers: int, shares: list[str]
) -> None:
    assert [share(cores, index, workers) for index in range(workers)] == shares


def mpi(*arguments: str, **more: Any) -> dict[str, Any]:
    container = {"name": "mpi-worker", "env": more.pop("env", [])}
    worker = {"replicas": 3, "extraMPIArgs": list(arguments), "cmd": more.pop("cmd", ["a.out"])}
    return {"spec": {"worker": worker | {"template": {"spec": {"containers": [container]}}}, **more}}


def kubeflow(*command: str) -> dict[str, Any]:
    launcher = {"template": {"spec": {"containers": [{"command": list(command)}]}}}
    return {"spec": {"mpiReplicaSpecs": {"Launcher": launcher, "Worker": {"replicas": 2}}}}


@pytest.mark.parametrize(
    ("job", "workers"),
    [
        (None, 0),
        (mpi(), 0),
        (mpi("--bind-to", "core"), 3),
        (mpi(cmd=["--bind-to", "core", "a.out"]), 3),
        (mpi(cmd=["a.out", "--bind-to", "core"]), 0),
        (mpi(mca={"hwloc_base_binding_policy": "core"}), 3),
        (mpi(env=[{"name": "OMPI_MCA_hwloc_base_binding_policy", "value": "core"}]), 3),
        (kubeflow("mpirun", "--bind-to", "core", "a.out"), 2),
        (kubeflow("mpirun", "a.out"), 0),
        ({"spec": {"worker": {"command": ["train.py"], "replicas": 2}}}, 0),
    ],
)
def test_only_jobs_that_bind_ranks_have_their_cpus_divided(job: dict[str, Any] | None, workers: int) -> None:
    assert binding_workers(job) == workers
