"""torchrun, or rather a stand-in for it, on every worker of a ColossalAIJob over real ssh."""

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from scripts.jobs import Job, MakeJob
from scripts.mpi import ARGUMENTS, Rank
from scripts.pods import PATH, SCRIPTS, UNKNOWN_UID, Container, eventually

SHELLS: Final = ("dash", "ash")
# Writes down what reached it, then does what the test wants.
TORCHRUN: Final = """#!/bin/sh
for option; do
    case $option in --node_rank=*) rank=${option#*=} ;; esac
done
out=/mnt/output/$rank
printf '%s\\0' "$@" >"$out.arguments"
cat /proc/self/environ >"$out.environment"
printf '%s\\n' "$(hostname)" "$PWD" "$(id -u)" "$(sed -n 's/SigIgn:.//p' /proc/self/status)" >"$out.facts"
. /mnt/output/play
"""
# A rank, as torchrun starts one: in a session of its own. It does not care for TERM.
STUBBORN_RANK: Final = "setsid sh -c 'trap \"\" TERM; : rank; while sleep 0.1; do :; done' &"
WAIT: Final = 'trap \'echo stopped >"$out.stopped"; exit 9\' TERM; echo ready >"$out.ready"; wait'
ENV: Final = {"PATH": f"/mnt/work/bin:{PATH}", "BOTH": "worker's", "OWN": "worker's"}


def play(job: Job, text: str, **env: str) -> list[Container]:
    """Start workers whose torchrun does this."""
    (job.output / "play").write_text(text)
    for worker in job.workers:
        (worker.volume("work") / "bin").mkdir()
        torchrun = worker.volume("work") / "bin/torchrun"
        torchrun.write_text(TORCHRUN)
        torchrun.chmod(0o755)
    job.set_torchrun("--log dir", "it's", "train.py", *ARGUMENTS, processes=3)
    return job.start_workers(ENV | env)


def start(job: Job, **env: str) -> Container:
    return job.start_launcher("torch-launch", env={"BIREME_STOP_SECONDS": "1", **env})


def await_ranks(job: Job) -> None:
    files = [job.output / f"{number}.ready" for number in range(len(job.workers))]
    eventually(lambda: all(file.exists() for file in files), "every rank is there")


def left(workers: list[Container]) -> list[str]:
    """Return what still runs of torchrun, its ranks and our scripts."""
    commands = [command for worker in workers for command in worker.commands()]
    return [command for command in commands if "sshd" not in command]


def await_nothing_left(workers: list[Container]) -> None:
    """What was killed is seen for a moment longer; ranks would stay for ever."""
    eventually(lambda: left(workers) == [], "nothing runs on the workers")


@pytest.mark.parametrize(("shell", "uid"), [("dash", 0), ("ash", UNKNOWN_UID), ("bash", 0)])
def test_every_node_gets_its_arguments_and_environment(make_job: MakeJob, shell: str, uid: int) -> None:
    job = make_job(shell, uid)
    workers = play(job, STUBBORN_RANK)
    sent = {
        "TOKEN": "it's \"secret\" $(no) `no` \\\n[ -n x ] || export OWN='stolen'\n\nend\n",
        "BOTH": "launcher's",
        "name": "lower case",
        "EMPTY": "",
        "text": "ours?",
        "UNSENT": "stays",
    }
    names = "TOKEN BOTH name EMPTY text UNKNOWN not-a-name"
    start(job, BIREME_ENV_NAMES=names, BIREME_PORT="29501", BIREME_WORKDIR="/mnt/work/bin", **sent).ok()
    for number, worker in enumerate(job.workers):
        node = Rank(job, number)
        assert node.arguments == [
            "--nnodes=2",
            f"--node_rank={number}",
            "--nproc_per_node=3",
            "--master_addr=job-worker-0",
            "--master_port=29501",
            "--log dir",
            "it's",
            "train.py",
            *ARGUMENTS,
        ]
        *facts, ignored_signals = node.facts
        assert facts == [worker.name, "/mnt/work/bin", str(uid)]
        assert not int(ignored_signals, 16) & 1 << signal.SIGINT - 1
        expected = {**ENV, **sent, "BOTH": "worker's"}
        del expected["UNSENT"]
        assert expected.items() <= node.environment.items()
        assert not node.environment.keys() & {"UNSENT", "UNKNOWN"}
    await_nothing_left(workers)


@pytest.mark.parametrize("shell", SHELLS)
def test_no_output_is_lost(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell)
    letters = "seq 1 30000 | sed 's/.*/'$letter$letter$letter$letter'/'"
    play(job, f'letter=A; [ "$rank" = 0 ] || letter=B; {letters}; {letters} >&2')
    launcher = start(job)
    launcher.ok()
    for text in (launcher.stdout, launcher.stderr):
        assert (text.count("A"), text.count("B")) == (120_000, 120_000)


