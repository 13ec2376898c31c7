"""No command imports a module from the directory in which it is called.

The directory is a stranger's: an unpacked archive, a shared folder. It has a module of every name that the
standard library, Bireme and its dependencies have. Each writes its name into a file when it is imported.
"""

import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from support.commands import Bireme

pytestmark = pytest.mark.xdist_group("commands")

TRAP = "with open({log!r}, 'a') as file: file.write(__name__ + ' ')\n"
JOB = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: small}
spec:
  replicaSpecs:
    - type: worker
      template: {spec: {containers: [{name: main, image: none, command: [echo, hello]}]}}
"""
TORCHRUN = "#!/bin/sh\necho torchrun $*\n"


class Trapped(Bireme):
    """Commands that are called in a directory full of traps."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._log = folder / "imported"
        for name in {*sys.stdlib_module_names, *packages_distributions(), "sitecustomize", "usercustomize"}:
            (self.work / f"{name}.py").write_text(TRAP.format(log=str(self._log)))
        (self.work / "job.yaml").write_text(JOB)

    def imported(self) -> list[str]:
        return self._log.read_text().split() if self._log.exists() else []


@pytest.fixture
def trapped(tmp_path: Path) -> Iterator[Trapped]:
    commands = Trapped(tmp_path)
    yield commands
    commands.down()


def test_the_traps_catch_a_python_that_is_started_carelessly(trapped: Trapped) -> None:
    trapped.sh("python3 -c 'import msgspec, secrets'")
    assert {"msgspec", "secrets"} <= set(trapped.imported())


@pytest.mark.parametrize(
    "command",
    [
        ["up"],
        ["get", "pods"],
        ["run", "-f", "job.yaml"],
        ["run", "--mpi", "2", "--", "echo", "hello"],
        ["mpirun", "-n", "2", "echo", "hello"],
        ["demo"],
    ],
    ids=" ".join,
)
def test_a_command_that_starts_a_daemon_imports_nothing_from_the_current_directory(
    trapped: Trapped, command: list[str]
) -> None:
    trapped(*command)
    assert trapped.imported() == []


def test_other_commands_import_nothing_from_the_current_directory(trapped: Trapped) -> None:
    trapped("run", "-d", "--name", "long", "--replicas", "1", "--", "sleep", "1000")
    trapped("wait", "long", "--for", "running", "--timeout", "3m")
    for command in (
        ["apply", "-f", "job.yaml"],
        ["queue"],
        ["validate", "job.yaml"],
        ["render", "-f", "job.yaml"],
        ["status"],
        ["logs", "long"],
        ["pause", "long"],
        ["resume", "long"],
        ["delete", "long", "--now"],
    ):
        trapped(*command)
        assert trapped.imported() == [], command


def test_torchrun_imports_nothing_from_the_current_directory(trapped: Trapped, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "torchrun").write_text(TORCHRUN)
    (programs / "torchrun").chmod(0o755)
    path = f"{programs}:{trapped.environment()['PATH']}"
    trapped("torchrun", "--nproc-per-node", "2", "train.py", PATH=path)
    assert trapped.imported() == []


def test_the_api_server_imports_nothing_from_the_current_directory(trapped: Trapped) -> None:
    server = trapped.start("apiserver")
    assert server.stderr is not None
    lines = [server.stderr.readline(), server.stderr.readline()]
    server.terminate()
    server.communicate()
    assert "KUBECONFIG=" in lines[1], lines
    assert trapped.imported() == []


def test_pythonpath_means_to_the_daemon_what_it_means_to_python(trapped: Trapped, tmp_path: Path) -> None:
    """A folder on it counts, and an empty value is none."""
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "sitecustomize.py").write_text(TRAP.format(log=str(tmp_path / "extra-imported")))
    trapped("up", PYTHONPATH="")
    assert trapped.imported() == []
    trapped.down()
    trapped("up", PYTHONPATH=str(extra))
    assert (tmp_path / "extra-imported").read_text().split() == ["sitecustomize"] * 2
    assert trapped.imported() == []
