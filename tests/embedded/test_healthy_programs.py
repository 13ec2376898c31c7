"""Programs of all sorts that do nothing wrong: every one of them succeeds, and no output is lost.

The other half of test_certain_ends.py: what makes success certain must not fail programs that fork, leave
processes behind, print nothing, or end at once. `make test` runs a slice, `make long` and `make certain` all.
"""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import pytest

from support.commands import Bireme
from support.fixtures import unavailable
from support.here import BIN, PATH, Here, Object, generic, replica
from support.mpi_rounds import PRELUDE, find

pytestmark = pytest.mark.xdist_group("here")

PYTHON: Final = f"{BIN}/python3"
VERSIONS: Final = ("5.0", "4.1")
Shape = tuple[int, int]
"""Workers, and slots of each."""
ONE: Final[Shape] = (1, 1)
PACKED: Final[Shape] = (1, 4)
SQUARE: Final[Shape] = (2, 2)
SPREAD: Final[Shape] = (4, 1)


class Program(NamedTuple):
    """What ranks run, in these shapes, and what must be in the output: how often."""

    command: Sequence[str]
    shapes: Sequence[Shape]
    expected: dict[bytes, int]
    """Counts of byte strings; 0 stands for once per rank."""
    options: Sequence[str] = ()
    """Of mpirun."""
    versions: Sequence[str] = VERSIONS


def python(code: str, *options: str) -> list[str]:
    return [PYTHON, *options, "-c", PRELUDE + code]


def script(text: str) -> list[str]:
    return ["sh", "-c", text]


OK: Final = {b"ok\n": 0}
SAY: Final = "os.write(1, b'ok\\n')\n"
DAEMON: Final = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open('/dev/null', os.O_RDWR)
        for each in (0, 1, 2):
            os.dup2(null, each)
        os.execvp('sleep', ['sleep', '600'])
    os._exit(0)
os.wait()
"""
ONE_SIDED: Final = [
    PYTHON,
    "-c",
    f"""
import mpi4py
mpi4py.rc.threads = False
{PRELUDE}
import array
memory = array.array('i', [0])
window = MPI.Win.Create(memory, 4, comm=world)
window.Lock(0)
window.Accumulate(array.array('i', [1]), 0)
window.Unlock(0)
world.barrier()
window.Lock(world.rank)
assert world.rank or memory[0] == world.size
window.Unlock(world.rank)
window.Free()
{SAY}""",
]
PROCESSES: Final = """
from multiprocessing import Pool
with Pool(2) as pool:
    print("%d\\n" % sum(pool.map(abs, range(9))), end="")
