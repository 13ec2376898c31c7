"""`bireme up`, `down`, `status` and the daemon behind them."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bireme.node.cgroups import Limits
from bireme.node.remote_shell import PODS
from bireme.run.presence import wait_gone
from support.commands import BIREME, EXAMPLES, Bireme
from support.here import eventually
from support.terminals import PATIENCE_SECONDS

pytestmark = pytest.mark.xdist_group("commands")

# It has succeeded once its master has; its worker would go on for ever.
UNEVEN = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: uneven}
spec:
  successRules: [{master: [0]}]
  replicaSpecs:
    - type: master
      template:
        spec:
          containers: [{name: main, image: none, command: [sh, -c, "until test -e go; do sleep 0.1; done"]}]
    - type: worker
      template: {spec: {containers: [{name: main, image: none, command: [sleep, "1000"]}]}}
"""


@pytest.fixture
def alone(tmp_path: Path) -> Bireme:
    """A home without a daemon."""
    return Bireme(tmp_path)


def pid_of_daemon(bireme: Bireme) -> int:
    pid: int = json.loads((bireme.data / "daemon.json").read_bytes())["pid"]
    return pid


def end_daemon(bireme: Bireme, signum: int) -> None:
    """End the daemon without `bireme down`: its pods go on."""
    pid = pid_of_daemon(bireme)
    os.kill(pid, signum)
    assert wait_gone(pid, PATIENCE_SECONDS)


def test_up_and_down_leave_nothing_behind(alone: Bireme) -> None:
    assert alone("status", code=1).stdout == f"not running ({alone.data})\n"
    assert alone("up").stdout == f"{alone.data}/kubeconfig\n"
    assert "running already" in alone("up").stderr
    alone("run", "-d", "--name", "long", "--replicas", "2", "--", "sleep", "1000")
    alone("wait", "long", "--for", "running", "--timeout", "3m")
    told = alone("status").stdout
    assert "until `bireme down`" in told
    assert "jobs:       1 Running\npods:       2 Running\n" in told
    enforced = " and ".join(Limits().offered)
    assert f"limits:     {f'enforced ({enforced})' if enforced else 'advice only (memory and cpu)'}" in told
    assert alone.down().stdout.splitlines()[:3] == [
        "stopped GenericJob default/long",
        "stopped pod default/long-worker-0",
        "stopped pod default/long-worker-1",
    ]
    assert "not running" in alone("down").stderr


def test_up_refuses_settings_that_the_running_daemon_does_not_have(alone: Bireme) -> None:
    alone("up", "--keep-finished", "90m", "--cpu", "1500m")
    same = ("--keep-finished", "1h30m", "--cpu", "1.5", "--driver", "process", "--port", "0")
    assert "running already" in alone("up", *same).stderr
    refused = alone("up", "--keep-finished", "90m", "--cpu", "64", "--memory", "1Gi", code=1).stderr
    assert "a daemon runs already (process " in refused
    assert (
        "with its own settings: not with --cpu 64 and --memory 1Gi\n\nhint: `bireme down` stops it" in refused
    )
    assert "no duration" in alone("up", "--keep-finished", "xyz", code=2).stderr
    alone.down()


def test_down_ends_the_network_of_a_job_that_is_kept_and_calls_it_nobodys(alone: Bireme) -> None:
    alone("up")
    alone("run", "-f", str(EXAMPLES / "genericjob-services.yaml"))
    alone.down()


def test_down_tells_of_what_it_had_to_kill(alone: Bireme) -> None:
    """No pod should leave such a process; but if one does, it is known."""
    alone("up")
    alone("run", "--name", "first", "--replicas", "1", "--", "true")
    with subprocess.Popen(["sleep", "1000"], env={PODS: f"{alone.data}/node/names/default"}) as left:
        told = alone("down", code=None).stderr
        left.terminate()
    assert "processes that pods had left behind were killed: 1\n" in told
    assert left.returncode == -signal.SIGKILL
    assert alone.processes() == []


def test_a_daemon_that_was_killed_is_replaced_and_its_pods_go_on(alone: Bireme) -> None:
    alone("up")
    alone("run", "-d", "--name", "firm", "--replicas", "1", "--", "sh", "-c", "echo here; sleep 1000")
    alone("wait", "firm", "--for", "running", "--timeout", "3m")
    end_daemon(alone, signal.SIGKILL)
    alone("up")
    job = json.loads(alone("get", "gj/firm", "-o", "json").stdout)
    assert (job["status"]["phase"], job["status"]["tasks"][0]["restartCount"]) == ("Running", 0)
    assert alone("logs", "firm").stdout == "worker-0 | here\n"
    end_daemon(alone, signal.SIGKILL)
    result = alone.down()
    assert "the daemon is gone, but pods of it are left" in result.stderr
    assert "stopped GenericJob default/firm" in result.stdout


def test_whoever_follows_a_job_is_told_when_the_daemon_dies_and_the_job_goes_on(alone: Bireme) -> None:
    alone("up")
    process = alone.start("run", "--name", "led", "--replicas", "1", "--", "sh", "-c", "echo up; sleep 1000")
    assert process.stdout is not None
    assert process.stdout.readline() == "worker-0 | up\n"
    end_daemon(alone, signal.SIGKILL)
    _, talk = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert "error: the daemon has ended\n\nhint: `bireme up` starts it; the pods go on meanwhile\n" in talk
    assert any("sleep 1000" in each for each in alone.processes())
    alone("up")
    alone("wait", "led", "--for", "running", "--timeout", "3m")
    assert alone("logs", "led").stdout == "worker-0 | up\n"
    alone.down()


