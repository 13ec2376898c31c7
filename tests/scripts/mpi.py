"""The two mpiruns, and a rank that writes down what reached it."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from scripts.jobs import Job
from support.fixtures import unavailable

ARGUMENTS: Final = (
    "two words",
    "it's",
    'say "hi"',
    "$(touch /tmp/owned)",
    "`touch /tmp/owned`",
    "${HOME} $HOME \\$HOME",
    "first\nsecond\n",
    "naïve — 北京",
    "",
    "*",
    "back\\slash",
    "a;b|c&d<e>f#g",
    "~",
)
RANK: Final = """
out=/mnt/output/$OMPI_COMM_WORLD_RANK
printf '%s\\0' "$@" >"$out.arguments"
cat /proc/self/environ >"$out.environment"
printf '%s\\n' "$(hostname)" "$PWD" "$(id -u)" "$(id -G)" >"$out.facts"
# Open MPI 5.0 at times hangs after programs that end before all nodes have started theirs.
sleep 1
"""


def mpirun(version: str) -> str:
    """Return the path of this mpirun in a pod."""
    if version == "5.0":
        if not (Path(sys.prefix) / "bin/mpirun").exists():
            raise unavailable("Open MPI 5.0 is not in this environment: make setup")
        return "/mnt/venv/bin/mpirun"
    program = shutil.which("mpirun", path="/usr/bin")
    if program is None or "(Open MPI) 4.1" not in _output(program, "--version"):
        raise unavailable("/usr/bin/mpirun is not Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
    return program


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def mpi_library(version: str) -> dict[str, str]:
    """Return the variables with which mpi4py uses this version's library."""
    if version == "5.0":
        return {}
    mpirun(version)
    return {"MPI4PY_LIBMPI": str(next(Path("/usr/lib").glob("*/libmpi.so.40")))}


def hosts(job: Job) -> list[str]:
    """Return the arguments that start one rank on each worker."""
    return ["--hostfile", "/mnt/bireme/hostfile", "-np", str(len(job.workers)), "--map-by", "node"]


class Rank:
    """What `RANK` has written down."""

    def __init__(self, job: Job, number: int) -> None:
        self._file = job.output / str(number)

    @property
    def arguments(self) -> list[str]:
        return self._words(".arguments")

    @property
    def environment(self) -> dict[str, str]:
        return dict(word.split("=", 1) for word in self._words(".environment"))

    @property
    def facts(self) -> list[str]:
        """Return host name, working directory, uid and groups."""
        return self._file.with_suffix(".facts").read_text().splitlines()

    def _words(self, suffix: str) -> list[str]:
        return self._file.with_suffix(suffix).read_text().split("\0")[:-1]