"""
MPI_PROGRAMS: Final[dict[str, Program]] = {
    # ---- communication
    "collectives": Program(
        python(
            "assert world.allreduce(1) == world.size\n"
            "assert world.bcast('x' if world.rank == 0 else None) == 'x'\n"
            "assert world.scatter(list(range(world.size)) if world.rank == 0 else None) == world.rank\n"
            "assert world.alltoall([world.rank] * world.size) == list(range(world.size))\n"
            "assert world.scan(1) == world.rank + 1\nworld.barrier()\n" + SAY
        ),
        (PACKED, SQUARE, SPREAD),
        OK,
    ),
    "one rank alone": Program(python("assert world.allreduce(1) == 1\n" + SAY), (ONE,), OK),
    "ring": Program(
        python(
            "token = world.rank\nfor _ in range(50):\n"
            "    token = world.sendrecv(token, (world.rank + 1) % world.size, "
            "source=(world.rank - 1) % world.size)\nassert token == (world.rank - 50) % world.size\n" + SAY
        ),
        (SQUARE, SPREAD),
        OK,
    ),
    "large messages, not blocking": Program(
        python(
            "import array\ndata = array.array('d', [world.rank]) * (4 << 20)\n"
            "other = array.array('d', [0]) * (4 << 20)\n"
            "peer = world.rank ^ 1\n"
            "MPI.Request.Waitall([world.Irecv(other, peer), world.Isend(data, peer)])\n"
            "assert other[-1] == peer\n" + SAY
        ),
        (SQUARE,),
        OK,
    ),
    "one-sided": Program(ONE_SIDED, (PACKED,), OK),
    "one-sided, several workers": Program(ONE_SIDED, (SQUARE,), OK, versions=("5.0",)),
    # Open MPI 4.1 must be told, bare too, and its programs may have one thread only.
    "one-sided, by messages": Program(ONE_SIDED, (SQUARE,), OK, ("--mca", "osc", "pt2pt"), ("4.1",)),
    "communicators that are split and freed": Program(
        python(
            "half = world.Split(world.rank % 2)\nassert half.allreduce(1) == world.size // 2\nhalf.Free()\n"
            "world.Dup().Disconnect()\n" + SAY
        ),
        (SQUARE,),
        OK,
    ),
    "a shared file": Program(
        python(
            "path = os.path.join(os.getcwd(), 'shared')\n"
            "file = MPI.File.Open(world, path, MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE)\n"
            "file.Write_at_all(8 * world.rank, b'12345678')\n"
            "file.Sync()\nworld.barrier()\nassert file.Get_size() == 8 * world.size\n"
            "file.Close()\n" + SAY
        ),
        (SQUARE,),
        OK,
    ),
    # ---- ranks that start ranks
    "spawn and disconnect": Program(
        python(
            'import sys\nchild = "from mpi4py import MPI; import os; parent = MPI.Comm.Get_parent(); '
            "parent.bcast(None, 0); os.write(1, b'child\\\\n'); parent.Disconnect()\"\n"
            "children = MPI.COMM_SELF.Spawn(sys.executable, ['-c', child], 2)\n"
            "children.bcast('go', MPI.ROOT)\nchildren.Disconnect()\n" + SAY
        ),
        (PACKED,),
        {b"ok\n": 1, b"child\n": 2},
        ("-n", "1"),
    ),
    "mpi4py.futures with its own ranks": Program(
        [PYTHON, "-m", "mpi4py.futures", "{work}/pool.py"], (PACKED, SQUARE), {b"4950\n": 1}
    ),
    "mpi4py.futures that spawns": Program([PYTHON, "{work}/pool.py"], (PACKED,), {b"4950\n": 1}, ("-n", "1")),
    "two programs in one world": Program(
        ["{python}", "{work}/sum.py", ":", "-n", "2", "{python}", "{work}/sum.py"],
        (SQUARE,),
        {b"sum 4\n": 4},
        ("-n", "2"),
    ),
    # ---- processes of ranks
    "children that are waited for": Program(
        python(
            "import subprocess\nassert subprocess.run(['true']).returncode == 0\n"
            "if os.fork() == 0: os._exit(7)\nassert os.waitstatus_to_exitcode(os.wait()[1]) == 7\n" + SAY
        ),
        (SQUARE,),
        OK,
    ),
    "a pool of processes": Program(
        [PYTHON, "-c", PROCESSES],
        (SQUARE,),
        {b"36\n": 0},
    ),
    "a daemonised helper": Program(python(DAEMON + "world.barrier()\n" + SAY), (PACKED, SQUARE), OK),
    "a child that outlives its rank with its output": Program(
        python("import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 2'])\nworld.barrier()\n" + SAY),
        (SQUARE,),
        OK,
    ),
    "a session of its own": Program(script('setsid sh -c "sleep 1; echo ok"'), (SQUARE,), OK),
    "another program in the same process": Program(
        [PYTHON, "-c", "import os; os.execvp('sh', ['sh', '-c', 'echo ok'])"],
        (SQUARE,),
        OK,
    ),
    # ---- output and input
    "ten megabytes": Program(
        python("for _ in range(25): os.write(1, (b'#' * 99 + b'\\n') * 1000)\nworld.barrier()\n" + SAY),
        (PACKED, SQUARE),
        {b"#": 9_900_000, b"ok\n": 4},
    ),
    "much on both streams": Program(
        python(
            "for _ in range(2000):\n"
            "    os.write(2, b'%' * 50 + b'\\n')\n"
            "    os.write(1, b'#' * 50 + b'\\n')\n"
        ),
        (SQUARE,),
        {b"%": 400_000, b"#": 400_000},  # chunks of ranks mix, and not at ends of lines
    ),
    "nothing": Program(python("world.barrier()\n"), (ONE, SQUARE, SPREAD), {}),
    "no newline at the end": Program(python("os.write(1, b'ok')\n"), (SQUARE,), {b"ok": 0}),
    "all bytes there are": Program(
        python("if world.rank == 0: os.write(1, bytes(range(256)) * 16)\n"),
        (SQUARE,),
        {bytes(range(256)): 16},
    ),
    "closed streams": Program(script("exec </dev/null >&- 2>&-; sleep 0.2; exit 0"), (SQUARE,), {}),
    "text that is left in a buffer": Program(
        [PYTHON, "-c", "import os; os.environ.pop('PYTHONUNBUFFERED', ''); print('ok')"], (SPREAD,), OK
    ),
    # ---- time
    "the end at once": Program(["true"], (ONE, PACKED, SQUARE, SPREAD), {}),
    "ten seconds of sleep": Program(["sleep", "10"], (SQUARE,), {}),
    "ends that are far apart": Program(
        python("rank = world.rank\nMPI.Finalize()\ntime.sleep(rank * 3)\n" + SAY),
        (SQUARE,),
        OK,
    ),
    "starts that are far apart": Program(
        script('sleep "$OMPI_COMM_WORLD_RANK"; exec {python} {work}/sum.py'),
        (SQUARE,),
        {b"sum 4\n": 4},
    ),
    # ---- the process itself
    "exit handlers": Program(
        python("import atexit\natexit.register(lambda: os.write(1, b'ok\\n'))\nworld.barrier()\n"),
        (SQUARE,),
        OK,
    ),
    "threads": Program(
        python(
            "import threading\nassert MPI.Query_thread() == MPI.THREAD_MULTIPLE\n"
            "comms = [world.Dup() for _ in range(3)]\n"
            "threads = [threading.Thread(target=each.barrier) for each in comms]\n"
            "for each in threads: each.start()\nfor each in threads: each.join()\n" + SAY
        ),
        (SQUARE,),
        OK,
    ),
    "a thread that goes on at the end": Program(
        python(
            "import threading\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
            "world.barrier()\n" + SAY
        ),
        (SQUARE,),
        OK,
    ),
    "signals that are handled": Program(
        python(
            "seen = []\nfor each in (signal.SIGUSR1, signal.SIGALRM, signal.SIGTERM):\n"
            "    signal.signal(each, lambda number, _: seen.append(number))\n    os.kill(os.getpid(), each)\n"
            "assert len(seen) == 3\nworld.barrier()\n" + SAY
        ),
        (SQUARE,),
        OK,
    ),
    "children that are killed": Program(
        script("sleep 100 & kill -9 $!; wait $!; [ $? -eq 137 ] && echo ok"), (SQUARE,), OK
    ),
    "a broken pipe inside": Program(script("yes | head -n 1 >/dev/null; echo ok"), (SQUARE,), OK),
    "another working directory": Program(script("cd / && echo ok"), (SQUARE,), OK),
    "python -m mpi4py": Program([PYTHON, "-m", "mpi4py", "{work}/sum.py"], (SQUARE,), {b"sum 4\n": 4}),
    "MPI_Finalize without a word": Program(python("MPI.Finalize()\n"), (SPREAD,), {}),
    "C": Program(["{work}/c-{version}"], (PACKED, SQUARE), {b"sum 4\n": 4}),
    "no MPI": Program(["hostname"], (PACKED, SQUARE), {b"-worker-": 0}),
    "no MPI, and a shell": Program(script("for i in 1 2 3; do :; done; echo ok"), (SPREAD,), OK),
}

POOL: Final = """
from mpi4py.futures import MPIPoolExecutor
if __name__ == "__main__":
    with MPIPoolExecutor(3) as pool:
        print(sum(pool.map(abs, range(100))), flush=True)
