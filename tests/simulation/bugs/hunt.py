"""How soon the simulation finds each planted bug; `python -m simulation.bugs.hunt` writes the table anew."""

import sys
from pathlib import Path
from typing import NamedTuple

from bireme.testing.simulation.catalogue import clean_state, play, tape_of
from bireme.testing.simulation.course import Result
from bireme.testing.simulation.scenarios import SCENARIOS
from simulation.bugs import BUGS
from simulation.bugs.planting import Bug, planted

PAGE = Path(__file__).parents[3] / "docs/concepts/simulation.md"
BEGIN = (
    "<!-- The table of planted bugs: `PYTHONPATH=tests python -m simulation.bugs.hunt` writes it anew. -->\n"
)
END = "<!-- End of the table. -->\n"
MOST_SEEDS = 2000


class Catch(NamedTuple):
    """By which oracle a bug was found, and with which seed."""

    bug: str
    oracle: str
    seed: int


def try_seed(bug: Bug, seed: int) -> Result:
    """One run with the bug; clean runs to compare with must have been made before (`prepare`)."""
    with planted(bug):
        return play(tape_of(seed))


def prepare() -> None:
    """Make the clean runs of all scenarios, while there is no bug."""
    for scenario in SCENARIOS:
        clean_state(scenario)


def hunt(bug: Bug, most_seeds: int = MOST_SEEDS) -> Catch | None:
    """The first seed that finds the bug."""
    prepare()
    for seed in range(most_seeds):
        result = try_seed(bug, seed)
        if not result.is_clean:
            return Catch(bug.name, result.violations[0].oracle, seed)
    return None


def read_table() -> dict[str, Catch]:
    """The table of the page, by the name of the bug."""
    rows = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {bug: Catch(bug, oracle, int(seeds) - 1) for bug, oracle, seeds in cells}


def write_table(catches: list[Catch]) -> None:
    lines = ["| bug | found by | after seeds |", "|---|---|---|"]
    lines += [f"| {bug} | {oracle} | {seed + 1} |" for bug, oracle, seed in catches]
    head, _, rest = PAGE.read_text().partition(BEGIN)
    tail = rest.partition(END)[2]
    PAGE.write_text(head + BEGIN + "\n".join(lines) + "\n" + END + tail)


def main() -> None:
    catches = []
    for bug in BUGS:
        caught = hunt(bug)
        print(caught or f"{bug.name}: not found", file=sys.stderr, flush=True)
        if caught is not None:
            catches.append(caught)
    write_table(catches)
    sys.exit(0 if len(catches) == len(BUGS) else 1)


if __name__ == "__main__":
    main()
