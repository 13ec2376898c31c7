"""Launchers succeed only if mpirun lost no daemon; workers that stop let their ranks finish."""

import os
import signal
import subprocess
from typing import Final

import pytest

from scripts.jobs import Job, MakeJob
from scripts.mpi import hosts, mpirun
from scripts.pods import UNKNOWN_UID, Container, eventually

VERSIONS: Final = ("4.1", "5.0")
DAEMON: Final = {"4.1": "orted", "5.0": "prted"}
INCOMPLETE: Final = 122
STOPPED: Final = 143
WAIT: Final = "until [ -e /mnt/output/go ]; do sleep 0.1; done"
MEET: Final = 'touch "/mnt/output/here.$OMPI_COMM_WORLD_RANK"; '
SAVE: Final = """
save() { sleep 3; echo "$OMPI_COMM_WORLD_RANK" >>/mnt/output/saved; exit 0; }
trap save TERM
"""


def start(job: Job, version: str, script: str, env: dict[str, str] | None = None) -> Container:
    """Run a script on each worker, under the real mpirun, and wait until all have begun."""
    launcher = job.launch(mpirun(version), *hosts(job), "/bin/sh", "-c", MEET + script, env=env)
    eventually(lambda: len(list(job.output.glob("here.*"))) == len(job.workers), "ranks have begun")
    return launcher


def kill_daemon(worker: Container, version: str) -> None:
    for pid in worker.find(DAEMON[version]):
        os.kill(pid, signal.SIGKILL)


def stop(job: Job, workers: list[Container]) -> list["subprocess.Popen[bytes]"]:
    """Run the hook of every worker, as kubelets do when pods are deleted."""
    pairs = zip(job.workers, workers, strict=True)
    return [pod.exec(worker, "/bin/sh", "/mnt/bireme/stop") for pod, worker in pairs]


def records(job: Job) -> list[str]:
    return [path.name for path in job.launcher.volume("ssh").glob("bireme-run.*")]


@pytest.mark.parametrize("shell", ["dash", "ash"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_that_loses_no_daemon_succeeds_and_leaves_no_file(
    make_job: MakeJob, version: str, shell: str
) -> None:
    job = make_job(shell)
    job.start_workers()
    launcher = start(job, version, f"{WAIT}; echo done")
    assert len(records(job)) == 1
    (job.output / "go").touch()
    assert launcher.ok() == "done\ndone\n"
    assert records(job) == []


@pytest.mark.parametrize(("shell", "uid"), [("dash", 0), ("ash", UNKNOWN_UID)])
@pytest.mark.parametrize("version", VERSIONS)
def test_no_output_is_lost_when_its_reader_is_slow(
    make_job: MakeJob, version: str, shell: str, uid: int
) -> None:
    job = make_job(shell, uid)
    job.start_workers()
    slow = '/bin/sh /mnt/bireme/launch "$@" | { sleep 3; wc -c; }'
    (job.launcher.volume("bireme") / "slow").write_text(slow)
    lines = "i=0; while [ $i -lt 10000 ]; do printf '%099d\\n' $i; i=$((i + 1)); done"
    launcher = job.start_launcher("slow", mpirun(version), *hosts(job), "/bin/sh", "-c", lines)
    assert int(launcher.ok()) == 100 * 10_000 * len(job.workers), launcher.stderr


@pytest.mark.parametrize(("shell", "uid"), [("dash", 0), ("ash", UNKNOWN_UID)])
def test_a_success_of_open_mpi_5_is_not_believed_after_a_daemon_was_lost(
    make_job: MakeJob, shell: str, uid: int
) -> None:
    job = make_job(shell, uid)
    workers = job.start_workers()
    launcher = start(job, "5.0", WAIT)
    kill_daemon(workers[1], "5.0")
    assert launcher.wait() == INCOMPLETE
    words = "mpirun exited with 0, but its daemon on job-worker-1 was lost (exit code 137)"
    assert job.launcher.termination_log == f"{words}: the run is incomplete\n"


AGENT: Final = """
$PRTE_MCA_plm_ssh_agent job-worker-0 "sleep $1" </dev/null >/dev/null 2>&1 &
until set -- "$BIREME_RECORDS"/*.* && [ -e "$1" ]; do sleep 0.1; done
"""
"""Starts an agent as mpirun does, for a daemon that runs for so many seconds, and exits with 0 before it."""


def test_a_daemon_may_end_some_seconds_after_mpirun(make_job: MakeJob) -> None:
    """As on a machine with much else to do."""
    job = make_job()
    job.start_workers()
    assert job.launch("/bin/sh", "-c", AGENT, "sh", "8").wait() == 0


def test_a_success_is_not_believed_if_a_daemon_does_not_end(make_job: MakeJob) -> None:
    job = make_job()
    job.start_workers()
    launcher = job.launch("/bin/sh", "-c", AGENT, "sh", "600", env={"BIREME_RECORD_SECONDS": "1"})
    assert launcher.wait() == INCOMPLETE
    words = "mpirun exited with 0, but its daemon on job-worker-0 has not ended: the run may be incomplete"
    assert job.launcher.termination_log == f"{words}\n"


def test_open_mpi_4_fails_by_itself_after_a_daemon_was_lost(make_job: MakeJob) -> None:
    job = make_job()
    workers = job.start_workers()
    launcher = start(job, "4.1", WAIT)
    kill_daemon(workers[1], "4.1")
    assert launcher.wait() not in (0, INCOMPLETE)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_worker_that_is_killed_fails_the_run(make_job: MakeJob, version: str) -> None:
    job = make_job()
    workers = job.start_workers()
    launcher = start(job, version, WAIT)
    workers[1].kill()
    assert launcher.wait() != 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_worker_that_is_cut_off_fails_the_run(make_job: MakeJob, version: str) -> None:
    job = make_job()
    config = job.launcher.volume("bireme") / "ssh_config"
    config.write_text(config.read_text().replace("ServerAliveInterval 15", "ServerAliveInterval 1"))
    job.start_workers()
    launcher = start(job, version, WAIT)
    job.workers[1].cut_off()
    assert launcher.wait() != 0


@pytest.mark.parametrize(("shell", "uid"), [("dash", 0), ("ash", UNKNOWN_UID)])
@pytest.mark.parametrize("version", VERSIONS)
def test_ranks_of_workers_that_stop_have_time_to_save(
    make_job: MakeJob, version: str, shell: str, uid: int
) -> None:
    job = make_job(shell, uid)
    workers = job.start_workers()
    launcher = start(job, version, SAVE + WAIT)
    launcher.signal(signal.SIGTERM)
    hooks = stop(job, workers)
    assert launcher.wait() == STOPPED
    assert sorted((job.output / "saved").read_text().split()) == ["0", "1"]
    assert [hook.wait(60) for hook in hooks] == [0, 0]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_whose_worker_stops_has_not_succeeded(make_job: MakeJob, version: str) -> None:
    """The launcher is not asked to stop: the node of one worker is drained."""
    job = make_job()
    workers = job.start_workers()
    launcher = start(job, version, SAVE + WAIT)
    hooks = stop(job, workers)
    assert launcher.wait() != 0
    assert [hook.wait(60) for hook in hooks] == [0, 0]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rank_that_does_not_handle_term_ends_at_once(make_job: MakeJob, version: str) -> None:
    job = make_job()
    workers = job.start_workers()
    launcher = start(job, version, WAIT)
    launcher.signal(signal.SIGTERM)
    hooks = stop(job, workers)
    assert launcher.ends(20)
    assert launcher.wait() != 0
    assert [hook.wait(60) for hook in hooks] == [0, 0]
