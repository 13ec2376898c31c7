"""LAMMPS and HPC Challenge of Debian, with Debian's Open MPI 4.1: same numbers, and about the same time."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.comparison import Sample

from support.real import PROGRAMS, Lab, Layout, Program, Run, debian_mpi, need, wall_time

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("real")]

LAYOUTS = [Layout(2, 1), Layout(1, 2), Layout(2, 2), Layout(1, 4)]
HPCC_INPUT = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
HPCC_SIZES = {Layout(2, 1): 1000, Layout(1, 2): 2500, Layout(2, 2): 1000, Layout(1, 4): 1000}
"""Rows of HPL's matrix, for runs of some seconds; the other tests derive their sizes from it."""


def lammps(steps: int, read: Callable[[Run], Sample]) -> Program:
    """A melt of 32,000 atoms."""
    words = [need("lmp", "lammps"), "-in", "melt.in", "-log", "none", "-var", "steps", str(steps)]
    files = {"melt.in": (PROGRAMS / "melt.in").read_text()}
    return Program("LAMMPS melt", words, read, files=files)


def thermo(run: Run) -> list[str]:
    """Return the lines of temperature, energy and pressure, digit by digit."""
    lines = re.findall(r"^ +\d+(?: +-?[\d.]+){5} *$", run.output, re.MULTILINE)
    assert len(lines) > 1, run.output
    return lines


def loop_time(run: Run) -> Sample:
    """Measure by LAMMPS's own clock, without its start."""
    seconds = re.search(r"^Loop time of ([\d.]+)", run.output, re.MULTILINE)
    assert seconds is not None, run.output
    return Sample({"loop": float(seconds[1])}, thermo(run))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_lammps_takes_as_long_as_with_mpirun(lab: Lab, layout: Layout) -> None:
    program = lammps(800, wall_time(thermo))
    lab.compare(program, debian_mpi(), layout, {"": layout.time_limit})


@pytest.mark.real_slice
@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=str)
def test_lammps_computes_at_the_speed_of_mpirun(lab: Lab, layout: Layout) -> None:
    lab.compare(lammps(50, loop_time), debian_mpi(), layout, {"loop": layout.time_limit})


def hpcc_input(layout: Layout) -> str:
    """Return the packaged input with a matrix of another size and a grid of one row."""
    text = HPCC_INPUT.read_text()
    for value, label in ((HPCC_SIZES[layout], "Ns"), (1, "Ps"), (layout.ranks, "Qs")):
        text, changes = re.subn(rf"^\S+( +{label})$", rf"{value}\1", text, flags=re.MULTILINE)
        assert changes == 1, label
    return text


def hpcc_results(run: Run) -> list[str]:
    """Return what its tests verified, with the residual of HPL.

    Speeds, numbers of repetitions and the residual of DGEMM, whose matrix is seeded with the time, are left
    out: they differ between two bare runs, too.
    """
    text = (run.folder / "hpccoutf.txt").read_text(errors="replace")
    assert "Success=1" in text, text[-3000:]
    verified = r"^(?:HPL_N|PTRANS_residual|\w*Errors|\w*maxErr)=.*$"
    found = re.findall(rf"{verified}|^.*Ax-b.*(?:PASSED|FAILED)$", text, re.MULTILINE)
    assert len(found) > 5, text[-3000:]
    return found


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_hpcc_takes_as_long_as_with_mpirun(lab: Lab, layout: Layout) -> None:
    words = [need("hpcc", "hpcc")]
    files = {"hpccinf.txt": hpcc_input(layout)}
    # Most of its time is spent with small messages: the transport decides, not the processors.
    transport = "self,tcp" if layout.workers > 1 else None
    program = Program("HPC Challenge", words, wall_time(hpcc_results), files=files, transport=transport)
    lab.compare(program, debian_mpi(), layout, {"": layout.time_limit})
