"""`bireme doctor --wait`: it looks again while something is broken, and not for longer than it was told."""

import asyncio
from datetime import timedelta

import pytest

from bireme.cli.doctor import look_until_well
from bireme.installation.checkup import Finding
from unit.kube.scripted import InstantClock

BROKEN = Finding("controller-not-ready", "error", "0 of 2 pods are ready", "wait")
WARNED = Finding("node-not-ready", "warning", "1 node is not ready: a", "look")


@pytest.mark.parametrize(
    ("broken_looks", "seconds", "looks", "last"),
    [(2, 60, 3, WARNED), (100, 5, 3, BROKEN), (100, 0, 1, BROKEN), (0, 60, 1, WARNED)],
    ids=["gets well", "stays broken", "not asked to wait", "is well"],
)
def test_it_looks_again_while_something_is_broken(
    broken_looks: int, seconds: int, looks: int, last: Finding
) -> None:
    done = 0

    async def look() -> list[Finding]:
        nonlocal done
        done += 1
        return [BROKEN if done <= broken_looks else WARNED]

    findings = asyncio.run(look_until_well(look, InstantClock(), timedelta(seconds=seconds)))
    assert (findings, done) == ([last], looks)