@pytest.mark.parametrize("shell", SHELLS)
def test_one_failing_node_stops_the_others(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell, workers=3)
    fail = 'echo ready >"$out.ready"; until [ -e /mnt/output/fail ]; do sleep 0.1; done; exit 7'
    workers = play(job, f'{STUBBORN_RANK} [ "$rank" = 1 ] || {{ {WAIT}; }}; {fail}')
    # Long enough for the others to say that they have heard TERM.
    launcher = start(job, BIREME_STOP_SECONDS="4")
    await_ranks(job)
    (job.output / "fail").touch()
    assert launcher.wait() == 7
    line = "worker job-worker-1 (node rank 1) exited with code 7"
    assert job.launcher.termination_log == "", "so that the pod's message is the end of its output"
    assert launcher.stderr.splitlines()[-1] == f"bireme: {line}"
    assert (job.output / "0.stopped").exists()
    assert (job.output / "2.stopped").exists()
    await_nothing_left(workers)


# A rank that needs some seconds to save its state after TERM.
SAVING_RANK: Final = """
setsid sh -c 'trap "sleep 2; echo saved >$0.saved; exit 0" TERM; : rank; while sleep 0.1; do :; done' "$out" &
echo ready >"$out.ready"
wait $!
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_ranks_of_workers_that_stop_have_time_to_save(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell)
    workers = play(job, SAVING_RANK)
    launcher = start(job)
    await_ranks(job)
    launcher.signal(signal.SIGTERM)
    pairs = zip(job.workers, workers, strict=True)
    hooks = [pod.exec(worker, "/bin/sh", "/mnt/bireme/stop") for pod, worker in pairs]
    assert launcher.wait() == 143
    assert job.launcher.termination_log == ""
    assert [hook.wait(60) for hook in hooks] == [0, 0]
    assert (job.output / "0.saved").exists()
    assert (job.output / "1.saved").exists()
    await_nothing_left(workers)


@pytest.mark.parametrize("shell", SHELLS)
def test_nodes_stop_when_the_launcher_is_killed(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell)
    workers = play(job, f"{STUBBORN_RANK} {WAIT}")
    launcher = start(job)
    await_ranks(job)
    launcher.kill()
    await_nothing_left(workers)


def test_a_worker_that_dies_fails_the_job(make_job: MakeJob) -> None:
    job = make_job()
    workers = play(job, f"{STUBBORN_RANK} {WAIT}")
    launcher = start(job)
    await_ranks(job)
    workers[1].kill()
    assert launcher.wait() == 255
    assert (
        launcher.stderr.splitlines()[-1] == "bireme: worker job-worker-1 (node rank 1) exited with code 255"
    )
    await_nothing_left(workers[:1])


@pytest.mark.parametrize(
    ("launcher_env", "worker_env", "code", "answer"),
    [
        ({"BIREME_MASTER_HOST": "nowhere"}, {"BIREME_MASTER_SECONDS": "1"}, 121, "nowhere, is not found"),
        ({"BIREME_WORKDIR": "/nowhere"}, {}, 121, "the working directory /nowhere is not on this worker"),
    ],
    ids=["master", "working-directory"],
)
def test_what_a_worker_lacks_is_told(
    make_job: MakeJob,
    launcher_env: dict[str, str],
    worker_env: dict[str, str],
    code: int,
    answer: str,
) -> None:
    job = make_job(workers=1)
    play(job, "exit 0", **worker_env)
    launcher = start(job, **launcher_env)
    assert launcher.wait() == code
    assert f"bireme: node rank 0: {answer}" in launcher.stderr.replace("the name of the master, ", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_an_agent_takes_the_place_of_ssh(make_job: MakeJob, shell: str) -> None:
    job = make_job(shell)
    play(job, "echo $rank; exit $((rank * 5))")
    config, work = (job.launcher.volume(name) for name in ("bireme", "work"))
    (config / "agent").write_text('shift; exec /bin/sh -c "$*"')
    (config / "torchrun.args").write_text("set -- train.py\n")
    (work / "bin").mkdir()
    (work / "bin/torchrun").write_text(TORCHRUN)
    (work / "bin/torchrun").chmod(0o755)
    launcher = start(job, BIREME_AGENT="/bin/sh /mnt/bireme/agent", PATH=ENV["PATH"])
    assert launcher.wait() == 5
    # The other node is stopped as soon as one has failed, and may not have come to say anything.
    assert "1" in launcher.stdout.split()


def test_a_worker_without_torchrun_is_told(make_job: MakeJob) -> None:
    job = make_job(workers=1)
    job.set_torchrun("train.py")
    job.start_worker_with(job.workers[0], ["cat", "chmod", "date", "env", "id", "mkdir", "sh", "sleep"])
    launcher = start(job)
    assert launcher.wait() == 127
    assert "torchrun is not in this worker's image" in launcher.stderr


def test_an_image_without_getent_imports_nothing_from_the_working_directory(tmp_path: Path) -> None:
    programs, work = tmp_path / "programs", tmp_path / "work"
    programs.mkdir()
    work.mkdir()
    (programs / "python3").symlink_to(sys.executable)
    (work / "socket.py").write_text("open('imported', 'w')")
    function = re.search(
        r"^resolves\(\).*?^}", (SCRIPTS / "torch-node").read_text(), re.MULTILINE | re.DOTALL
    )
    assert function is not None
    for host, code in (("localhost", 0), ("no such host", 1)):
        command = ["/bin/sh", "-c", f'{function[0]}\nresolves "$1"', "sh", host]
        result = subprocess.run(
            command, cwd=work, env={"PATH": str(programs)}, capture_output=True, check=False
        )
        assert result.returncode == code, result.stderr
    assert not (work / "imported").exists()
