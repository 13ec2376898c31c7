"""`bireme wait`: until a job has come to a state."""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import click

from bireme.cli.durations import duration, shown
from bireme.cli.failures import TIMED_OUT, Failure, say
from bireme.cli.lookup import Found, find, only
from bireme.cli.places import Asked, target_options
from bireme.cli.sending import versions
from bireme.cli.targets import Connection, Target, choose, connected, run
from bireme.run.jobs import is_condition, is_finished, is_stopped, phase

Object = dict[str, Any]
Test = Callable[[Object], bool]

# A job that has succeeded has run.
_PHASES = {
    "succeeded": ("Succeeded",),
    "failed": ("Failed",),
    "running": ("Running", "Succeeded"),
}
_WORDS = (*_PHASES, "paused", "finished", "delete")


class Goal(NamedTuple):
    """What to wait for. `counts` tells whether a job that has come there did well."""

    word: str
    test: Test
    counts: Test = lambda _: True
    is_deletion: bool = False

    def is_over(self, job: Object) -> bool:
        """Whether the job has come there, or can't any more."""
        return self.test(job) or (is_finished(job) and not self.is_deletion)


@click.command()
@click.argument("word", metavar="JOB")
@click.option(
    "--for",
    "state",
    metavar=f"{'|'.join(_WORDS)}|condition=X",
    help="What to wait for. Without it: the end, and only success counts.",
)
@click.option("--timeout", type=duration, help="Give up after this time, such as 25s or 10m.")
@target_options
def command(word: str, state: str | None, timeout: timedelta | None, asked: Asked) -> None:
    """Wait until a job has ended, or has come to another state.

    Exit status: 0 if it has come there; 1 if it ended otherwise, or is gone; 124 if the time was up.
    """
    goal = read_goal(state)
    raise SystemExit(run(_wait(choose(asked), asked.namespace, word, goal, timeout)))


def read_goal(state: str | None) -> Goal:
    """The goal that a word stands for. Raises click.UsageError."""
    if state is None:
        return Goal("finished", is_finished, lambda job: phase(job) == "Succeeded")
    word = state.lower()
    if word in _PHASES:
        return Goal(word, lambda job: phase(job) in _PHASES[word])
    if word == "paused":
        return Goal(word, is_stopped)
    if word == "finished":
        return Goal(word, is_finished)
    if word == "delete":
        return Goal("gone", lambda _: False, is_deletion=True)
    name, _, value = state.partition("=")
    condition, _, wanted = value.partition("=")
    if name.lower() != "condition" or not condition:
        raise click.UsageError(f"--for {state}: not a state\n\nhint: one of {', '.join(_WORDS)}, condition=X")
    expected = wanted.lower() != "false"
    return Goal(value, lambda job: is_condition(job, condition) == expected)


async def _wait(
    target: Target, namespace: str | None, word: str, goal: Goal, timeout: timedelta | None
) -> int:
    async with connected(target, namespace) as connection:
        try:
            async with asyncio.timeout(timeout.total_seconds() if timeout else None):
                found = await _find(connection, word, goal)
                job = None if found is None else await until(connection, found, goal)
        except TimeoutError:
            after = shown(timeout or timedelta())
            raise Failure(f"{word} is not {goal.word} after {after}", exit_code=TIMED_OUT) from None
    return verdict(word, goal, job)


def verdict(word: str, goal: Goal, job: Object | None) -> int:
    """Say what has come of the wait, and return the exit code; None is a job that is gone."""
    if job is None:
        say(f"{word} is gone")
        return 0 if goal.is_deletion else 1
    say(f"{word} is {phase(job)}")
    return 0 if goal.test(job) and goal.counts(job) else 1


async def _find(connection: Connection, word: str, goal: Goal) -> Found | None:
    """The job; one that is gone already is fine where that is the goal."""
    found = await find(connection, word)
    return None if goal.is_deletion and not found else only(found, word, "job")


async def until(connection: Connection, found: Found, goal: Goal) -> Object | None:
    """The job as it is when the wait is over; None if it is gone."""
    metadata = found.object["metadata"]
    changes = versions(connection.client, found.resource, metadata["namespace"], metadata["name"])
    async with contextlib.aclosing(changes):
        async for job in changes:
            if job is None or job["metadata"]["uid"] != metadata["uid"]:
                return None
            if goal.is_over(job):
                return job
    return None
