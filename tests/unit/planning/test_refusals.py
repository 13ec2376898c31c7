"""What the real mpirun of Open MPI 4.1 and 5.0 says where it starts no rank, and what is made of it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.launcher_words import cause

CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "mpirun-refusals.yaml").read_text()
)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_mpiruns_refusal_becomes_one_line(case: dict[str, Any]) -> None:
    first = cause(case["said"])
    expected = case["first"]
    assert first.message == expected["message"]
    assert (first.replica, first.rank) == (expected.get("replica", "job-launcher"), expected.get("rank"))
    assert (first.exit_code, first.signal) == (expected.get("exitCode", 1), None)
    assert first.reason == expected["reason"]


def test_a_program_that_quotes_mpirun_in_its_own_words_has_not_been_refused() -> None:
    assert cause("my log: unknown option, not enough slots\n").reason == ""


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("/etc/bireme/stdin: 28: exec: ./solver: not found", "can't run ./solver: No such file or directory"),
        ("/etc/bireme/stdin: 36: exec: solver: not found", "can't run solver: not found"),
        ("/x/stdin: line 28: ./solver: Permission denied", "can't run ./solver: Permission denied"),
    ],
    ids=["dash", "dash, on PATH", "bash"],
)
def test_a_rank_that_could_not_become_its_program_says_why(said: str, message: str) -> None:
    verdict = "The first process to do so was:\n\n  Process name: [[50104,1],2]\n  Exit code:    127\n"
    first = cause(f"{said}\n{said}\n{verdict}")
    assert (first.replica, first.rank, first.exit_code) == ("job-worker-1", 2, 127)
    assert (first.reason, first.message) == ("StartError", message)


LOST = """\
--------------------------------------------------------------------------
ORTE has lost communication with a remote daemon.

  HNP daemon   : [[14688,0],0] on node job-launcher
  Remote daemon: [[14688,0],2] on node job-worker-1

This is usually due to either a failure of the TCP network
connection to the node, or possibly an internal failure of
the daemon itself. We cannot recover from this failure, and
therefore will terminate the job.
--------------------------------------------------------------------------
"""


def test_the_worker_of_a_lost_daemon_is_named() -> None:
    first = cause(LOST)
    assert (first.replica, first.rank, first.reason) == ("job-worker-1", None, "DaemonLost")
    assert first.message == "mpirun lost its daemon on job-worker-1: it was killed, or can't be reached"


ENDED = """\
Killed
------------------------------------------------------------
A daemon failed to report back after being spawned. This could
be due to several factors, including inability to find the
daemon executable, or the executable was unable to find its
required supporting libraries. In some cases, the daemon was
able to execute, but was unable to complete a TCP connection
back to prterun:

  Local host:    job-launcher
  Remote host:   job-worker-1
  Daemon exit status: 137

This may also be caused by a firewall on the remote host. Please
check that any firewall (e.g., iptables) has been disabled and
try again.
------------------------------------------------------------
"""


def test_the_worker_of_a_daemon_whose_agent_ended_first_is_named() -> None:
    first = cause(ENDED)
    assert (first.replica, first.rank, first.reason) == ("job-worker-1", None, "DaemonLost")
    told = "mpirun's daemon on job-worker-1 ended with code 137: it was killed, or can't be run or reached"
    assert first.message == told


def test_a_daemon_that_the_kernel_killed_was_lost_for_want_of_memory() -> None:
    first = cause(f"{LOST}bireme: the kernel killed a process of job-worker-1 for want of memory")
    assert (first.replica, first.reason) == ("job-worker-1", "OOMKilled")
