"""Failures as users meet them: what the end of `bireme run` says, its exit code, and status.firstFailure.

Each case plants one failure in a real program, under the Open MPI 5.0 of our environment and, where that says
something else, the 4.1 of the system. The numbers are those of a list of 37 failures; a row is right if the
end names the cause and the place.

Row 24 has a second half in test_full_disk.py: the disk of the data folder is full.
Two rows name no cause: PARTLY says why. None names a wrong one.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest
import yaml

from bireme.node.cgroups import Limits
from bireme.node.machine import look
from support.commands import BIREME, Bireme, daemon
from support.fixtures import unavailable
from support.here import BIN, PATIENCE_SECONDS, Object
from support.mpi_rounds import STRANGER, find, python_as, python_of

pytestmark = pytest.mark.xdist_group("commands")

PYTHON: Final = f"{BIN}/python3"
MPI: Final = "import os, sys, time\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
PROGRAMS: Final = {
    "missing.py": MPI + "if world.rank == 1:\n    import nosuchmodule\nworld.barrier()\n",
    "crash.py": MPI + "import ctypes\nif world.rank == 1:\n    ctypes.string_at(0)\nworld.barrier()\n",
    "shard.py": MPI
    + "if world.rank == 2:\n    print('rank 2 cannot open its shard', file=sys.stderr, flush=True)\n"
    "    os._exit(3)\nworld.barrier()\n",
    "abort.py": MPI
    + "if world.rank == 1:\n    print('diverged: loss is nan', flush=True)\n    world.Abort(42)\n"
    "world.barrier()\n",
    "killed.py": MPI + "if world.rank == 3:\n    os.kill(os.getpid(), 9)\nworld.barrier()\n",
    "steps.py": MPI + "for step in range(400):\n    world.barrier()\n    os.write(1, b'step %d\\n' % step)\n"
    "    time.sleep(0.1)\n",
    "syntax.py": "import sys\ndef f(:\n    pass\n",
    "nan.py": MPI + "print('loss', float('nan'))\n",
    "input.py": MPI + "if world.rank == 0:\n    print('read', sys.stdin.read().split())\n",
    "hog.py": "import os\nhoard = bytearray(os.urandom(1 << 20)) * 300\n",
    "output.py": "open('/sys/out.txt', 'w')\n",
    "full.py": "with open('/dev/full', 'w') as file:\n    file.write('x')\n",
    "variable.py": "import os\nos.environ['DATA_DIR']\n",
    "port.py": "import socket, sys, time\nlistening = socket.create_server(('', int(sys.argv[1])))\n"
    "time.sleep(60)\n",
}


BARE: Final = ("cat", "chmod", "date", "env", "id", "mkdir", "mkfifo", "rm", "setsid", "sh", "sleep", "sort")
"""Programs of a PATH on which there is no mpirun."""


class Case(NamedTuple):
    """A command, the last lines that it leaves (regular expressions), its exit code and the first failure."""

    args: Sequence[str]
    end: Sequence[str]
    code: int
    first: Object
    spec: Object | None = None
    """The MPIJob's own spec, where it is made of a manifest instead of a command: for Open MPI 4.1."""
    environ: Mapping[str, str] = MappingProxyType({})
    path: str = ""
    """PATH of that job's programs."""


def old(command: Sequence[str], *, workers: int = 2, slots: int = 1, **more: Any) -> Object:
    """The spec of an MPIJob under Open MPI 4.1."""
    library = find("4.1")
    env = [{"name": "MPI4PY_LIBMPI", "value": library.library if library else ""}]
    container = {"name": "mpi-worker", "image": "none", "env": env}
    worker = {
        "replicas": workers,
        "extraMPIArgs": ["-N", str(slots)],
        "cmd": list(command),
        "template": {"spec": {"containers": [container]}},
    }
    return {"mpiHome": "/usr", "runPolicy": {"cleanUpWorkers": "all"}, "worker": worker | more}


def mpi(workers: int, *words: str) -> list[str]:
    return ["--mpi", str(workers), "--", *words]


