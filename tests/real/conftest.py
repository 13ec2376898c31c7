"""The tier of real programs: one daemon for all, one table at the end.

The table goes to the terminal and, as JSON, to `real.json` in the virtual environment. BIREME_REAL=update
also writes it into docs/benchmarks.md: set that for a run of the whole tier.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.comparison import Row, format_table, replace_table, save

from support.commands import Bireme, daemon
from support.real import Lab

SAVED = Path(sys.prefix) / "real.json"
DOCUMENT = Path(__file__).parents[2] / "docs/benchmarks.md"
ROWS: list[Row] = []


@pytest.fixture(scope="session")
def bireme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bireme]:
    with daemon(tmp_path_factory.mktemp("real")) as commands:
        yield commands


@pytest.fixture
def lab(bireme: Bireme, tmp_path: Path) -> Lab:
    return Lab(bireme, tmp_path, ROWS)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not ROWS:
        return
    save(ROWS, SAVED)
    table = format_table(ROWS)
    terminalreporter.section("bare and under Bireme")
    terminalreporter.write_line(table)
    if os.environ.get("BIREME_REAL") == "update":
        DOCUMENT.write_text(replace_table(DOCUMENT.read_text(), table))