"""
SUM: Final = PRELUDE + "os.write(1, b'sum %d\\n' % world.allreduce(1))\n"
C: Final = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int one = 1, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("sum %d\\n", sum);
    MPI_Finalize();
    return 0;
}
"""
TORCHRUN: Final = """#!/bin/sh
# Starts two ranks, waits for them as torchrun does, and fails if one does.
for rank in 0 1; do sh -c "$HEALTHY" & ranks="$ranks $!"; done
for rank in $ranks; do wait "$rank" || exit 1; done
"""
KUBEFLOW: Final[dict[str, tuple[str, dict[bytes, int]]]] = {
    "a sum": ("mpirun -np 4 {python} {work}/sum.py", {b"sum 4\n": 4}),
    "two runs of mpirun": (
        "mpirun -np 2 {python} {work}/sum.py; mpirun -np 4 {python} {work}/sum.py",
        {b"sum 2\n": 2, b"sum 4\n": 4},
    ),
    "the end at once": ("mpirun -np 4 true", {}),
    "no mpirun": ("echo ok", {b"ok\n": 1}),
}
COLOSSALAI: Final[dict[str, tuple[str, dict[bytes, int]]]] = {
    "a line": ("echo ok", {b"ok\n": 4}),
    "the end at once": ("true", {}),
    "a helper": ("setsid sleep 600 </dev/null >/dev/null 2>&1 & echo ok", {b"ok\n": 4}),
    "two seconds": ("sleep 2; echo ok", {b"ok\n": 4}),
}
GENERIC: Final[dict[str, tuple[str, dict[bytes, int]]]] = {
    "the end at once": ("true", {}),
    "a line": ("echo ok", {b"ok\n": 1}),
    "ten megabytes": ("yes 0123456789 | head -n 1000000", {b"0123456789\n": 1_000_000}),
    "all bytes there are": (
        f"{PYTHON} -c 'import os; os.write(1, bytes(range(256)))'",
        {bytes(range(256)): 1},
    ),
    "no newline at the end": ("printf ok", {b"ok": 1}),
    "a helper": ("setsid sleep 600 </dev/null >/dev/null 2>&1 & echo ok", {b"ok\n": 1}),
    "a child with its output": ("sleep 2 & echo ok", {b"ok\n": 1}),
    "a signal that is handled": ("trap 'echo ok' USR1; kill -USR1 $$$$; :", {b"ok\n": 1}),
    "an exit handler": ("trap 'echo ok' EXIT; true", {b"ok\n": 1}),
}
SLICE: Final = {
    "collectives, 2x2, 5.0", "collectives, 1x4, 4.1", "spawn and disconnect, 1x4, 5.0",
    "a daemonised helper, 2x2, 5.0", "ten megabytes, 2x2, 5.0", "the end at once, 1x1, 5.0",
    "the end at once, 4x1, 5.0", "all bytes there are, 2x2, 5.0", "C, 2x2, 5.0", "no MPI, 2x2, 4.1",
    "Kubeflow, a sum, 5.0", "ColossalAIJob, a line", "GenericJob, a helper",
}  # fmt: skip
"""What `make test` runs."""


