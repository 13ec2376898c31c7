"""`bireme-sim`: run the simulation, and look at what it found."""

import sys
import time
from pathlib import Path

import click
import msgspec

from bireme.cli.failures import Failure, Group
from bireme.cli.output import echo
from bireme.testing.simulation.campaign import Figures, run_seeds
from bireme.testing.simulation.catalogue import SORTS, play, tape_of
from bireme.testing.simulation.course import Result
from bireme.testing.simulation.scenarios import SCENARIOS
from bireme.testing.simulation.shrink import shrink
from bireme.testing.simulation.tape import Tape, decode, encode

_MOST_SHOWN = 3


@click.group(cls=Group)
def main() -> None:
    """Run the controller in a simulated cluster in which everything breaks that can break."""


@main.command()
@click.option("--seeds", type=click.IntRange(1), default=500, show_default=True, help="How many.")
@click.option("--start", type=click.IntRange(0), default=0, show_default=True, help="The first seed.")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Processes at once.")
def run(seeds: int, start: int, jobs: int) -> None:
    """Play random seeds; the first failures are shown with the fewest faults that lead to them."""
    began, total = time.monotonic(), Figures()
    for figures in run_seeds(range(start, start + seeds), jobs):
        total = total.plus(figures)
        _report_progress(total, seeds)
    seconds = time.monotonic() - began
    for tape in total.failures[:_MOST_SHOWN]:
        _show_failure(tape)
    if total.failures:
        echo(f"failed seeds: {', '.join(str(tape.seed) for tape in total.failures)}")
    echo(
        f"{total.runs} seeds, {len(total.failures)} failed, {total.runs / seconds * 60:.0f} seeds/min,"
        f" {total.faults} faults injected, {total.calls} calls, {total.writes} writes"
    )
    sys.exit(1 if total.failures else 0)


def _report_progress(total: Figures, seeds: int) -> None:
    if sys.stderr.isatty():
        echo(f"\r{total.runs} of {seeds} seeds, {len(total.failures)} failed", nl=False, err=True)


def _show_failure(tape: Tape) -> None:
    failure = shrink(play(tape), play)
    echo(f"seed {tape.seed}, {len(tape.faults)} faults, of which {len(failure.tape.faults)} are needed:")
    _show(failure, leases=False)
    echo(encode(failure.tape))


@main.command()
@click.argument("seed", type=int, required=False)
@click.option("--tape", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A tape to play.")
@click.option("--leases", is_flag=True, help="Show the renewals of leases too.")
def replay(seed: int | None, tape: Path | None, *, leases: bool) -> None:
    """Play one SEED, or a tape from a file, and print what happened."""
    if (seed is None) == (tape is None):
        raise click.UsageError("give either a SEED or --tape FILE")
    result = play(_read(tape) if tape is not None else tape_of(seed or 0))
    _show(result, leases=leases)
    sys.exit(0 if result.is_clean else 1)


def _read(path: Path) -> Tape:
    try:
        tape = decode(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise Failure(
            f"{path} is no tape: {error}", "`bireme-sim run` prints the tape of what fails"
        ) from error
    if tape.scenario not in SCENARIOS:
        raise Failure(f"{path}: scenario: {tape.scenario!r} is none", f"there are: {', '.join(SCENARIOS)}")
    unknown = [str(fault) for fault in tape.faults if fault.name not in SORTS]
    if unknown:
        raise Failure(f"{path}: faults: {unknown[0]!r} is none", f"there are: {', '.join(SORTS)}")
    return tape


def _show(result: Result, *, leases: bool) -> None:
    echo(f"{result.tape.scenario}, schedule {result.tape.seed}")
    for line in result.trace.lines():
        if leases or not ("/leases" in line or " Lease " in line):
            echo(line)
    for violation in result.violations:
        echo(f"broken: {violation.oracle}: {violation.message}")
    echo(f"{result.calls} calls, {result.writes} writes, {len(result.fired)} faults")


if __name__ == "__main__":
    main()
