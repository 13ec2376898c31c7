"""Run every benchmark, print a table, exit with 1 if a limit is missed."""

import sys

from bench import apiserver, cli_start, controller, embedded, plan, queues, scheduling, validate


def main() -> int:
    """Print what was measured, also where we lose."""
    modules = (cli_start, validate, plan, scheduling, apiserver, embedded, controller, queues)
    results = [result for module in modules for result in module.measure()]
    results += controller.measure_growth()
    for result in results:
        print(result.line)
    return 0 if all(result.kept for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