class Case(NamedTuple):
    """A job, and what must be in its output."""

    build: Callable[[Here, str], Object]
    expected: dict[bytes, int]
    pod: str
    container: str
    version: str = "5.0"


def fill(words: Sequence[str], here: Here, version: str) -> list[str]:
    places = {"{work}": str(here.work), "{python}": PYTHON, "{version}": version}
    filled = []
    for word in words:
        for name, value in places.items():
            word = word.replace(name, value)
        filled.append(word)
    return filled


def container_of(version: str, **more: Any) -> Object:
    library = find(version)
    env = [{"name": "MPI4PY_LIBMPI", "value": library.library if library else ""}]
    return {"image": "none", "env": env, **more}


def path_of(version: str) -> Object:
    library = find(version)
    return {"annotations": {"bireme.dev/path": library.path if library else ""}}


def mpi_case(program: Program, shape: Shape, version: str) -> Case:
    def build(here: Here, name: str) -> Object:
        workers, slots = shape
        worker = {
            "replicas": workers,
            "extraMPIArgs": ["-N", str(slots), *program.options],
            "cmd": fill(program.command, here, version),
            "template": {"spec": {"containers": [container_of(version, name="mpi-worker")]}},
        }
        return {
            "apiVersion": "batch.tensorstack.dev/v1beta1",
            "kind": "MPIJob",
            "metadata": {"name": name, **path_of(version)},
            "spec": {"worker": worker, "runPolicy": {"cleanUpWorkers": "all"}},
        }

    ranks = shape[0] * shape[1]
    expected = {words: count or ranks for words, count in program.expected.items()}
    return Case(build, expected, "launcher", "mpi-launcher", version)


def kubeflow_case(text: str, expected: dict[bytes, int], version: str) -> Case:
    def build(here: Here, name: str) -> Object:
        command = fill(["sh", "-ec", text], here, version)
        launcher = container_of(version, name="launcher", command=command)
        root = [
            {"name": f"{each}_ALLOW_RUN_AS_ROOT{tail}", "value": "1"}
            for each in ("OMPI", "PRTE")
            for tail in ("", "_CONFIRM")
        ]
        launcher["env"] = launcher["env"] + root
        replicas = {
            "Launcher": {"replicas": 1, "template": {"spec": {"containers": [launcher]}}},
            "Worker": {
                "replicas": 2,
                "template": {"spec": {"containers": [container_of(version, name="worker")]}},
            },
        }
        return {
            "apiVersion": "kubeflow.org/v1alpha2",
            "kind": "MPIJob",
            "metadata": {"name": name, **path_of(version)},
            "spec": {"slotsPerWorker": 2, "mpiReplicaSpecs": replicas},
        }

    return Case(build, expected, "launcher", "launcher", version)


