"""A program gets from its caller what it gets under bare mpirun: input, directory, environment, limits.

The table in docs/guides/run.md is written by `make golden`.
"""

import json
import os
import re
import resource
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from support.commands import BIREME, Bireme
from support.fixtures import unavailable
from support.mpi_rounds import find
from support.terminals import PATIENCE_SECONDS

pytestmark = pytest.mark.xdist_group("here")

GUIDE: Final = Path(__file__).parents[2] / "docs/guides/run.md"
BEGIN: Final = "<!-- what a program gets from its caller; written by `make golden` -->\n"
END: Final = "<!-- end -->\n"
VARIABLES: Final = {
    "OMP_NUM_THREADS": "3",
    "OMPI_MCA_btl_base_warn_component_unused": "0",
    "UCX_LOG_LEVEL": "error",
    "NCCL_DEBUG": "INFO",
    "CUDA_HOME": "/opt/cuda",
    "HF_HOME": "/data/hf",
    "https_proxy": "http://proxy:3128",
    "PYTHONUNBUFFERED": "1",
}
OTHER: Final = "DATA_DIR"
PROBE: Final = """
import json, os, resource, sys
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
umask = os.umask(0)
facts = {
    "stdin": sys.stdin.read(),
    "directory": os.getcwd(),
    "umask": umask,
    "limits": [resource.getrlimit(getattr(resource, name)) for name in ("RLIMIT_NOFILE", "RLIMIT_STACK")],
    "environment": dict(os.environ),
}
if rank == 0:
    print("facts", json.dumps(facts), flush=True)
else:
    assert facts["stdin"] == "", facts
"""


def limit() -> None:
    """What a caller's shell has set before."""
    os.umask(0o027)
    resource.setrlimit(resource.RLIMIT_NOFILE, (333, 444))
    resource.setrlimit(resource.RLIMIT_STACK, (4 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))