ANY: Final = "..."
TRACEBACK: Final = r"Traceback \(most recent call last\):"
CASES: Final = {
    "1 program not found": Case(
        ["--replicas", "1", "--", "./nosuchprog"],
        ["first failure: worker-0: exit code 127 (StartError)", "can't run ./nosuchprog: No such file .*"],
        127,
        {"exitCode": 127, "reason": "StartError"},
    ),
    "2 program not found, by mpirun": Case(
        mpi(2, "./nosuchprog"),
        [
            r"first failure: rank \d on worker-\d: exit code 127 (StartError)",
            "can't run ./nosuchprog: No such .*",
        ],
        127,
        {"exitCode": 127, "reason": "StartError"},
    ),
    "2 program not found, by mpirun of 4.1": Case(
        [],
        [
            r"first failure: rank \d on worker-\d: exit code 127 (StartError)",
            "can't run ./nosuchprog: No such .*",
        ],
        127,
        {"exitCode": 127},
        old(["./nosuchprog"]),
    ),
    "4 module missing on one rank, under -m mpi4py": Case(
        mpi(2, PYTHON, "-m", "mpi4py", "missing.py"),
        [
            "first failure: rank 1 on worker-1: exit code 1",
            ANY,
            "    import nosuchmodule",
            "ModuleNotFoundError: No module named 'nosuchmodule'",
        ],
        1,
        {"replica": "{}-worker-1", "rank": 1, "exitCode": 1},
    ),
    "5 segmentation fault": Case(
        mpi(2, PYTHON, "crash.py"),
        ["first failure: rank 1 on worker-1: signal 11 (Segmentation fault)", ANY],
        139,
        {"replica": "{}-worker-1", "rank": 1, "signal": 11},
    ),
    "8 exit code 3 of rank 2 of 8": Case(
        ["--mpi", "4", "--slots", "2", "--", PYTHON, "shard.py"],
        ["first failure: rank 2 on worker-1: exit code 3", "rank 2 cannot open its shard"],
        3,
        {"replica": "{}-worker-1", "rank": 2, "exitCode": 3, "message": "rank 2 cannot open its shard"},
    ),
    "8 exit code 3 of rank 2 of 8, 4.1": Case(
        [],
        ["first failure: rank 2 on worker-1: exit code 3", "rank 2 cannot open its shard"],
        3,
        {"replica": "{}-worker-1", "rank": 2, "exitCode": 3},
        old([PYTHON, "shard.py"], workers=4, slots=2),
    ),
    "9 MPI_Abort": Case(
        mpi(2, PYTHON, "abort.py"),
        ["first failure: rank 1 on worker-1: exit code 42", "diverged: loss is nan"],
        42,
        {"replica": "{}-worker-1", "rank": 1, "exitCode": 42, "message": "diverged: loss is nan"},
    ),
    "9 MPI_Abort, 4.1": Case(
        [],
        ["first failure: rank 1 on worker-1: exit code 42", "diverged: loss is nan"],
        42,
        {"rank": 1, "exitCode": 42},
        old([PYTHON, "abort.py"]),
    ),
    "12 more ranks than slots": Case(
        mpi(2, "-np", "8", PYTHON, "nan.py"),
        [
            r"first failure: launcher: exit code \d+ (NotEnoughSlots)",
            "not enough slots: 8 ranks asked, 2 slots",
        ],
        213,
        {"reason": "NotEnoughSlots", "message": "not enough slots: 8 ranks asked, 2 slots"},
    ),
    "12 more ranks than slots, 4.1": Case(
        [],
        ["first failure: launcher: exit code 1 (NotEnoughSlots)", "not enough slots: 8 ranks asked, 2 slots"],
        1,
        {"reason": "NotEnoughSlots"},
        old([PYTHON, "nan.py"], extraMPIArgs=["-np", "8", "-N", "1"]),
    ),
    "14 output that can't be written": Case(
        ["--replicas", "1", "--", PYTHON, "output.py"],
        [
            "first failure: worker-0: exit code 1",
            TRACEBACK,
            ANY,
            "PermissionError: .*'/sys/out.txt'",
        ],
        1,
        {"exitCode": 1},
    ),
    "17 a variable that is set here, and not passed": Case(
        ["--replicas", "1", "--", PYTHON, "variable.py"],
        [
            "first failure: worker-0: exit code 1",
            TRACEBACK,
            ANY,
            "KeyError: 'DATA_DIR'",
            "hint: DATA_DIR is set here, but the job does not get it: -e DATA_DIR passes it on, .*",
        ],
        1,
        {"exitCode": 1},
        environ={"DATA_DIR": "/data"},
    ),
    "21 an option that mpirun does not know": Case(
        mpi(2, "--nosuchoption=1", PYTHON, "nan.py"),
        [r"first failure: launcher: exit code \d+ (StartError)", "mpirun has no option --nosuchoption.*"],
        213,
        {"reason": "StartError"},
    ),
    "22 mpi4py is missing": Case(
        mpi(2, "/usr/bin/python3", "-S", "nan.py"),
        [
            r"first failure: rank \d on worker-\d: exit code 1",
            TRACEBACK,
            ".*line 2, in <module>",
            "    from mpi4py import MPI",
            "ModuleNotFoundError: No module named 'mpi4py'",
        ],
        1,
        {"exitCode": 1},
    ),
    "23 syntax error": Case(
        mpi(2, PYTHON, "syntax.py"),
        [
            r"first failure: rank \d on worker-\d: exit code 1",
            '  File ".*syntax.py", line 2',
            r"    def f\(:",
            r"          \^",
            "SyntaxError: invalid syntax",
        ],
        1,
        {"exitCode": 1},
    ),
    "23 syntax error, 4.1": Case(
        [],
        [
            r"first failure: rank \d on worker-\d: exit code 1",
            '  File ".*syntax.py", line 2',
            r"    def f\(:",
            r"          \^",
            "SyntaxError: invalid syntax",
        ],
        1,
        {"exitCode": 1},
        old([PYTHON, "syntax.py"]),
    ),
    "24 no space left for the program's own file": Case(
        ["--replicas", "1", "--", PYTHON, "full.py"],
        [
            "first failure: worker-0: exit code 1",
            ANY,
            r"OSError: \[Errno 28\] No space left on device",
        ],
        1,
        {"exitCode": 1},
    ),
    "33 mpirun is missing": Case(
        [],
        [
            "first failure: launcher: exit code 127",
            "the program mpirun is not there .*",
            "hint: there is no mpirun on this machine: install Open MPI .*",
        ],
        127,
        {"exitCode": 127},
        old(["true"]) | {"mpiHome": "/nowhere"},
        path="{work}/bare",
    ),
    "33 mpirun is MPICH's": Case(
        mpi(2, "true"),
        [
            "first failure: launcher: exit code 255",
            "HYDRA build details:",
            "hint: .*/mpich-mpirun/mpirun is that of MPICH, and Bireme runs Open MPI 4.1 or 5: install .*",
        ],
        255,
        {"exitCode": 255},
        environ={"PATH": "{work}/mpich-mpirun:/usr/bin:/bin"},
    ),
    "36 a command in quotes": Case(
        ["--replicas", "1", "--", "echo hi there"],
        [
            "first failure: worker-0: exit code 127 (StartError)",
            "can't run echo hi there: No such file or directory",
            "hint: 'echo hi there' is one word, .*: leave out the quotes: -- echo hi there",
        ],
        127,
        {"exitCode": 127, "reason": "StartError"},
    ),
    "36 a command in quotes, by mpirun": Case(
        mpi(2, "echo hi there"),
        [
            r"first failure: rank \d on worker-\d: exit code 127 (StartError)",
            "can't run echo hi there: .*",
            "hint: 'echo hi there' is one word, .*: leave out the quotes: -- echo hi there",
        ],
        127,
        {"exitCode": 127, "reason": "StartError"},
    ),
    "26 rank killed": Case(
        ["--mpi", "2", "--slots", "2", "--", PYTHON, "killed.py"],
        ["first failure: rank 3 on worker-1: signal 9 (Killed)"],
        137,
        {"replica": "{}-worker-1", "rank": 3, "signal": 9},
    ),
    "26 rank killed, 4.1": Case(
        [],
        ["first failure: rank 3 on worker-1: signal 9 (Killed)"],
        137,
        {"replica": "{}-worker-1", "rank": 3, "signal": 9},
        old([PYTHON, "killed.py"], slots=2),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def work(bireme: Bireme) -> Path:
    for name, text in PROGRAMS.items():
        (bireme.work / name).write_text(text)
    for folder, programs in {"bare": BARE, "mpich-mpirun": ()}.items():
        (bireme.work / folder).mkdir()
        for program in programs:
            (bireme.work / folder / program).symlink_to(f"/usr/bin/{program}")
    mpich = bireme.work / "mpich-mpirun/mpirun"
    mpich.write_text("#!/bin/sh\necho HYDRA build details:\nexit 255\n")
    mpich.chmod(0o755)
    return bireme.work


def name_of(case: str) -> str:
    return "f-" + re.sub(r"[^a-z0-9]+", "-", case.lower())[:30].strip("-")


def manifest(name: str, spec: Object, **annotations: str) -> str:
    api = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "MPIJob"}
    metadata = {"name": name, "annotations": {f"bireme.dev/{key}": annotations[key] for key in annotations}}
    return yaml.safe_dump({**api, "metadata": metadata, "spec": spec})


def generic_manifest(name: str, pod: Object, container: Object, **annotations: str) -> str:
    main = {"name": "main", "image": "none", "command": ["true"], **container}
    replica = {"type": "worker", "template": {"spec": {**pod, "containers": [main]}}}
    job = yaml.safe_load(manifest(name, {"replicaSpecs": [replica]}, **annotations))
    return yaml.safe_dump({**job, "kind": "GenericJob"})


def end_of(talk: str, name: str) -> list[str]:
    """The lines below the one that says how the job ended, without their indents of two and four spaces."""
    lines = talk.splitlines()
    last = max(index for index, line in enumerate(lines) if line.startswith((f"{name}: ", f"{name} ")))
    return [re.sub(r"^ {2}(?: {2})?", "", line) for line in lines[last + 1 :]]


def matches(seen: Sequence[str], expected: Sequence[str]) -> bool:
    """Whether these are the lines; ANY stands for any number of lines."""
    patterns = [re.sub(r"\((\w+(?: \w+)?)\)$", r"\\(\1\\)", pattern) for pattern in expected]
    whole = "".join(r"(?:.*\n)*" if pattern == ANY else f"{pattern}\\n" for pattern in patterns)
    return re.fullmatch(whole, "".join(f"{line}\n" for line in seen)) is not None


def first_failure(bireme: Bireme, kind: str, name: str) -> Object:
    job = json.loads(bireme("get", f"{kind}/{name}", "-o", "json").stdout)
    first: Object = job["status"].get("firstFailure") or {}
    return first


def run(bireme: Bireme, *args: str, given: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run jobs whose tracebacks are shown: no traceback of ours may be."""
    return subprocess.run(
        [str(BIREME), "run", *args],
        cwd=bireme.work,
        env=bireme.environment(**environ),
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("title", CASES)
def test_the_end_names_cause_and_place(bireme: Bireme, work: Path, title: str) -> None:
    case, name = CASES[title], name_of(title)
    if case.spec and find("4.1") is None:
        raise unavailable("no Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
    if case.spec:
        annotations = {"path": case.path.format(work=work)} if case.path else {}
        result = run(bireme, "-f", "-", given=manifest(name, case.spec, **annotations))
    else:
        environ = {key: value.format(work=work) for key, value in case.environ.items()}
        result = run(bireme, "--name", name, *case.args, **environ)
    seen = end_of(result.stderr, name)
    assert matches(seen, case.end), f"{seen}\n{result.stdout}"
    assert result.returncode == case.code
    kind = "genericjob" if "--replicas" in case.args else "mpijob.batch.tensorstack.dev"
    first = first_failure(bireme, kind, name)
    expected = {key: value.format(name) if key == "replica" else value for key, value in case.first.items()}
    assert {key: first.get(key) for key in expected} == expected


@pytest.mark.usefixtures("work")
def test_a_python_rank_that_hangs_the_others_gets_a_hint(bireme: Bireme) -> None:
    """Row 3: mpi4py waits for all ranks when an exception ends one of them."""
    running = bireme.start("run", "--name", "f-3", *mpi(2, PYTHON, "missing.py"))
    try:
        assert running.stderr is not None
        hint = next(line for line in running.stderr if line.startswith("hint:"))
        assert f"`{PYTHON} -m mpi4py missing.py` ends all ranks then" in hint
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate()
    assert running.returncode == 128 + signal.SIGTERM


@pytest.mark.usefixtures("work")
def test_a_program_out_of_memory_is_named(bireme: Bireme) -> None:
    """Row 6."""
    if "memory" not in Limits().offered:
        raise unavailable("this machine lets nobody limit memory: run as root, or delegate cgroups")
    container = {"name": "mpi-worker", "image": "none", "resources": {"limits": {"memory": "100Mi"}}}
    worker = {"cmd": [PYTHON, "hog.py"], "template": {"spec": {"containers": [container]}}}
    spec = {"worker": worker, "runPolicy": {"cleanUpWorkers": "all"}}
    result = bireme("run", "-f", "-", input=manifest("f-6", spec), code=137)
    assert end_of(result.stderr, "f-6")[0] == "first failure: rank 0 on worker-0: signal 9 (OOMKilled)"


@pytest.mark.usefixtures("work")
def test_a_launcher_in_the_place_of_the_program_is_refused(bireme: Bireme) -> None:
    """Row 13."""
    result = bireme("run", *mpi(2, "mpirun", "-np", "2", PYTHON, "nan.py"), code=2)
    assert "mpirun: Bireme calls mpirun itself, so that every rank would start another one" in result.stderr
    assert f"hint: bireme mpirun -np 2 {PYTHON} nan.py" in result.stderr


@pytest.mark.usefixtures("work")
def test_the_owner_of_a_port_that_is_taken_is_named(bireme: Bireme) -> None:
    """Row 15: two replicas of one job, where they share the network of the machine."""
    with socket.create_server(("", 0)) as free:
        port = str(free.getsockname()[1])
    result = run(bireme, "--name", "f-15", "--replicas", "2", "--", PYTHON, "port.py", port)
    assert result.returncode == 1
    seen = end_of(result.stderr, "f-15")
    assert re.fullmatch(r"first failure: worker-\d: exit code 1", seen[0])
    assert any(re.fullmatch(rf"bireme: port {port} is taken by f-15-worker-\d.*", line) for line in seen), (
        seen
    )


@pytest.mark.usefixtures("work")
def test_a_port_of_a_process_that_is_no_replica_is_named_with_it(bireme: Bireme) -> None:
    """Row 16."""
    with socket.create_server(("", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = run(bireme, "--name", "f-16", "--replicas", "1", "--", PYTHON, "port.py", port)
    assert result.returncode == 1
    seen = "\n".join(end_of(result.stderr, "f-16"))
    assert seen.startswith("first failure: worker-0: exit code 1\n")
    assert f"bireme: port {port} is taken by process {os.getpid()} (" in seen
    assert "hint: stop that process, or use another port" in seen


GPU: Final = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
WAITING: Final[dict[str, tuple[Object, Object, Sequence[str]]]] = {
    "18 a ConfigMap that is not there": (
        {},
        {"envFrom": [{"configMapRef": {"name": "nosuchcfg"}}]},
        [
            'worker-0: main waits: CreateContainerConfigError: configmap "nosuchcfg" not found',
            "hint: create ConfigMap nosuchcfg (`bireme apply -f FILE`), or add it to the manifest; the job",
        ],
    ),
    "18 a Secret that is not there": (
        {"volumes": [{"name": "keys", "secret": {"secretName": "nosuchkeys"}}]},
        {},
        [
            "worker-0: main waits: Secret nosuchkeys is not there",
            "hint: create Secret nosuchkeys (`bireme apply -f FILE`), or add it to the manifest; the job",
        ],
    ),
    "32 a GPU that is not there": (
        {},
        GPU,
        [
            "worker-0: not scheduled: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu. This machine",
            "hint: remove nvidia.com/gpu from the resources to run without it, or run the job on a cluster",
        ],
    ),
}


def wait_for_lines(bireme: Bireme, text: str, beginnings: Sequence[str]) -> None:
    """Run a job until it says these lines, in this order; then stop it."""
    (bireme.work / "waits.yaml").write_text(text)
    running = bireme.start("run", "-f", "waits.yaml")
    assert running.stderr is not None
    seen = []
    try:
        for beginning in beginnings:
            for line in running.stderr:
                seen.append(line)
                if line.startswith(beginning):
                    break
            else:
                raise AssertionError((beginning, seen))
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate()
    assert running.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("title", WAITING)
def test_a_job_that_can_not_start_says_what_it_waits_for_and_what_helps(bireme: Bireme, title: str) -> None:
    pod, container, lines = WAITING[title]
    if container is GPU and look().gpus:
        raise unavailable("this machine has a GPU")
    wait_for_lines(bireme, generic_manifest(name_of(title), pod, container), lines)


def test_an_image_that_can_not_be_pulled_is_named(bireme: Bireme) -> None:
    """Row 37."""
    if shutil.which("podman") is None or os.getuid() != 0:
        raise unavailable("needs podman, and root")
    text = generic_manifest("f-37", {}, {"image": "localhost/no-such-image:1"}, driver="podman")
    said = "worker-0: main waits: ErrImagePull: failed to pull image 'localhost/no-such-image:1'"
    wait_for_lines(bireme, text, [said])


def test_a_claim_that_is_not_there_gets_a_note_with_the_folder_in_its_place(bireme: Bireme) -> None:
    """Row 19: the job runs with a folder of this machine, as documented."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "trainnig-data"}}
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/mnt"}]}
    result = bireme("run", "-f", "-", input=generic_manifest("f-19", {"volumes": [volume]}, mount))
    note = "note: PersistentVolumeClaim trainnig-data is not there: the folder "
    assert f"{note}{bireme.data}/node/claims/default/trainnig-data stands in" in result.stderr
    assert re.search(r"^f-19: Succeeded after", result.stderr, re.MULTILINE)


HOG: Final = """
import subprocess, sys
command = [sys.executable, "-c", "from bireme.cli.main import main; main()"]
try:
    done = subprocess.run([*command, "run", "-f", "-"], stdin=sys.stdin, capture_output=True, text=True)
    print(done.returncode, done.stderr)
finally:
    subprocess.run([*command, "down"], check=True, capture_output=True)
"""


def test_a_memory_limit_that_this_machine_can_not_set_gets_a_note(home: Path) -> None:
    """Row 7: the job gets the memory that it takes, and succeeds."""
    if os.getuid() != 0 or python_of(STRANGER) is None:
        raise unavailable("only root can be another user, who must be able to run Python")
    container = {
        "command": ["python3", "-c", "hoard = bytearray(200 << 20)"],
        "resources": {"limits": {"memory": "100Mi"}},
    }
    said = python_as(STRANGER, home, "-c", HOG, said=generic_manifest("f-7", {}, container))
    assert said.startswith("0 ")
    note = "note: limits of memory are advice on this machine: it has no cgroup for us"
    assert note in said
    assert "f-7: Succeeded after" in said


def test_an_init_container_that_fails_is_named(bireme: Bireme) -> None:
    """Row 20."""
    fetch = {
        "name": "fetch",
        "image": "none",
        "command": ["sh", "-c", "echo cannot download dataset; exit 4"],
    }
    main = {"name": "main", "image": "none", "command": ["true"]}
    template = {"spec": {"initContainers": [fetch], "containers": [main]}}
    job = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": "f-20"},
        "spec": {"replicaSpecs": [{"type": "worker", "template": template}]},
    }
    result = bireme("run", "-f", "-", input=yaml.safe_dump(job), code=4)
    assert end_of(result.stderr, "f-20") == [
        "first failure: worker-0, init container fetch: exit code 4",
        "cannot download dataset",
    ]
    first = first_failure(bireme, "genericjob", "f-20")
    assert (first["container"], first["isInit"], first["exitCode"]) == ("fetch", True, 4)


@pytest.mark.usefixtures("work")
def test_a_program_that_computes_nonsense_and_exits_with_0_has_succeeded(bireme: Bireme) -> None:
    """Row 25."""
    result = bireme("run", "--name", "f-25", *mpi(2, PYTHON, "nan.py"))
    assert result.stdout.count("loss nan") == 2
    assert re.search(r"^f-25: Succeeded after", result.stderr, re.MULTILINE)


def processes(pod: str) -> Iterator[tuple[int, str]]:
    """The processes of a pod by their names."""
    marker = f"HOSTNAME={pod}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name), (folder / "comm").read_text().strip()
        except OSError:
            continue


def kill(pod: str, *programs: str) -> None:
    victims = [pid for pid, program in processes(pod) if program in programs]
    assert victims, [*processes(pod)]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)


