"""What a user is told below the end of a job that failed on this machine."""

from pathlib import Path
from typing import Any

import pytest

from bireme.cli.failure_hints import explain_mpirun, explain_quotes
from bireme.cli.remedies import find_remedy


def failed(message: str = "", **more: Any) -> dict[str, Any]:
    spec = {"worker": {"cmd": ["./a.out"]}}
    return {"spec": spec, "status": {"phase": "Failed", "firstFailure": {"message": message, **more}}}


def mpirun(folder: Path, says: str) -> str:
    program = folder / "mpirun"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("mpirun (Open MPI) 5.0.11", ""),
        ("HYDRA build details:", "is that of MPICH, and Bireme runs Open MPI"),
        ("Intel(R) MPI Library for Linux* OS", "is that of Intel MPI, and"),
        ("Frobnicator 3", "is that of Frobnicator 3, and"),
    ],
    ids=["Open MPI", "MPICH", "Intel", "another"],
)
def test_the_mpirun_of_another_mpi_is_named(tmp_path: Path, says: str, told: str) -> None:
    hints = list(explain_mpirun(failed(), mpirun(tmp_path, says)))
    assert [f"hint: {tmp_path}/mpirun {told}" in hint for hint in hints] == ([True] if told else [])


def test_a_machine_without_mpirun_is_told_how_to_get_one(tmp_path: Path) -> None:
    [hint] = explain_mpirun(failed("the program mpirun is not there"), str(tmp_path))
    assert hint.startswith("hint: there is no mpirun on this machine: install Open MPI")
    assert "apt-get install openmpi-bin" in hint


def test_mpirun_is_looked_for_on_the_path_of_the_job(tmp_path: Path) -> None:
    job = {**failed(), "metadata": {"annotations": {"bireme.dev/path": str(tmp_path)}}}
    [hint] = explain_mpirun(job, mpirun(tmp_path / "..", "mpirun (Open MPI) 5.0.11"))
    assert hint.startswith("hint: there is no mpirun on this machine")


def test_a_rank_that_failed_is_not_mpiruns_fault(tmp_path: Path) -> None:
    assert list(explain_mpirun(failed(rank=1), str(tmp_path))) == []
    assert list(explain_mpirun({"spec": {"replicaSpecs": []}, "status": {"phase": "Failed"}}, "")) == []
    assert list(explain_mpirun({**failed(), "status": {"phase": "Succeeded"}}, str(tmp_path))) == []


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ("can't run echo hi there: No such file or directory", "echo hi there"),
        ("prterun was unable to find it:\n\n   Executable: sh -c true\n", "sh -c true"),
        ("can't run echo hi there: not found on PATH", "echo hi there"),
        ("can't run ./no such program: No such file or directory", ""),
        ("can't run nothing: No such file or directory", ""),
    ],
    ids=["quoted", "quoted for mpirun", "quoted for a rank", "no such program", "one word"],
)
def test_a_command_in_quotes_gets_a_hint(message: str, command: str) -> None:
    hints = list(explain_quotes(failed(message)))
    assert [hint.endswith(f"leave out the quotes: -- {command}") for hint in hints] == [True] * bool(command)


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("main waits: ConfigMap data is not there", "create ConfigMap data (`bireme apply -f FILE`)"),
        ('waits: CreateContainerConfigError: secret "keys" not found', "create Secret keys (`"),
        ("ConfigMap data has no key word", "add the key word to ConfigMap data"),
        (
            "1 Insufficient nvidia.com/gpu. This machine has 0 nvidia.com/gpu: the pod can't start here.",
            "remove nvidia.com/gpu from the resources",
        ),
        ("main waits: ImagePullBackOff", ""),
    ],
    ids=["ConfigMap", "Secret", "key", "GPU", "other"],
)
def test_a_replica_that_waits_gets_a_remedy(reason: str, remedy: str) -> None:
    found = find_remedy(reason)
    assert found.startswith(remedy)
    assert bool(found) == bool(remedy)
