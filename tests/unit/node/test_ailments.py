"""What is said of probes and hooks that fail, and what of it a container is ended for."""

import pytest

from bireme.node.ailments import Report, blame, report_hook, report_probe
from bireme.node.orders import ProbeName, RunProbe
from bireme.node.seen import History

FIRST = History(last=False, in_a_row=1)
SECOND = History(last=False, in_a_row=2)
LAST = History(last=False, in_a_row=3, verdict=False)

PROBES: dict[str, tuple[ProbeName, History, list[str]]] = {
    "the first failure": ("livenessProbe", FIRST, ["Unhealthy"]),
    "one more": ("livenessProbe", SECOND, []),
    "the one that ends the container": ("livenessProbe", LAST, ["Unhealthy", "Killing"]),
    "the one that ends the start": ("startupProbe", LAST, ["Unhealthy", "Killing"]),
    "one of a container that has long not been ready": ("readinessProbe", LAST, []),
    "one that is the first and the last": (
        "livenessProbe",
        History(last=False, in_a_row=1, verdict=False),
        ["Unhealthy", "Killing"],
    ),
}


@pytest.mark.parametrize(("name", "past", "reasons"), PROBES.values(), ids=PROBES)
def test_what_is_new_of_a_failed_probe_is_told(name: ProbeName, past: History, reasons: list[str]) -> None:
    reports = report_probe(RunProbe("main", 0, name), "exit code 1", past, restarts=True)
    assert [each.reason for each in reports] == reasons
    assert bool(blame(reports)) is ("Killing" in reasons)


def test_a_container_that_stays_down_is_not_said_to_be_restarted() -> None:
    said, end = report_probe(RunProbe("main", 0, "livenessProbe"), "no", LAST, restarts=False)
    assert said == Report("Warning", "Unhealthy", "Liveness probe failed: no")
    assert end == Report("Normal", "Killing", "Container main failed liveness probe")


def test_a_container_is_ended_for_its_hook_after_the_start_and_not_for_the_one_before_the_end() -> None:
    assert blame(report_hook("postStart", "no")) == "PostStartHook failed: no"
    assert report_hook("preStop", "no") == (Report("Warning", "FailedPreStopHook", "PreStopHook failed: no"),)
    assert blame(report_hook("preStop", "no")) == ""