class Kill(NamedTuple):
    """Which process of a running job is killed, and the end that this has."""

    victim: Callable[[str], None]
    end: Sequence[str]
    code: int
    reason: str = ""
    version: str = "5.0"


KILLS: Final = {
    "27 worker killed": Kill(
        lambda name: kill(f"{name}-worker-1", "sleep"), ["first failure: worker-1: signal 9", ANY], 137
    ),
    "28 launcher killed": Kill(
        lambda name: kill(f"{name}-launcher", "mpirun", "prterun", "sh"),
        ["first failure: launcher: signal 9", ANY],
        137,
    ),
    "30 daemon of mpirun killed, 5.0": Kill(
        lambda name: kill(f"{name}-worker-1", "prted"),
        [
            "first failure: worker-1: exit code 122 (IncompleteRun)",
            "mpirun exited with 0, but its daemon on .*",
        ],
        122,
        "IncompleteRun",
    ),
    "31 daemon of mpirun killed, 4.1": Kill(
        lambda name: kill(f"{name}-worker-1", "orted"),
        [
            "first failure: worker-1: exit code 205 (DaemonLost)",
            "mpirun lost its daemon on .*-worker-1: it was killed, or can't be reached",
        ],
        205,
        "DaemonLost",
        "4.1",
    ),
}


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize("title", KILLS)
def test_the_end_names_what_was_killed(bireme: Bireme, title: str) -> None:
    case, name = KILLS[title], name_of(title)
    if find(case.version) is None:
        raise unavailable("no Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
    spec = old([PYTHON, "steps.py"])
    if case.version == "5.0":
        spec.pop("mpiHome")
        spec["worker"]["template"]["spec"]["containers"][0].pop("env")
    (bireme.work / f"{name}.yaml").write_text(manifest(name, spec))
    running = bireme.start("run", "-f", f"{name}.yaml")
    assert running.stdout is not None
    assert any("step 3" in line for line in running.stdout)
    case.victim(name)
    _, talk = running.communicate()
    seen = end_of(talk, name)
    assert matches(seen, case.end), talk
    assert running.returncode == case.code
    assert first_failure(bireme, "mpijob.batch.tensorstack.dev", name).get("reason", "") in (
        case.reason,
        "Error",
    )


def test_a_daemon_that_is_killed_is_said_and_the_job_goes_on(tmp_path: Path) -> None:
    """Row 29."""
    with daemon(tmp_path) as bireme:
        (bireme.work / "steps.py").write_text(PROGRAMS["steps.py"].replace("400", "40"))
        running = bireme.start("run", "--name", "f-29", *mpi(2, PYTHON, "steps.py"))
        assert running.stdout is not None
        assert any("step 3" in line for line in running.stdout)
        os.kill(json.loads((bireme.data / "daemon.json").read_bytes())["pid"], signal.SIGKILL)
        _, talk = running.communicate()
        assert "error: the daemon has ended\n\nhint: `bireme up` starts it; the pods go on meanwhile" in talk
        assert running.returncode == 1
        bireme("up")
        bireme("wait", "mpijob.batch.tensorstack.dev/f-29")
        lines = bireme("logs", "f-29").stdout.splitlines()
        assert sorted(line.split()[-1] for line in lines if " step " in line) == sorted(
            [*map(str, range(40))] * 2
        )


@pytest.mark.usefixtures("work")
def test_standard_input_reaches_rank_0(bireme: Bireme) -> None:
    """Row 34."""
    result = bireme("run", "--name", "f-34", *mpi(2, PYTHON, "input.py"), input="one two\n")
    assert "launcher | read ['one', 'two']\n" in result.stdout


@pytest.mark.usefixtures("work")
def test_a_finished_job_of_another_kind_is_replaced(bireme: Bireme) -> None:
    """Row 35."""
    bireme("run", "--name", "f-35", "--replicas", "2", "--", "true")
    result = bireme("run", "--name", "f-35", *mpi(2, PYTHON, "nan.py"))
    assert re.search(r"^f-35: Succeeded after", result.stderr, re.MULTILINE)


PARTLY: Final = {
    10: "deadlock in a receive: output stops, and nothing tells a deadlock from a long computation",
    11: "one rank slower than the others: the job succeeds, as it must; no rank's time is measured",
}
ROWS: Final = 37


def test_every_failure_is_right_or_says_why_not() -> None:
    """A row is right if a test of this module has its number: as the title of a case, or in its docstring."""
    tests = [value.__doc__ or "" for name, value in globals().items() if name.startswith("test_")]
    titles = [
        *CASES,
        *KILLS,
        *WAITING,
        *(doc.removeprefix("Row ") for doc in tests if doc.startswith("Row ")),
    ]
    right = {int(re.match(r"\d+", title)[0]) for title in titles}  # type: ignore[index]
    assert right.isdisjoint(PARTLY)
    assert sorted(right | set(PARTLY)) == list(range(1, ROWS + 1))
    assert len(right) == 35