def test_a_daemon_whose_last_port_is_taken_finds_another_and_tells_it(alone: Bireme) -> None:
    def address() -> tuple[str, int]:
        told = urlsplit(json.loads((alone.data / "daemon.json").read_bytes())["url"])
        assert told.hostname is not None
        assert told.port is not None
        return told.hostname, told.port

    alone("up")
    before = address()
    end_daemon(alone, signal.SIGTERM)
    alone("up")
    assert address() == before
    end_daemon(alone, signal.SIGTERM)
    with socket.create_server(before):
        alone("up")
        host, port = address()
        assert (host, port) != before
        kubeconfig = ("--kubeconfig", str(alone.data / "kubeconfig"))
        assert f"on https://{host}:{port}" in alone("get", "namespaces", *kubeconfig).stderr
        alone.down()


def test_a_daemon_that_nobody_needs_ends_by_itself_with_what_jobs_left(alone: Bireme) -> None:
    alone("up")
    alone("run", "-d", "-f", "-", input=UNEVEN)
    alone("wait", "uneven", "--for", "running", "--timeout", "3m")
    end_daemon(alone, signal.SIGTERM)
    process = alone.start("daemon", "--idle-seconds", "0.5")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["stays"] is False
    (alone.work / "go").touch()
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert alone.processes() == []


def test_up_makes_a_daemon_stay_that_would_have_ended(alone: Bireme) -> None:
    process = alone.start("daemon", "--idle-seconds", "10")
    assert process.stdout is not None
    process.stdout.readline()
    assert "running already" in alone("up").stderr
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(11)
    alone.down()
    process.communicate(timeout=PATIENCE_SECONDS)


def test_run_starts_one_daemon_for_all_who_come_at_once(alone: Bireme) -> None:
    started = [
        alone.start("run", "--name", f"n{i}", "--replicas", "1", "--", "echo", f"{i}") for i in range(3)
    ]
    outputs = [process.communicate(timeout=PATIENCE_SECONDS) for process in started]
    assert [out for out, _ in outputs] == [f"worker-0 | {i}\n" for i in range(3)]
    assert sum("started a daemon; it ends when it is idle" in talk for _, talk in outputs) == 1
    assert "until it is idle" in alone("status").stdout
    alone.down()


def test_finished_jobs_are_forgotten_after_a_while(alone: Bireme) -> None:
    alone("up", "--keep-finished", "1s")
    alone("run", "-d", "--name", "old", "--replicas", "1", "--", "true")
    alone("wait", "old", "--for", "delete", "--timeout", "3m")
    alone.down()


def test_a_folder_of_an_api_server_alone_is_no_daemon(alone: Bireme) -> None:
    process = alone.start("apiserver")
    assert process.stderr is not None
    process.stderr.readline()
    result = alone("run", "--replicas", "1", "--", "true", code=1)
    assert f"in use by process {process.pid}, which runs no jobs" in result.stderr
    process.terminate()
    process.communicate(timeout=PATIENCE_SECONDS)


def test_get_starts_a_daemon_where_none_ever_ran(alone: Bireme) -> None:
    assert alone("get").stderr.splitlines() == [
        f"on this machine ({alone.data})",
        "started a daemon; it ends when it is idle for 30 s",
        "no jobs in namespace default",
    ]
    assert alone("down").stderr == f"on this machine ({alone.data})\n"
    assert alone.processes() == []


def test_a_folder_that_cant_be_made_is_told(alone: Bireme) -> None:
    result = alone("up", "--data-dir", "/proc/nowhere", code=1)
    assert result.stderr.startswith("error: can't use /proc/nowhere: ")


def test_ctrl_c_while_a_daemon_starts_ends_it(alone: Bireme) -> None:
    process = alone.start("run", "--replicas", "1", "--", "true")
    eventually((alone.data / "daemon.log").exists)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", f"on this machine ({alone.data})\n")
    assert process.returncode == 130
    assert alone("status", code=1).stdout == f"not running ({alone.data})\n"
    assert alone.processes() == []


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_a_demo_that_is_ended_leaves_nothing(alone: Bireme, signum: signal.Signals) -> None:
    with subprocess.Popen(
        [BIREME, "demo"], env=alone.environment(TMPDIR=str(alone.work)), stderr=subprocess.DEVNULL
    ) as process:
        eventually(lambda: [*alone.work.glob("bireme-demo-*/data/daemon.log")] != [])
        process.send_signal(signum)
        assert process.wait(60) == 128 + signum
    assert [*alone.work.iterdir()] == []
    assert alone.processes() == []


def test_the_demo_computes_together_and_leaves_nothing(alone: Bireme) -> None:
    result = alone("demo", TMPDIR=str(alone.work))
    assert "4 ranks on 2 workers agree: pi is 3.141592654" in result.stdout
    assert "left behind" not in result.stderr
    assert list(alone.work.iterdir()) == []
    assert alone.processes() == []
