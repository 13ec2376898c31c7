"""A launcher starts its program once it can log in to every worker, or says which it can't reach, and why."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from scripts.jobs import Job, Keys, MakeJob
from scripts.pods import eventually

HASTY: Final = {
    "BIREME_RESOLVE_SECONDS": "1",
    # As long as a connection may take, too: to a worker that is there it needs more than a moment at times.
    "BIREME_REACH_SECONDS": "3",
    "BIREME_REFUSED_SECONDS": "1",
}
LAST: Final = "job-worker-1"
SHELLS: Final = ("dash", "ash")


def start_listening(job: Job, index: int) -> None:
    """Start a worker, and wait for its sshd: whoever is hasty would be told that nobody is there yet."""
    job.start_worker(job.workers[index])
    job.workers[index].wait_listening()


def without_sshd(job: Job) -> None:
    start_listening(job, 0)


def without_name(job: Job) -> None:
    start_listening(job, 0)
    start_listening(job, 1)
    job.set_names(job.pods[:-1])


def with_a_client_key_of_another_job(job: Job) -> None:
    start_listening(job, 0)
    other_keys(job).give(job.workers[1], "authorized_keys")
    start_listening(job, 1)


def with_the_host_key_of_another_job(job: Job) -> None:
    start_listening(job, 0)
    other_keys(job).give(job.workers[1], "host_key")
    start_listening(job, 1)


def with_a_server_that_is_silent(job: Job) -> None:
    start_listening(job, 0)
    silent = "import socket, time; server = socket.create_server(('', 2222)); time.sleep(1000)"
    job.workers[1].start("/mnt/venv/bin/python", "-c", silent)
    job.workers[1].wait_listening()


def other_keys(job: Job) -> Keys:
    return Keys(job.output / "other-keys")


def reason_file(job: Job) -> Path:
    """Where the launcher keeps why it has not reached the last worker yet."""
    return job.launcher.volume("ssh") / "launch.1" / LAST


def says(file: Path, text: str) -> Callable[[], bool]:
    return lambda: file.exists() and file.read_text() == text


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("break_worker", "reason"),
    [
        (without_sshd, "connection refused"),
        (without_name, "name not found"),
        (with_a_client_key_of_another_job, "key refused"),
        (with_the_host_key_of_another_job, "host key not the expected one"),
        (with_a_server_that_is_silent, "timed out"),
    ],
)
def test_a_worker_that_cannot_be_reached_is_named_with_the_reason(
    make_job: MakeJob, shell: str, break_worker: Callable[[Job], None], reason: str
) -> None:
    job = make_job(shell)
    break_worker(job)
    launcher = job.launch("echo", "started", env=HASTY)
    assert launcher.wait() == 120
    assert launcher.stdout == ""
    last_line = f"worker {LAST} can't be reached: {reason}"
    assert launcher.stderr.splitlines()[-1] == f"bireme: {last_line}"
    assert job.launcher.termination_log == f"{last_line}\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_refusal_is_told_early(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell)
    with_a_client_key_of_another_job(job)
    launcher = job.launch("true")
    eventually(lambda: launcher.stderr, "a line on stderr", 50)
    assert launcher.stderr == f"bireme: worker {LAST}: key refused; trying for 60 s more\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_launcher_waits_for_a_name_longer_than_for_an_answer(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell)
    without_name(job)
    launcher = job.launch("echo", "started", env={"BIREME_REACH_SECONDS": "1"})
    eventually(says(reason_file(job), "name not found"), "the name is looked up")
    first = reason_file(job).stat().st_mtime
    eventually(lambda: reason_file(job).stat().st_mtime > first + 1.2, "it goes on")
    job.set_names(job.pods)
    assert launcher.ok() == "started\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_launcher_waits_for_a_worker_that_comes_late(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell)
    job.start_worker(job.workers[0])
    launcher = job.launch("echo", "started", env={"BIREME_PROGRESS_SECONDS": "1"})
    waiting = f"bireme: waiting for 1 of 2 workers: {LAST} (connection refused)\n"
    eventually(lambda: waiting in launcher.stderr, "a line of progress")
    job.start_worker(job.workers[1])
    assert launcher.ok() == "started\n"
    assert launcher.stderr.splitlines()[-1] == "bireme: all 2 workers are reachable"


@pytest.mark.parametrize("shell", SHELLS)
def test_term_ends_a_launcher_that_waits(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell)
    without_sshd(job)
    launcher = job.launch("true")
    eventually(says(reason_file(job), "connection refused"), "it has tried")
    launcher.signal(signal.SIGTERM)
    assert launcher.wait() == 143
    assert not reason_file(job).parent.exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_program_that_runs_no_mpirun_gets_term(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell)
    job.start_workers()
    script = 'printf "%s\\n" "$name" "$b_x"; trap "echo term; exit 9" TERM; sleep 1000 & wait'
    launcher = job.launch("/bin/sh", "-c", script, env={"name": "mine", "b_x": "too"})
    eventually(lambda: "too" in launcher.stdout, "the program has started")
    launcher.signal(signal.SIGTERM)
    assert launcher.wait() == 9
    assert launcher.stdout == "mine\ntoo\nterm\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_program_takes_the_launchers_place_if_asked_to(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell)
    job.start_workers()
    launcher = job.launch("--exec", "/bin/sh", "-c", 'printf "%s\\n" $$ "$b_x"', env={"b_x": "mine"})
    assert launcher.ok() == "1\nmine\n"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("program", ["no-such-mpirun", "/opt/no/bin/mpirun"])
def test_a_program_that_is_missing_is_named(make_job: MakeJob, shell: str, program: str) -> None:
    launcher = make_job(shell, workers=0).launcher.start("/bin/sh", "/mnt/bireme/launch", program, "x")
    assert launcher.wait() == 127
    assert launcher.stderr.startswith(f"bireme: the program {program} is not there (PATH is ")


# Writes how many of its kind run at the moment, and fails the first time it is called for a worker.
AGENT: Final = """
mkdir "/tmp/running.$1" || exit 1
set -- "$@" /tmp/running.*
echo $(($# - 2)) >>/mnt/output/running
sleep 0.1
rmdir "/tmp/running.$1"
case $2 in *Cpus_allowed_list*) ;; *) exit 0 ;; esac
mkdir "/tmp/called.$1" 2>/dev/null && { echo 'not yet' >&2; exit 1; }
exit 0
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_many_workers_are_tried_a_bounded_number_at_a_time(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell, workers=0)
    config = job.launcher.volume("bireme")
    (config / "hostfile").write_text("".join(f"w-{index} slots=8\n" for index in range(100)))
    (config / "agent").write_text(AGENT)
    agent = "/bin/sh /mnt/bireme/agent"
    variables = "OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "BIREME_RECORDED_AGENT"
    show = "".join(f'echo "${name}"; ' for name in variables) + "ls -A /mnt/ssh; ls -d /tmp/bireme*"
    launcher = job.launch("/bin/sh", "-c", f"{show}; true", env={"BIREME_AGENT": agent})
    recorder = "/bin/sh /mnt/bireme/record"
    assert launcher.ok() == f"{recorder}\n{recorder}\n{agent}\n/tmp/bireme-run.1\n"
    assert launcher.stderr.startswith("bireme: all 100 workers are reachable\n")
    running = [int(line) for line in (job.output / "running").read_text().split()]
    assert len(running) == 200
    assert max(running) <= 64


