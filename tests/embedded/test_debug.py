"""Debug mode: pods that wait for somebody to look around in them, with kubectl and a terminal."""

import subprocess

import pytest

from support.here import PATIENCE_SECONDS, Here, Object, eventually, generic, replica, shell
from support.here_kubectl import kubectl
from support.terminals import Terminal

pytestmark = pytest.mark.xdist_group("here")


def run(here: Here, *arguments: str) -> str:
    done = subprocess.run(
        kubectl(here, *arguments), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def runs(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running"


def debug(job: Object, **more: object) -> Object:
    return job | {"spec": job["spec"] | {"runMode": {"debug": {"enabled": True, **more}}}}


def test_a_terminal_in_a_pod_is_a_real_one(here: Here) -> None:
    job = debug(generic("look", replica("a", "echo never; exit 9", 1)))
    here.create(job)
    here.until_pod("look-a-0", runs)
    exec_ = kubectl(here, "exec", "-it", "look-a-0", "--", "sh")
    with Terminal(exec_, (31, 97)) as terminal:
        eventually(lambda: terminal.said("stty size\n", "31 97"))
        terminal.type('tty; echo "host $HOSTNAME, sum $((40 + 2))"; exit 7\n')
        assert terminal.end() == 7
    for wanted in ("/dev/pts/", "host look-a-0, sum 42"):
        assert wanted in terminal.text
    assert here.output("look-a-0") == ""
    here.delete(job)


def test_a_command_gets_its_input_and_gives_its_code(here: Here) -> None:
    job = debug(generic("feed", replica("a", "exit 9")))
    here.create(job)
    here.until_pod("feed-a-0", runs)
    counting = kubectl(here, "exec", "-i", "feed-a-0", "--", "sh", "-c", "wc -c; echo bad >&2; exit 3")
    done = subprocess.run(
        counting, input=b"x" * 300_000, capture_output=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (3, b"300000")
    assert done.stderr.startswith(b"bad\n")
    missing = kubectl(here, "exec", "feed-a-0", "--", "no-such-program")
    done = subprocess.run(missing, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 127
    assert done.stderr.startswith(b"can't run no-such-program: No such file or directory\n")
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


TALK = 'while read word; do case "$word" in bye) exit 5;; esac; echo "heard $word, $(stty size)"; done'


def talkative(name: str, script: str, **console: bool) -> Object:
    made = replica("a", script)
    made["template"]["spec"]["containers"][0] |= console
    return generic(name, made)


def test_a_container_with_a_terminal_can_be_talked_to_again_and_again(here: Here) -> None:
    """Whoever leaves leaves it running; the next one has a terminal of another size."""
    job = talkative("talk", TALK, stdin=True, tty=True)
    created = here.create(job)
    here.until_pod("talk-a-0", runs)
    command = kubectl(here, "attach", "-it", "talk-a-0")
    with Terminal(command, (24, 80)) as first:
        eventually(lambda: first.said("one\n", "heard one, 24 80"))
        first.resize(40, 132)
        eventually(lambda: first.said("again\n", "heard again, 40 132"))
    with Terminal(command, (31, 97)) as second:
        eventually(lambda: second.said("two\n", "heard two, 31 97"))
        assert "heard one" not in second.text
        second.type("bye\n")
        assert second.end() == 5
    assert here.end_of(created)["firstFailure"]["exitCode"] == 5
    assert "heard one, 24 80\n" in here.output("talk-a-0")
    here.delete(job)


def test_a_terminal_loses_nothing_of_what_is_said_at_the_end(here: Here) -> None:
    job = talkative("much", "seq 20000; printf last", tty=True)
    assert here.play(job)["phase"] == "Succeeded"
    expected = "".join(f"{number}\n" for number in range(1, 20001)) + "last"
    assert here.output("much-a-0") == expected
    here.delete(job)


@pytest.mark.parametrize("once", [True, False], ids=["once", "more than once"])
def test_what_is_handed_in_ends_with_its_first_sender_if_it_says_so(here: Here, once: bool) -> None:
    name = "reader"
    job = talkative(name, "wc -c", stdin=True, stdinOnce=once)
    created = here.create(job)
    here.until_pod("reader-a-0", runs)
    attach = kubectl(here, "attach", "-i", "reader-a-0")
    with subprocess.Popen(attach, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sender:
        assert sender.stdin is not None
        assert sender.stdout is not None
        sender.stdin.write(b"x" * 300_000)
        sender.stdin.close()
        if once:
            assert sender.stdout.read().strip() == b"300000"
            assert here.end_of(created)["phase"] == "Succeeded"
        else:
            with pytest.raises(subprocess.TimeoutExpired):
                sender.wait(1)
            assert runs(here.pod("reader-a-0"))
            sender.kill()
    here.delete(job)


def test_a_container_that_reads_nothing_gets_nothing(here: Here) -> None:
    job = generic("deaf", replica("a", "cat; until test -e over; do echo now; sleep 0.1; done"))
    here.create(job)
    here.until_pod("deaf-a-0", runs)
    attach = kubectl(here, "attach", "-i", "deaf-a-0")
    with subprocess.Popen(attach, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sender:
        assert sender.stdin is not None
        assert sender.stdout is not None
        sender.stdin.write(b"hello\n")
        sender.stdin.flush()
        assert sender.stdout.readline() == b"now\n"
        (here.work / "over").touch()
        assert set(sender.stdout.read().split()) <= {b"now"}
        assert sender.wait(PATIENCE_SECONDS) == 0
    assert set(here.output("deaf-a-0").split()) == {"now"}
    here.delete(job)


def test_kubectl_run_brings_input_and_takes_output(here: Here) -> None:
    words = ["--image=none", "--restart=Never", "--quiet", "-i", "--rm", "--command"]
    command = kubectl(here, "run", "filter", *words, "--", "tr", "a-z", "A-Z")
    done = subprocess.run(
        command, input=b"hello\n", capture_output=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"HELLO\n"), done.stderr


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
    # Open MPI 5.0 at times hangs after programs that end before all nodes have started theirs.
    mpirun = ("mpirun", "--hostfile", "/etc/bireme/hostfile", "-N", "1", "sh", "-c", "hostname; sleep 1")
    said = run(here, "exec", "byhand-launcher", "--", "sh", "/etc/bireme/launch", *mpirun)
    assert sorted(said.split()) == ["byhand-worker-0", "byhand-worker-1"]
    here.delete(job)
