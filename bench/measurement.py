"""How a benchmark measures a command, and what it reports."""

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

BIN = Path(sys.executable).parent


class Result(NamedTuple):
    """A figure and the limit that the docs state for it; smaller is better, unless it is a rate."""

    name: str
    measured: float
    limit: float
    unit: str
    note: str = ""
    at_least: bool = False

    @property
    def kept(self) -> bool:
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    @property
    def line(self) -> str:
        """As it is printed, also where we lose."""
        figure = f"{self.measured:.2f}" if self.measured < 100 else f"{self.measured:.0f}"
        verdict = "kept" if self.kept else "MISSED"
        return f"{self.name}: {figure} {self.unit} (limit {self.limit:g} {self.unit}, {verdict}) {self.note}"


def run_seconds(command: Sequence[str | Path]) -> float:
    """Wall time of one run; a command that fails is no measurement."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def medians(commands: Sequence[Sequence[str | Path]], *, runs: int) -> list[float]:
    """The median of each command, run in turn so that a slow moment of the machine hits all of them."""
    times: list[list[float]] = [[] for _ in commands]
    for _ in range(runs):
        for command, collected in zip(commands, times, strict=True):
            collected.append(run_seconds(command))
    return [statistics.median(collected) for collected in times]
