"""Run every benchmark, print a table, exit with 1 if a limit is missed."""

import sys

from bench import cli_start, controller, plan, validate


def main() -> int:
    """Print what was measured, also where we lose."""
    results = [result for module in (cli_start, validate, plan, controller) for result in module.measure()]
    results += controller.measure_growth()
    for result in results:
        verdict = "kept" if result.kept else "MISSED"
        figure = f"{result.measured:.2f}" if result.measured < 100 else f"{result.measured:.0f}"
        limit = f"limit {result.limit:g} {result.unit}, {verdict}"
        print(f"{result.name}: {figure} {result.unit} ({limit}) {result.note}")
    return 0 if all(result.kept for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
