"""Debug mode: pods that wait for somebody to look around in them, with kubectl and a terminal."""

import os
import pty
import select
import subprocess
from collections.abc import Sequence

import pytest

from support.control_plane import BinariesMissingError, find_kubectl
from support.fixtures import unavailable
from support.here import PATIENCE_SECONDS, Here, Object, eventually, generic, replica, shell

pytestmark = pytest.mark.xdist_group("here")


def kubectl(here: Here, *arguments: str) -> list[str]:
    try:
        program = find_kubectl()
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None
    return [str(program), "--kubeconfig", str(here.running.server.kubeconfig), *arguments]


def run(here: Here, *arguments: str) -> str:
    done = subprocess.run(
        kubectl(here, *arguments), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def on_terminal(command: Sequence[str], typed: str, size: tuple[int, int]) -> tuple[int, str]:
    """Run a command on a terminal of its own, type something, and return its exit code and all it showed."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    subprocess.run(["stty", "rows", str(size[0]), "cols", str(size[1])], stdin=theirs, check=True)
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = ""
    while select.select([ours], [], [], PATIENCE_SECONDS)[0]:
        try:
            shown += os.read(ours, 1 << 16).decode(errors="replace")
        except OSError:
            break
        if typed and ("# " in shown or "$ " in shown):
            os.write(ours, typed.encode())
            typed = ""
    os.close(ours)
    return process.wait(PATIENCE_SECONDS), shown


def runs(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running"


def debug(job: Object, **more: object) -> Object:
    return job | {"spec": job["spec"] | {"runMode": {"debug": {"enabled": True, **more}}}}


def test_a_terminal_in_a_pod_is_a_real_one(here: Here) -> None:
    job = debug(generic("look", replica("a", "echo never; exit 9", 1)))
    here.create(job)
    here.until_pod("look-a-0", runs)
    exec_ = kubectl(here, "exec", "-it", "look-a-0", "--", "sh")
    typed = 'tty; stty size; echo "host $HOSTNAME, sum $((40 + 2))"; exit 7\n'
    code, shown = on_terminal(exec_, typed, (31, 97))
    assert code == 7
    for wanted in ("/dev/pts/", "31 97", "host look-a-0, sum 42"):
        assert wanted in shown
    assert here.output("look-a-0") == ""
    here.delete(job)


def test_a_command_gets_its_input_and_gives_its_code(here: Here) -> None:
    job = debug(generic("feed", replica("a", "exit 9")))
    here.create(job)
    here.until_pod("feed-a-0", runs)
    counting = kubectl(here, "exec", "-i", "feed-a-0", "--", "sh", "-c", "wc -c; echo bad >&2; exit 3")
    done = subprocess.run(counting, input=b"x" * 300_000, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (3, b"300000")
    assert done.stderr.startswith(b"bad\n")
    here.delete(job)


def test_whoever_attaches_hears_what_a_container_says_from_then_on(here: Here) -> None:
    """It says something again and again, so that it is known when somebody listens."""
    script = "echo before; until test -e heard; do echo now; sleep 0.1; done; echo after"
    job = generic("radio", replica("a", script))
    here.create(job)
    here.until_pod("radio-a-0", runs)
    eventually(lambda: "now\n" in here.output("radio-a-0"))
    with subprocess.Popen(
        kubectl(here, "attach", "radio-a-0"), stdout=subprocess.PIPE, text=True
    ) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "now\n"
        (here.work / "heard").touch()
        said = listener.stdout.read().splitlines()
        assert listener.wait(PATIENCE_SECONDS) == 0
    assert (set(said[:-1]) <= {"now"}, said[-1]) == (True, "after")
    here.delete(job)


def test_the_command_of_debug_replaces_that_of_the_job_and_flipping_it_back_runs_the_job(here: Here) -> None:
    spec = {"type": "a", "command": ["sh", "-c", "echo looking around; sleep inf"], "skipInitContainer": True}
    init = shell("first", "exit 1")
    job = debug(generic("flip", replica("a", "echo done", initContainers=[init])), replicaSpecs=[spec])
    created = here.create(job)
    here.until_pod("flip-a-0", runs)
    eventually(lambda: here.output("flip-a-0") == "looking around\n", lambda: here.output("flip-a-0"))
    here.change(job, {"runMode": {"debug": {"enabled": False}}})
    status = here.end_of(created)
    assert (status["phase"], status["firstFailure"]["container"]) == ("Failed", "first")
    here.delete(job)


def test_mpirun_can_be_tried_by_hand(here: Here) -> None:
    worker = {
        "replicas": 2,
        "cmd": ["false"],
        "template": {"spec": {"containers": [{"name": "mpi-worker", "image": "none"}]}},
    }
    job = debug(
        {
            "apiVersion": "batch.tensorstack.dev/v1beta1",
            "kind": "MPIJob",
            "metadata": {"name": "byhand"},
            "spec": {"worker": worker},
        }
    )
    here.create(job)
    for pod in ("byhand-launcher", "byhand-worker-0", "byhand-worker-1"):
        here.until_pod(pod, runs)
    mpirun = "mpirun --hostfile /etc/bireme/hostfile -N 1 hostname"
    said = run(here, "exec", "byhand-launcher", "--", "sh", "/etc/bireme/launch", *mpirun.split())
    assert sorted(said.split()) == ["byhand-worker-0", "byhand-worker-1"]
    here.delete(job)