def colossalai_case(text: str, expected: dict[bytes, int]) -> Case:
    def build(here: Here, name: str) -> Object:
        container = {"name": "worker", "image": "none", "env": [{"name": "HEALTHY", "value": text}]}
        worker = {
            "replicas": 2,
            "procPerWorker": 2,
            "command": ["train.py"],
            "template": {"spec": {"containers": [container]}},
        }
        return {
            "apiVersion": "batch.tensorstack.dev/v1beta1",
            "kind": "ColossalAIJob",
            "metadata": {"name": name, "annotations": {"bireme.dev/path": f"{here.work}:{PATH}"}},
            "spec": {"launcher": {"image": "none"}, "worker": worker, "runPolicy": {"cleanUpWorkers": "all"}},
        }

    return Case(build, expected, "launcher", "launcher")


def generic_case(text: str, expected: dict[bytes, int]) -> Case:
    return Case(lambda _, name: generic(name, replica("worker", text, 2)), expected, "worker-0", "main")


CASES: Final[dict[str, Case]] = {
    **{
        f"{name}, {shape[0]}x{shape[1]}, {version}": mpi_case(program, shape, version)
        for name, program in MPI_PROGRAMS.items()
        for shape in program.shapes
        for version in program.versions
    },
    **{
        f"Kubeflow, {name}, {version}": kubeflow_case(text, expected, version)
        for name, (text, expected) in KUBEFLOW.items()
        for version in VERSIONS
    },
    **{f"ColossalAIJob, {name}": colossalai_case(*case) for name, case in COLOSSALAI.items()},
    **{f"GenericJob, {name}": generic_case(*case) for name, case in GENERIC.items()},
}


@pytest.fixture(scope="module")
def programs(here: Here) -> None:
    """Write the programs that are files; compile the one in C for each Open MPI that has headers."""
    (here.work / "pool.py").write_text(POOL)
    (here.work / "sum.py").write_text(SUM)
    (here.work / "sum.c").write_text(C)
    (here.work / "torchrun").write_text(TORCHRUN)
    (here.work / "torchrun").chmod(0o755)
    for version, compiler in {"5.0": f"{BIN}/mpicc", "4.1": "/usr/bin/mpicc"}.items():
        if shutil.which(compiler) and shutil.which("cc"):
            source, program = here.work / "sum.c", here.work / f"c-{version}"
            subprocess.run([compiler, str(source), "-o", str(program)], check=False, capture_output=True)


def output(here: Here, pod: str, container: str) -> bytes:
    uid = here.pod(pod)["metadata"]["uid"]
    files = sorted((here.folder / f"node/pods/{uid}/output/{container}").glob("*.log"))
    return b"".join(file.read_bytes() for file in files)


def succeeded(status: Object) -> bool:
    if "phase" in status:
        return bool(status["phase"] == "Succeeded")
    return any(each["type"] == "Succeeded" and each["status"] == "True" for each in status["conditions"])


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    "title", [title if title in SLICE else pytest.param(title, marks=pytest.mark.long) for title in CASES]
)
def test_a_healthy_program_succeeds_and_its_output_is_complete(here: Here, title: str) -> None:
    case = CASES[title]
    if find(case.version) is None:
        raise unavailable("no Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
    if title.startswith("C,") and not (here.work / f"c-{case.version}").exists():
        raise unavailable("no C compiler for this Open MPI: apt-get install gcc libopenmpi-dev on Debian 12")
    status = here.play(case.build(here, "healthy"))
    said = output(here, f"healthy-{case.pod}", case.container)
    assert succeeded(status), f"{status}\n{said[-4000:].decode(errors='replace')}"
    assert {words: said.count(words) for words in case.expected} == case.expected, said[-4000:]


@pytest.mark.long
@pytest.mark.parametrize("shape", [ONE, PACKED, SQUARE], ids=str)
def test_a_program_that_reads_its_input_succeeds(bireme: Bireme, shape: Shape) -> None:
    workers, slots = shape
    code = (
        PRELUDE
        + "import sys\nif world.rank == 0: print(len(sys.stdin.read()), flush=True)\nworld.barrier()\n"
    )
    options = ("--mpi", str(workers), "--slots", str(slots))
    result = bireme("run", *options, "--", PYTHON, "-c", code, input="0123456789" * 100_000)
    assert "launcher | 1000000\n" in result.stdout


def test_there_are_enough_healthy_programs() -> None:
    assert len(CASES) >= 60
    assert set(CASES) >= SLICE
