"""mpi4py's own test suite and demos compute the same under Bireme, with Open MPI 5.0 and 4.1."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.comparison import Sample

from support.real import (
    LATENCY_LIMIT,
    Lab,
    Layout,
    OpenMPI,
    Program,
    ProgramError,
    Run,
    installed,
    open_mpi,
    wall_time,
)

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("real")]

VERSIONS = ["5.0", "4.1"]
SUITE_SECONDS = 1200.0
NO_SPAWN = ("-e", "spawn", "-e", "dynproc")
"""What spawns has demos of its own here."""
SLICE_OF_SUITE = ("-i", "p2p_obj|cco_obj|comm_topo|util_pool|win")
FEWEST_TESTS = 300
"""A selection that matches nothing passes, too."""
SUITE_CASES = [
    (version, layout) for layout in (Layout(2, 1), Layout(1, 2), Layout(2, 2)) for version in VERSIONS
]
OSU_SIZES = (8, 1024, 65_536, 1_048_576)


def demo(name: str) -> Path:
    return installed("mpi4py") / "demo" / name


def demo_name(name: str) -> str:
    """Return what the table calls it."""
    return f"mpi4py {Path(name).stem}"


# ---- the test suite


def suite_results(run: Run) -> list[str]:
    """Return how many tests ran, if all ranks say the same and none failed.

    How many were skipped is left out: tests of one-sided calls skip where Open MPI 4.1 has only TCP.
    """
    ran = set(re.findall(r"Ran (\d+) tests", run.output))
    assert len(ran) == 1, run.output[-3000:]
    assert re.search(r"OK(?: \(skipped=\d+\))?$", run.output, re.MULTILINE), run.output[-3000:]
    assert "FAILED" not in run.output, run.output[-3000:]
    assert all(int(number) >= FEWEST_TESTS for number in ran), ran
    return sorted(ran)


def suite(mpi_python: str, selection: tuple[str, ...], name: str) -> Program:
    words = [mpi_python, str(installed("mpi4py") / "test/main.py"), "-f", *selection]
    return Program(name, words, wall_time(suite_results), transport="self,tcp", most_seconds=SUITE_SECONDS)


@pytest.mark.parametrize(("version", "layout"), SUITE_CASES, ids=str)
def test_suite_passes_in_the_time_of_mpirun(lab: Lab, version: str, layout: Layout) -> None:
    mpi = open_mpi(version)
    program = suite(mpi.python, NO_SPAWN, "mpi4py tests")
    if layout.workers == 1:
        program.transport = None
    lab.compare(program, mpi, layout, {"": layout.time_limit}, rounds=1, most_rounds=3)


@pytest.mark.real_slice
def test_selection_of_the_suite_passes(lab: Lab) -> None:
    mpi = open_mpi("5.0")
    program = suite(mpi.python, SLICE_OF_SUITE, "mpi4py tests, selection")
    lab.compare(program, mpi, Layout(2, 1), {}, rounds=1)


# ---- demos: they end within a second or two, so that only their results are compared


INTERVALS = "100000\n2000\n0\n"
ONE_SIDED = {
    "compute-pi/cpi-rma.py",
    "nxtval/nxtval-mpi3.py",
    "nxtval/nxtval-onesided.py",
    "nxtval/nxtval-scalable.py",
}
"""Open MPI 4.1 runs them within one machine only: between machines with TCP, its one-sided component refuses
MPI_THREAD_MULTIPLE, which mpi4py asks for."""
DEMOS: dict[str, tuple[str | None, str]] = {
    # standard input, and the pattern of each piece of the result
    "compute-pi/cpi-cco.py": (INTERVALS, "pi is approximately .*"),
    "compute-pi/cpi-rma.py": (INTERVALS, "pi is approximately .*"),
    "mandelbrot/mandelbrot.py": (None, r"\(task \d+\)"),
    "nxtval/nxtval-mpi3.py": (None, "Traceback"),
    "nxtval/nxtval-onesided.py": (None, "Traceback"),
    "nxtval/nxtval-scalable.py": (None, "Traceback"),
    "nxtval/nxtval-threads.py": (None, "Traceback"),
}


def found(pattern: str) -> Callable[[Run], Sample]:
    """Take all matches, in the order of the text, as the result."""
    return wall_time(lambda run: re.findall(pattern, run.output))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", DEMOS)
def test_demo_computes_the_same(lab: Lab, version: str, name: str) -> None:
    mpi = open_mpi(version)
    stdin, pattern = DEMOS[name]
    program = Program(
        demo_name(name), [mpi.python, str(demo(name))], found(pattern), stdin=stdin, most_seconds=60
    )
    is_within_worker = version == "4.1" and name in ONE_SIDED
    lab.compare(program, mpi, Layout(1, 2) if is_within_worker else Layout(2, 1), {}, rounds=1)


# ---- demos of the Ohio State University's benchmarks


def osu_figures(run: Run) -> Sample:
    """Return microseconds for each size."""
    printed = dict(re.findall(r"^ *(\d+) +([\d.]+)$", run.output, re.MULTILINE))
    is_bandwidth = "Bandwidth" in run.output
    figures = {
        f"{size} B": size / float(printed[str(size)]) if is_bandwidth else float(printed[str(size)])
        for size in OSU_SIZES
    }
    return Sample(figures, sorted(printed))


@pytest.mark.parametrize("layout", [Layout(2, 1), Layout(1, 2)], ids=str)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["osu_latency.py", "osu_bw.py"])
def test_osu_demo_is_as_fast_as_with_mpirun(lab: Lab, version: str, layout: Layout, name: str) -> None:
    mpi = open_mpi(version)
    transport = "self,tcp" if layout.workers > 1 else None
    words = [mpi.python, str(demo(name))]
    program = Program(demo_name(name), words, osu_figures, unit="µs", transport=transport, most_seconds=120)
    lab.compare(program, mpi, layout, dict.fromkeys((f"{size} B" for size in OSU_SIZES), LATENCY_LIMIT))


# ---- ranks that start others


PRIMES = r"\d+ is prime: (?:True|False)"
FULL_FIRST_WORKER = (
    "Open MPI 4.1 maps as many spawned ranks to the first worker as it has slots, although their parent has "
    "one of these, and then reports that there are not enough"
)
# Open MPI 5 has no case with several workers. There the daemon of the first often crashes in
# pmix_server_dmdx_recv, on a request for data of a job that it knows only in part, and mpirun exits with 0.
SPAWNS = {
    "mpirun 5.0": ("5.0", Layout(1, 1), ["mpirun", "--oversubscribe"], None),
    "mpirun 4.1": ("4.1", Layout(1, 1), ["mpirun", "--oversubscribe"], None),
    "1 × 6 5.0": ("5.0", Layout(1, 6), ["run", "--mpi", "1", "--slots", "6", "--"], None),
    "1 × 6 4.1": ("4.1", Layout(1, 6), ["run", "--mpi", "1", "--slots", "6", "--"], None),
    "2 × 3 4.1": ("4.1", Layout(2, 3), ["run", "--mpi", "2", "--slots", "3", "--"], FULL_FIRST_WORKER),
}
SPAWN_CASES = [
    pytest.param(
        *case, id=name, marks=[pytest.mark.xfail(reason=reason, raises=ProgramError)] if reason else []
    )
    for name, (*case, reason) in SPAWNS.items()
]


def compare_spawning(lab: Lab, mpi: OpenMPI, layout: Layout, start: list[str], program: Program) -> None:
    """Start one rank, which spawns others."""
    bare = mpi.bare_command(["--oversubscribe", *program.words], Layout(1, 1))
    lab.compare_commands(program, mpi, layout, bare, [*start, "-n", "1", *program.words], {}, rounds=1)


@pytest.mark.parametrize(("version", "layout", "start"), SPAWN_CASES)
def test_cpi_master_spawns_five_workers(lab: Lab, version: str, layout: Layout, start: list[str]) -> None:
    mpi = open_mpi(version)
    source = demo("spawning/cpi-worker.py").read_text()
    words = [mpi.python, str(demo("spawning/cpi-master.py")), "./cpi-worker-py.exe"]
    files = {"cpi-worker-py.exe": f"#!{mpi.python}\n{source}"}
    name = demo_name("spawning/cpi-master.py")
    program = Program(name, words, found(r"pi: [\d.]+"), files=files, most_seconds=30)
    compare_spawning(lab, mpi, layout, start, program)


@pytest.mark.parametrize(("version", "layout", "start"), SPAWN_CASES)
def test_futures_spawn_their_workers(lab: Lab, version: str, layout: Layout, start: list[str]) -> None:
    mpi = open_mpi(version)
    words = [mpi.python, str(demo("futures/run_primes.py"))]
    program = Program("mpi4py.futures, spawned", words, found(PRIMES), most_seconds=30)
    compare_spawning(lab, mpi, layout, start, program)


@pytest.mark.parametrize("layout", [Layout(1, 4), Layout(2, 2)], ids=str)
@pytest.mark.parametrize("version", VERSIONS)
def test_futures_share_the_ranks_of_a_job(lab: Lab, version: str, layout: Layout) -> None:
    mpi = open_mpi(version)
    words = [mpi.python, "-m", "mpi4py.futures", str(demo("futures/run_primes.py"))]
    program = Program("mpi4py.futures, -m", words, found(PRIMES), most_seconds=90)
    lab.compare(program, mpi, layout, {}, rounds=1)
