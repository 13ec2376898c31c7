"""What pods are held to where cgroups can be made, and what is said of it, also where they can't."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bireme.node.cgroups import Limits
from support.fixtures import unavailable
from support.here import Here, Object, generic, replica, shell
from support.mpi_rounds import STRANGER, python_as, python_of

pytestmark = pytest.mark.xdist_group("here")

HOG = """python3 -c 'import os; hoard = bytearray(os.urandom(1 << 20)) * 300'"""
ADVICE = "limits of memory and cpu are advice on this machine: it has no cgroup for us"

# As somebody to whom this machine gives no cgroup.
POWERLESS = """
import json, sys
from pathlib import Path
from support.here import Here, generic, replica
here = Here(Path(sys.argv[1]))
here.start()
try:
    kind = replica("a", "echo done", 2)
    kind["template"]["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi", "cpu": 1}}
    job = generic("free", kind)
    phase = here.play(job)["phase"]
    told = sorted(here.events("Substituted"))
    here.delete(job)
finally:
    here.stop()
json.dump({"phase": phase, "told": told, "limits": here.running.limits}, sys.stdout)
"""


def held(script: str, **limits: Any) -> Object:
    """A replica type whose container has limits."""
    kind = replica("a", script)
    kind["template"]["spec"]["containers"][0]["resources"] = {"limits": limits}
    return kind


def need(limit: str) -> None:
    if limit not in Limits().offered:
        raise unavailable(f"this machine lets nobody limit {limit}: run as root, or delegate cgroups")


def ends(pod: Object, state: str) -> Object:
    """How the container `main` ended, by its state or its last state."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    ended: Object = (statuses[0].get(state) or {}).get("terminated") or {}
    return ended


SCRIPTS = {
    "the first process": (f"exec {HOG}", 137),
    "a child, whose code is passed on": (f"true && {HOG}", 137),
    "a child, whose parent fails with another code": (f"{HOG} || exit 3", 3),
}


@pytest.mark.parametrize(("script", "code"), SCRIPTS.values(), ids=SCRIPTS)
def test_who_runs_out_of_memory_is_said_to_have(here: Here, script: str, code: int) -> None:
    need("memory")
    job = generic("hog", held(script, memory="64Mi"))
    first = here.play(job)["firstFailure"]
    assert (first["replica"], first["exitCode"], first["reason"]) == ("hog-a-0", code, "OOMKilled")
    here.delete(job)


def test_who_had_memory_enough_is_not_blamed_for_an_attempt_that_had_not(here: Here) -> None:
    need("memory")
    # The second attempt waits until the end of the first was seen: no status need tell of every attempt.
    again = "until test -e seen; do sleep 0.1; done; exit 3"
    script = f"cd {here.work}; if test -e again; then {again}; fi; touch again; exec {HOG}"
    limited = shell("main", script, resources={"limits": {"memory": "64Mi"}})
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "twice"},
        "spec": {"containers": [limited], "restartPolicy": "OnFailure"},
    }
    made = here.create(body)
    here.until_pod("twice", lambda pod: ends(pod, "lastState").get("reason") == "OOMKilled")
    (here.work / "seen").touch()
    here.until_pod("twice", lambda pod: ends(pod, "lastState").get("reason") == "Error")
    here.delete(made)


def test_a_container_gets_no_more_of_the_cpu_than_its_limit(here: Here) -> None:
    need("cpu")
    work = "import time\nbegun = time.monotonic()\nwhile time.process_time() < 0.3: pass\n"
    say = "print(time.monotonic() - begun)"
    kind = held("", cpu="100m")
    kind["template"]["spec"]["containers"][0]["command"] = ["python3", "-c", work + say]
    job = generic("slow", kind)
    assert here.play(job)["phase"] == "Succeeded"
    # A tenth of a CPU takes some 3 s for it; what Python needed for its start came out of the first period.
    assert float(here.output("slow-a-0")) > 1.5
    here.delete(job)


def test_limits_that_nobody_can_set_are_said_to_be_advice(home: Path) -> None:
    if os.getuid() != 0:
        raise unavailable("only root can be somebody else: run the tests as root")
    if python_of(STRANGER) is None:
        raise unavailable("another user can't run this Python, and the system's is of another version")
    result = json.loads(python_as(STRANGER, home, "-c", POWERLESS, str(home)))
    who = ["GenericJob/free", "Pod/free-a-0", "Pod/free-a-1"]
    assert result == {"phase": "Succeeded", "told": [[each, ADVICE] for each in who], "limits": []}