class Caller:
    """Runs the probe as a user would, and reads what it found."""

    def __init__(self, bireme: Bireme, version: str) -> None:
        library = find(version)
        if library is None:
            raise unavailable("no Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
        self._bireme, self._path = bireme, library.path

    def run(self, *command: str, stdin: str) -> dict[str, Any]:
        own = VARIABLES | {OTHER: "/data", "PATH": self._path, "OMPI_ALLOW_RUN_AS_ROOT": "1"}
        result = subprocess.run(
            [*command, "-n", "2", "/usr/bin/python3", "-c", PROBE],
            cwd=self._bireme.work,
            env=self._bireme.environment(**own, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"),
            input=stdin,
            capture_output=True,
            text=True,
            preexec_fn=limit,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        line = next(line for line in result.stdout.splitlines() if "facts {" in line)
        facts: dict[str, Any] = json.loads(line.partition("facts ")[2])
        return facts


def rows(facts: Mapping[str, Any], stdin: str, directory: Path) -> dict[str, bool]:
    """Whether each thing of the caller's has reached the program."""
    environment = facts["environment"]
    soft = [each[0] for each in facts["limits"]]
    return {
        "standard input of rank 0, with its end": facts["stdin"] == stdin,
        "working directory": facts["directory"] == str(directory),
        "umask": facts["umask"] == 0o027,
        "`ulimit -n`, hard and soft": facts["limits"][0] == [333, 444],
        "`ulimit -s`": soft[1] == 4 << 20,
        **{f"`{name}`": environment.get(name) == value for name, value in VARIABLES.items()},
        "any other variable": OTHER in environment,
    }


def table(columns: Mapping[str, Mapping[str, bool]]) -> str:
    names = list(next(iter(columns.values())))
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name in names:
        cells = ("yes" if column[name] else "no" for column in columns.values())
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_a_program_gets_what_it_gets_under_mpirun(bireme: Bireme) -> None:
    caller, stdin = Caller(bireme, "4.1"), "first\nsecond\n"
    commands = {
        "`mpirun` 4.1": ("/usr/bin/mpirun", "--oversubscribe"),
        "`bireme mpirun`": (str(BIREME), "mpirun"),
        "`--env-all`": (str(BIREME), "mpirun", "--env-all"),
        "`--env-none`": (str(BIREME), "mpirun", "--env-none"),
    }
    columns = {
        title: rows(caller.run(*command, stdin=stdin), stdin, bireme.work)
        for title, command in commands.items()
    }
    assert all(columns["`mpirun` 4.1"].values())
    assert columns["`--env-all`"] == columns["`mpirun` 4.1"]
    text = GUIDE.read_text()
    expected = BEGIN + table(columns) + END
    found = re.search(re.escape(BEGIN) + ".*?" + re.escape(END), text, re.DOTALL)
    assert found is not None, "docs/guides/run.md has no such table"
    if os.environ.get("BIREME_GOLDEN") == "update":
        GUIDE.write_text(text.replace(found[0], expected))
        return
    assert found[0] == expected


def test_open_mpi_5_gives_a_program_the_same(bireme: Bireme) -> None:
    stdin = "first\nsecond\n"
    facts = [Caller(bireme, version).run(str(BIREME), "mpirun", stdin=stdin) for version in ("4.1", "5.0")]
    assert rows(facts[0], stdin, bireme.work) == rows(facts[1], stdin, bireme.work)


# ---- standard input


@pytest.mark.parametrize("version", ["4.1", "5.0"])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_rank_0_reads_a_large_file_to_its_end(bireme: Bireme, version: str, workers: str) -> None:
    library = find(version)
    if library is None:
        raise unavailable("no Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
    count = "printf '%s %s\\n' $OMPI_COMM_WORLD_RANK $(wc -c)"
    data = "x" * 3_000_000
    result = bireme("run", "--mpi", workers, "--", "sh", "-c", count, input=data, PATH=library.path)
    lines = [line.partition("| ")[2] for line in result.stdout.splitlines() if "bireme:" not in line]
    ranks = [f"{rank} {len(data) if rank == 0 else 0}" for rank in range(int(workers))]
    assert sorted(line for line in lines if "setpgid" not in line) == ranks


def test_a_replica_reads_standard_input_where_that_is_asked_for(bireme: Bireme) -> None:
    result = bireme("run", "--replicas", "1", "--stdin", "--", "wc", "-l", input="a\nb\n")
    assert result.stdout == "worker-0 | 2\n"
    result = bireme("run", "--replicas", "1", "--", "wc", "-l", input="a\nb\n")
    assert result.stdout == "worker-0 | 0\n"
    assert "note: standard input is not passed on to the job; --stdin passes it on" in result.stderr


def test_a_manifest_of_an_mpi_job_can_read_standard_input(bireme: Bireme) -> None:
    (bireme.work / "sum.yaml").write_text(
        json.dumps(
            {
                "apiVersion": "batch.tensorstack.dev/v1beta1",
                "kind": "MPIJob",
                "metadata": {"name": "reads"},
                "spec": {
                    "worker": {
                        "cmd": ["wc", "-l"],
                        "template": {"spec": {"containers": [{"name": "mpi-worker", "image": "none"}]}},
                    },
                    "runPolicy": {"cleanUpWorkers": "all"},
                },
            }
        )
    )
    result = bireme("run", "-f", "sum.yaml", "--stdin", input="a\nb\n")
    assert "launcher | 2\n" in result.stdout


def test_a_terminal_is_read_by_rank_0_of_mpirun(bireme: Bireme) -> None:
    with bireme.on_terminal("mpirun", "-n", "1", "sh", "-c", "read line; echo got $line") as terminal:
        terminal.expect("the worker is reachable")
        terminal.type("something\n")
        terminal.expect("got something")
        assert terminal.end() == 0


def start_reading(bireme: Bireme, *words: str) -> "subprocess.Popen[bytes]":
    """Start a job that copies standard input, and wait until it has copied a line."""
    process = subprocess.Popen(
        [str(BIREME), *words, "cat"],
        cwd=bireme.work,
        env=bireme.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"first\n")
    process.stdin.flush()
    while b"first" not in process.stdout.readline():
        pass
    return process


def test_a_job_with_lost_standard_input_fails(bireme: Bireme) -> None:
    """A launcher that is deleted and comes again could not read what the first one has read."""
    process = start_reading(bireme, "mpirun", "--name", "loses", "-n", "1")
    bireme("delete", "pod/loses-launcher", "--now")
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert b"can't be read again" in said or b"can't be read twice" in said


@pytest.mark.parametrize(
    "words", [("mpirun", "-n", "1"), ("run", "--replicas", "1", "--stdin", "--")], ids=["rank", "replica"]
)
def test_a_client_that_is_killed_amid_its_input_fails_the_job(bireme: Bireme, words: tuple[str, ...]) -> None:
    process = start_reading(bireme, words[0], "--name", "cut", *words[1:])
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)
    bireme("wait", "cut", "--for", "failed")
    kind = "mpijob/cut" if words[0] == "mpirun" else "genericjob/cut"
    assert "the client that sent standard input is gone" in bireme("get", "-o", "yaml", kind).stdout
    bireme("delete", kind)


def test_a_reader_that_leaves_amid_the_input_stops_the_job(bireme: Bireme) -> None:
    process = start_reading(bireme, "mpirun", "--name", "head", "-n", "1")
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.write(b"second\n")
    process.stdin.flush()
    assert b"still reads standard input" in process.stderr.read()
    process.wait(PATIENCE_SECONDS)
    process.stdin.close()
    process.stderr.close()
    assert "head" not in bireme("get", "-o", "name").stdout


def test_standard_input_does_not_depend_on_the_users_tmpdir(bireme: Bireme) -> None:
    result = bireme("mpirun", "--env", "TMPDIR=/var/tmp", "-n", "1", "wc", "-c", input="text")
    assert "launcher | 4\n" in result.stdout


def test_options_in_a_manifests_command_come_before_the_reader(bireme: Bireme) -> None:
    result = bireme("run", "--mpi", "1", "--", "--bind-to", "none", "wc", "-c", input="text")
    assert "launcher | 4\n" in result.stdout


# ---- environment


def test_a_low_limit_of_descriptors_lets_a_program_start(bireme: Bireme) -> None:
    result = bireme.sh(f"ulimit -n 64; {BIREME} run --replicas 1 -- sh -c 'ulimit -n' </dev/null")
    assert result.stdout == "worker-0 | 64\n"


def test_dollars_in_a_variable_arrive_as_they_are(bireme: Bireme) -> None:
    script = 'printf "%s\\n" "$V"'
    result = bireme("run", "-e", "V=a$$b$(X)$c", "--replicas", "1", "--", "sh", "-c", script)
    assert result.stdout == "worker-0 | a$$b$(X)$c\n"


def test_a_variable_that_a_job_does_not_get_is_explained(bireme: Bireme) -> None:
    words = ("run", "--replicas", "1", "--", "dash", "-u", "-c", "echo $DATA_DIR")
    result = bireme(*words, code=2, DATA_DIR="/data")
    assert "hint: DATA_DIR is set here, but the job does not get it: -e DATA_DIR" in result.stderr
    assert "hint:" not in bireme(*words, code=2).stderr


def test_variables_are_not_in_the_job(bireme: Bireme) -> None:
    bireme("run", "--name", "quiet", "--replicas", "1", "--", "true", HF_TOKEN="a-secret")
    assert "a-secret" not in bireme("get", "-o", "yaml", "genericjob/quiet").stdout


def test_mpirun_exports_what_it_is_told_to(bireme: Bireme) -> None:
    script = "echo data $DATA_DIR"
    result = bireme("mpirun", "-n", "1", "-x", "DATA_DIR", "sh", "-c", script, DATA_DIR="/data")
    assert "launcher | data /data\n" in result.stdout


# ---- torchrun


def test_torchrun_gets_its_own_command_line(bireme: Bireme, tmp_path: Path) -> None:
    torchrun = tmp_path / "torchrun"
    torchrun.write_text("#!/bin/sh\necho torchrun $*\n")
    torchrun.chmod(0o755)
    words = ("torchrun", "--name", "fit", "--standalone", "--nproc-per-node", "2", "--log-dir=logs")
    result = bireme(*words, "train.py", "--name", "own", PATH=f"{tmp_path}:/usr/bin:/bin")
    line = next(line for line in result.stdout.splitlines() if "torchrun --nnodes" in line)
    pattern = r"--nnodes=1 --node_rank=0 --nproc_per_node=2 --master_addr=\S+ --master_port=\d+ "
    assert re.search(pattern + r"--log-dir=logs train\.py --name own$", line), line
    assert "fit: Succeeded" in result.stderr
