"""Ping-pong and allreduce take as long as with a bare mpirun that uses the same transport.

Ranks of one worker share memory, as those of a plain mpirun do. Ranks of several workers use TCP, as those of
`mpirun --mca btl self,tcp` do.
"""

import json

import pytest
from bench.comparison import Sample

from support.real import LATENCY_LIMIT, PROGRAMS, Lab, Layout, Program, Run, open_mpi

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("real")]

FIGURES = [
    f"{call} {size} B"
    for call, sizes in (("ping-pong", (0, 65_536, 1_048_576)), ("allreduce", (8, 65_536, 1_048_576)))
    for size in sizes
]
LAYOUTS = [Layout(2, 1), Layout(1, 2), Layout(2, 2), Layout(1, 4)]
# Open MPI 5 is in .venv; an mpi4py for 4.1 is only there after `make real`.
CASES = [
    *(pytest.param("5.0", layout, marks=pytest.mark.real_slice) for layout in LAYOUTS[:2]),
    *(pytest.param("5.0", layout) for layout in LAYOUTS[2:]),
    *(pytest.param("4.1", layout) for layout in LAYOUTS),
]


def read_figures(run: Run) -> Sample:
    """Return the microseconds that rank 0 prints."""
    lines = [line for line in run.output.splitlines() if line.startswith("{")]
    assert len(lines) == 1, run.output
    figures: dict[str, float] = json.loads(lines[0])
    return Sample(figures, sorted(figures))


@pytest.mark.parametrize(("version", "layout"), CASES, ids=str)
def test_ranks_reach_each_other_as_fast_as_with_mpirun(lab: Lab, version: str, layout: Layout) -> None:
    mpi = open_mpi(version)
    transport = "self,tcp" if layout.workers > 1 else None
    words = [mpi.python, str(PROGRAMS / "latency.py")]
    program = Program("", words, read_figures, unit="µs", transport=transport, most_seconds=120)
    lab.compare(program, mpi, layout, dict.fromkeys(FIGURES, LATENCY_LIMIT))
