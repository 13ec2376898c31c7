"""How long the command line takes to start, beside the library that it stands on."""

import sys

from bench.measurement import BIN, Result, medians

LIMIT = 2.5


def measure(*, runs: int = 21) -> list[Result]:
    """`bireme --version` as a multiple of `python -c "import click"`."""
    ours, base = medians([[BIN / "bireme", "--version"], [sys.executable, "-c", "import click"]], runs=runs)
    note = f"{ours * 1000:.0f} ms against {base * 1000:.0f} ms"
    return [Result('bireme --version ÷ python -c "import click"', ours / base, LIMIT, "×", note)]
