"""MPI jobs, one after the other, in an embedded mode of this process's user.

python -m support.mpi_rounds FOLDER ISOLATION < cases.json > results.json

A case is [version of Open MPI, workers, slots], a result what the job came to: its phase and the lines of its
ranks. ISOLATION is `own` for what the machine offers, or `none`.
"""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bireme.node.machine import look
from support.here import BIN, Here, Object

Case = tuple[str, int, int]
ROOT: Final = Path(__file__).parents[2]
STRANGER: Final = 54321
"""A user whom the machine does not know."""
PRELUDE: Final = "import os, signal, time\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
SUM: Final = """
where = world.allgather(os.environ["HOSTNAME"])
print("sum", world.allreduce(world.rank), world.size, where[world.rank], MPI.Get_processor_name(), flush=True)
"""
_MOST_SECONDS_EACH: Final = 120
_OURS: Final = Path(os.environ.get("BIREME_TEST_MPI", sys.prefix))
"""The environment that Open MPI 5.0 is in; a stranger's Python may be another one."""
_SYSTEM_PYTHON: Final = "/usr/bin/python3"


class Library(NamedTuple):
    """Where a version of Open MPI is: PATH, and the library that mpi4py is to load."""

    path: str
    library: str


def find(version: str) -> Library | None:
    """The Open MPI of our environment is 5.0, that of the system 4.1; None if it is not there."""
    if version == "5.0":
        return Library(f"{_OURS}/bin:/usr/bin:/bin", str(_OURS / "lib/libmpi.so.40"))
    found = sorted(Path("/usr/lib").glob("*/libmpi.so.40"))
    if not found or not Path("/usr/bin/mpirun").exists():
        return None
    return Library(f"/usr/bin:/bin:{BIN}", str(found[0]))


def build_job(name: str, code: str, case: Case, **container: Any) -> Object:
    """An MPIJob whose ranks run Python code after PRELUDE."""
    version, workers, slots = case
    library = find(version)
    assert library is not None
    env = [{"name": "MPI4PY_LIBMPI", "value": library.library}]
    main = {"name": "mpi-worker", "image": "none", "env": env, **container}
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "MPIJob",
        "metadata": {"name": name, "annotations": {"bireme.dev/path": library.path}},
        "spec": {
            "worker": {
                "replicas": workers,
                "extraMPIArgs": ["-N", str(slots)],
                "cmd": [f"{BIN}/python3", "-c", PRELUDE + code],
                "template": {"spec": {"containers": [main]}},
            },
            "runPolicy": {"cleanUpWorkers": "all"},
        },
    }


def play(folder: Path, isolation: str, cases: Sequence[Case]) -> list[Object]:
    """Play all cases in one embedded mode; none leaves anything behind."""
    machine = look()
    here = Here(
        folder, msgspec.structs.replace(machine, isolation="none") if isolation == "none" else machine
    )
    here.start()
    try:
        return [_play(here, f"sum-{number}", case) for number, case in enumerate(cases)]
    finally:
        here.stop()


def _play(here: Here, name: str, case: Case) -> Object:
    job = build_job(name, SUM, case)
    status = here.play(job)
    output = here.output(f"{name}-launcher", "mpi-launcher")
    here.delete(job)
    lines = [line for line in output.splitlines() if line.startswith("sum")]
    result = {"phase": status["phase"], "lines": lines}
    return result if status["phase"] == "Succeeded" else result | {"output": output, "status": status}


def become(user: int) -> list[str]:
    """What runs a command as another user, who may nothing that everybody may not."""
    if user == os.getuid():
        return []
    identity = [f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]
    return ["setpriv", *identity, "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]


def python_of(user: int) -> str | None:
    """A Python like ours that a user can run: ours, or, if that is in somebody's home, the system's."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    check = f"import sys; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    for python in (sys.executable, _SYSTEM_PYTHON):
        # From a shell, which starts it as that user.
        command = [*become(user), "sh", "-c", 'exec "$@"', "sh", python, "-c", check]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return python
    return None


def play_as(user: int, folder: Path, isolation: str, cases: Sequence[Case]) -> list[Object]:
    """Play all cases in a process of its own, as another user if it is not ours."""
    seconds = _MOST_SECONDS_EACH * (len(cases) + 1)
    arguments = ("-m", "support.mpi_rounds", str(folder), isolation)
    results: list[Object] = json.loads(
        python_as(user, folder, *arguments, said=json.dumps(cases), seconds=seconds)
    )
    return results


def python_as(
    user: int, folder: Path, *arguments: str, said: str = "", seconds: float = _MOST_SECONDS_EACH
) -> str:
    """Run Python with our tests at hand as another user, whose home is `folder`; return what it prints."""
    python = python_of(user)
    assert python is not None
    os.chown(folder, user, user)
    command = [*become(user), python, *arguments]
    paths = (ROOT / "tests", ROOT / "src", sysconfig.get_path("platlib"))
    played = subprocess.run(
        command,
        input=said,
        cwd=ROOT,
        env={
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": ":".join(map(str, paths)),
            "BIREME_TEST_MPI": sys.prefix,
        },
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert played.returncode == 0, played.stderr[-4000:]
    return played.stdout


if __name__ == "__main__":
    given = [(each[0], each[1], each[2]) for each in json.load(sys.stdin)]
    json.dump(play(Path(sys.argv[1]), sys.argv[2], given), sys.stdout)