NOT_FOUND: Final = """
mkdir /tmp/called || exit 0
echo 'Error from server (NotFound): pods "w-0" not found' >&2
exit 1
"""


def test_a_pod_that_is_not_there_yet_is_like_a_name_that_does_not_resolve(make_job: MakeJob) -> None:
    job = make_job(workers=0)
    (job.launcher.volume("bireme") / "hostfile").write_text("w-0 slots=1\n")
    (job.launcher.volume("bireme") / "agent").write_text(NOT_FOUND)
    env = {"BIREME_AGENT": "/bin/sh /mnt/bireme/agent", "BIREME_REACH_SECONDS": "0"}
    assert job.launch("echo", "started", env=env).ok() == "started\n"


DEAF: Final = """
trap '' TERM
echo $$ >>/mnt/output/pids
while :; do sleep 1; done
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_a_login_that_hangs_and_hears_no_signal_is_killed(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell, workers=0)
    (job.launcher.volume("bireme") / "hostfile").write_text("w-0 slots=1\n")
    (job.launcher.volume("bireme") / "agent").write_text(DEAF)
    env = {
        "BIREME_AGENT": "/bin/sh /mnt/bireme/agent",
        "BIREME_REACH_SECONDS": "0",
        "BIREME_LOGIN_SECONDS": "1",
    }
    launcher = job.launch("echo", "started", env=env)
    assert launcher.wait() == 120
    assert launcher.stderr == "bireme: worker w-0 can't be reached: timed out\n"
    assert launcher.commands() == []


SHOW_DEFAULTS: Final = """
echo "yield=${OMPI_MCA_mpi_yield_when_idle-} hetero=${PRTE_MCA_prte_hetero_nodes-}"
echo "bind=$OMPI_MCA_hwloc_base_binding_policy,$PRTE_MCA_hwloc_default_binding_policy"
"""
LOGIN: Final = """
case $2 in *Cpus_allowed_list*) cat "/mnt/output/cpus.$1" ;; esac
"""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        (["A 0-3 2", "A 0-3 2"], "yield= hetero="),
        (["A 0-3 3", "A 0-3 2"], "yield=1 hetero="),
        (["A 0-3 4", "B 0-3 4"], "yield= hetero="),
        (["A 0-3 4", "B 0-3 5"], "yield=1 hetero="),
        (["A 0-1 2", "A 2-3 2"], "yield= hetero=1"),
        (["A 0,2 2", "A 4-5,7 4"], "yield=1 hetero=1"),
        (["A 7 1"], "yield= hetero="),
        (["A 7 2"], "yield=1 hetero="),
        (["", "A 0-1 2"], "yield= hetero="),
    ],
    ids=[
        "enough CPUs", "too few CPUs", "two machines", "too few on one of two machines",
        "CPUs of their own", "lists of CPUs", "one CPU", "one CPU for two ranks", "unknown",
    ],
)  # fmt: skip
def test_ranks_yield_where_a_machine_has_fewer_cpus(
    make_job: MakeJob, shell: str, workers: list[str], expected: str
) -> None:
    job = make_job(shell, workers=0)
    config = job.launcher.volume("bireme")
    slots = [worker.rpartition(" ")[2] or "1" for worker in workers]
    (config / "hostfile").write_text("".join(f"w-{n} slots={count}\n" for n, count in enumerate(slots)))
    (config / "agent").write_text(LOGIN)
    for number, worker in enumerate(workers):
        (job.output / f"cpus.w-{number}").write_text(worker.rpartition(" ")[0] + "\n")
    env = {"BIREME_AGENT": "/bin/sh /mnt/bireme/agent"}
    launcher = job.launch("/bin/sh", "-c", SHOW_DEFAULTS, env=env)
    assert launcher.ok() == f"{expected}\nbind=none,none\n"


def test_settings_of_the_containers_environment_win(make_job: MakeJob) -> None:
    job = make_job(workers=0)
    config = job.launcher.volume("bireme")
    (config / "hostfile").write_text("w-0 slots=9\n")
    (config / "agent").write_text(LOGIN)
    (job.output / "cpus.w-0").write_text("A 0\n")
    env = {
        "BIREME_AGENT": "/bin/sh /mnt/bireme/agent",
        "OMPI_MCA_mpi_yield_when_idle": "0",
        "OMPI_MCA_hwloc_base_binding_policy": "core",
        "PRTE_MCA_hwloc_default_binding_policy": "numa",
    }
    launcher = job.launch("/bin/sh", "-c", SHOW_DEFAULTS, env=env)
    assert launcher.ok() == "yield=0 hetero=\nbind=core,numa\n"


def test_arguments_that_bind_ranks_leave_the_binding_to_mpirun(make_job: MakeJob) -> None:
    job = make_job(workers=0)
    config = job.launcher.volume("bireme")
    (config / "hostfile").write_text("w-0 slots=1\n")
    (config / "agent").write_text(LOGIN)
    (job.output / "cpus.w-0").write_text("A 0\n")
    env = {"BIREME_AGENT": "/bin/sh /mnt/bireme/agent", "BIREME_MPI_BINDS": "1"}
    launcher = job.launch("/bin/sh", "-c", SHOW_DEFAULTS, env=env)
    assert launcher.ok() == "yield= hetero=\nbind=,\n"
