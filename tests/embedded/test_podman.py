"""Jobs in podman's containers, with images made of this machine's own files."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bireme.run.presence import wait_gone
from support import images
from support.commands import Bireme
from support.control_plane import BinariesMissingError, find_kubectl
from support.fixtures import unavailable
from support.images import podman
from support.ordinary_user import OrdinaryUser
from support.podman_jobs import (
    container,
    containers,
    job,
    launcher_job,
    play,
    podman_daemon,
    podman_user,
    replica,
)
from support.terminals import Terminal

pytestmark = pytest.mark.xdist_group("podman")
SECONDS = 180.0


@pytest.fixture(scope="module", params=["rootless", "root"])
def user(request: pytest.FixtureRequest) -> Iterator[OrdinaryUser | None]:
    """Whose podman it is; None for root's."""
    with podman_user(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def bireme(user: OrdinaryUser | None) -> Iterator[Bireme]:
    with podman_daemon(user) as commands:
        yield commands


def pod(bireme: Bireme, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bireme("get", "pods", name, "-o", "json").stdout)
    return found


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.1)
    return value


def begin(bireme: Bireme, manifest: dict[str, Any], said: str) -> str:
    """Start a job, and wait until it has printed something."""
    name: str = manifest["metadata"]["name"]
    bireme("run", "-d", "-f", "-", input=json.dumps(manifest))
    until(lambda: said in bireme("logs", name, code=None).stdout)
    return name


def test_a_container_is_what_its_manifest_says(bireme: Bireme) -> None:
    script = (
        "echo host $(hostname) pid $$$$ user $(id -u):$(id -g) in $(pwd); echo $GREETING; echo args $0 $1;"
        " cat /files/key; touch /etc/x || echo read-only; touch /scratch/x && echo writable;"
        " grep ^CapEff /proc/self/status; echo grumble >&2"
    )
    context = {"runAsUser": 1234, "runAsGroup": 77, "readOnlyRootFilesystem": True}
    main = container(
        script,
        args=["first", "$(GREETING)"],
        env=[{"name": "GREETING", "value": "two\nlines, and 'quotes'"}],
        workingDir="/tmp",
        securityContext=context | {"capabilities": {"drop": ["ALL"]}},
        volumeMounts=[
            {"name": "files", "mountPath": "/files"},
            {"name": "scratch", "mountPath": "/scratch"},
        ],
    )
    files = {
        "name": "files",
        "downwardAPI": {"items": [{"path": "key", "fieldRef": {"fieldPath": "metadata.name"}}]},
    }
    volumes = [files, {"name": "scratch", "emptyDir": {}}]
    told = play(bireme, job("said", replica(main, volumes=volumes)))
    lines = [line.partition("| ")[2] for line in told.splitlines()]
    assert lines[0] == "host said-worker-0 pid 1 user 1234:77 in /tmp"
    for wanted in ("two", "lines, and 'quotes'", "args first two", "read-only", "writable", "grumble"):
        assert wanted in told
    assert "said-worker-0" in lines[lines.index("args first two lines, and 'quotes'") + 1]
    assert "CapEff:\t0000000000000000" in told


def test_an_empty_dir_in_memory_is_a_tmpfs_and_etc_hostname_names_the_pod(bireme: Bireme) -> None:
    script = "cat /etc/hostname; grep /dev/shm /proc/mounts; touch /dev/shm/x && echo writable"
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}]
    context = {"runAsUser": 1234}
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}]
    main = container(script, volumeMounts=mounts, securityContext=context)
    told = play(bireme, job("shm", replica(main, volumes=volumes)))
    lines = [line.partition("| ")[2].split() for line in told.splitlines()]
    assert lines[0] == ["shm-worker-0"]
    assert lines[1][2] == "tmpfs"
    assert f"size={64 << 10}k" in lines[1][3].split(",")
    assert lines[2] == ["writable"]


@pytest.mark.long
def test_containers_of_a_pod_come_in_order_and_its_exit_code_is_the_first_ones(bireme: Bireme) -> None:
    shared = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    first = container("echo from init > /shared/x", **shared) | {"name": "first"}
    main = container("cat /shared/x; exit 7", **shared)
    beside = container("sleep 1000", **shared) | {"name": "beside"}
    volumes = [{"name": "shared", "emptyDir": {}}]
    told = play(bireme, job("order", replica(main, beside, initContainers=[first], volumes=volumes)), code=7)
    assert "from init" in told


def test_replicas_with_services_reach_each_other_on_one_port(bireme: Bireme) -> None:
    serve = "mkdir /tmp/www; hostname > /tmp/www/index.html; httpd -p $(service.port[web]) -h /tmp/www;"
    other = "http://$(service.server[1].host):$(service.port[web])/"
    ask = f"until wget -q -O - {other}; do sleep 0.1; done"
    manifest = job(
        "net",
        replica(container(f"{serve} sleep 1000"), kind="server", replicas=2),
        replica(container(ask), kind="client"),
        service={"ports": [{"name": "web", "port": 8080}]},
        successRules=[{"client": [0]}],
        cleanUpPolicy="All",
    )
    assert "net-server-1" in play(bireme, manifest)


def test_an_image_that_can_not_be_had_is_told(bireme: Bireme) -> None:
    main = container("true") | {"image": "localhost/no-such-image:1"}
    bireme("run", "-d", "-f", "-", input=json.dumps(job("lacking", replica(main))))

    def waits() -> Any:
        status = pod(bireme, "lacking-worker-0").get("status", {})
        return ((status.get("containerStatuses") or [{}])[0].get("state") or {}).get("waiting")

    told = until(lambda: (waits() or {}).get("reason") in ("ErrImagePull", "ImagePullBackOff") and waits())
    assert "no-such-image" in told["message"]
    bireme("delete", "lacking")


@pytest.mark.parametrize(
    ("script", "fields", "code", "reason"),
    [
        ("exit 3", {}, 3, "Error"),
        ("kill -9 $$$$; echo alive", {}, 0, "Completed"),
        ("", {"command": ["no-such-program"]}, 127, "StartError"),
        ("", {"command": ["no-such-program"], "tty": True}, 127, "StartError"),
    ],
    ids=["exit", "first process can't kill itself", "no program", "no program on a terminal"],
)
def test_how_it_ended_is_in_the_status(
    bireme: Bireme, script: str, fields: dict[str, Any], code: int, reason: str
) -> None:
    play(bireme, job("ends", replica(container(script, **fields))), code=code)
    ended = pod(bireme, "ends-worker-0")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (code, reason)


def test_a_memory_limit_is_applied_or_said_not_to_be(bireme: Bireme, user: OrdinaryUser | None) -> None:
    """An ordinary user may have no cgroups for podman to use."""
    limits = {"resources": {"limits": {"memory": "32Mi"}}}
    main = container("x=$(yes | head -c 50000000); echo $x | wc -c", **limits)
    manifest = json.dumps(job("grows", replica(main)))
    if "memory" in podman("info", "--format={{.Host.CgroupControllers}}", user=user):
        bireme("run", "-f", "-", input=manifest, code=137)
        ended = pod(bireme, "grows-worker-0")["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    else:
        done = bireme("run", "-f", "-", input=manifest)
        assert (
            "limits of memory are not applied: podman has no cgroup controller for them here" in done.stderr
        )


def kubectl(bireme: Bireme, *arguments: str) -> list[str]:
    try:
        program = find_kubectl()
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None
    return [str(program), f"--kubeconfig={bireme.data}/kubeconfig", *arguments]


def test_commands_run_inside_with_their_own_streams(bireme: Bireme) -> None:
    name = begin(bireme, job("inner", replica(container("touch /here; echo up; sleep 1000"))), "up")
    script = "cat; ls /here; hostname; echo no >&2; exit 5"
    command = kubectl(bireme, "exec", "-i", f"{name}-worker-0", "--", "sh", "-c", script)
    done = subprocess.run(
        command, input="handed in\n", capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stdout) == (5, "handed in\n/here\ninner-worker-0\n")
    assert "no\n" in done.stderr
    bireme("delete", name)


def test_a_command_with_a_terminal_sees_one(bireme: Bireme) -> None:
    name = begin(bireme, job("tty", replica(container("echo up; sleep 1000"))), "up")
    program, *arguments = kubectl(bireme, "exec", "-it", f"{name}-worker-0", "--", "sh")
    terminal = bireme.on_terminal(*arguments, program=program)
    terminal.type("tty; echo got $((40 + 2))\n")
    terminal.expect("/dev/pts/")
    terminal.expect("got 42")
    terminal.type("exit 6\n")
    assert terminal.end() == 6
    bireme("delete", name)


def test_a_container_with_a_terminal_can_be_talked_to(bireme: Bireme) -> None:
    script = 'echo up; while read a; do test $a != bye || exit 5; echo "heard $a, $(stty size)"; done'
    talking = job("talk", replica(container(script, stdin=True, tty=True)))
    name = begin(bireme, talking, "up")
    command = kubectl(bireme, "attach", "-it", f"{name}-worker-0")
    for size, shown in (((24, 80), "24 80"), ((31, 97), "31 97")):
        with Terminal(command, size) as terminal:
            until(lambda shown=shown, terminal=terminal: terminal.said("one\n", f"heard one, {shown}"))  # type: ignore[misc]
    with Terminal(command) as terminal:
        terminal.type("bye\n")
        assert terminal.end() == 5
    bireme("delete", name)


def test_a_container_reads_what_it_is_sent(bireme: Bireme) -> None:
    name = begin(bireme, job("reads", replica(container("echo up; wc -c", stdin=True, stdinOnce=True))), "up")
    command = kubectl(bireme, "attach", "-i", f"{name}-worker-0")
    done = subprocess.run(command, input=b"x" * 300_000, capture_output=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, b"300000"), done.stderr
    bireme("delete", name)


def test_a_container_is_asked_to_end_before_it_is_killed(bireme: Bireme, user: OrdinaryUser | None) -> None:
    polite = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    name = begin(bireme, job("polite", replica(container(polite))), "up")
    following = bireme.start("logs", "-f", name)
    uid = pod(bireme, f"{name}-worker-0")["metadata"]["uid"]
    bireme("delete", name)
    output, _ = following.communicate(timeout=SECONDS)
    assert "bye" in output
    assert containers(user, uid) == []


@pytest.mark.long
def test_one_that_does_not_listen_is_killed(bireme: Bireme, user: OrdinaryUser | None) -> None:
    name = begin(bireme, job("deaf", replica(container("trap '' TERM; echo up; sleep 1000"))), "up")
    uid = pod(bireme, f"{name}-worker-0")["metadata"]["uid"]
    bireme("delete", name)
    assert containers(user, uid) == []


def test_a_container_survives_the_daemon_and_is_found_again(bireme: Bireme) -> None:
    script = "echo up; until test -e /shared/go; do sleep 0.1; done; echo gone on; exit 4"
    main = container(script, volumeMounts=[{"name": "shared", "mountPath": "/shared"}])
    shared = bireme.work / "shared"
    shared.mkdir()
    volumes = [{"name": "shared", "hostPath": {"path": str(shared)}}]
    name = begin(bireme, job("crash", replica(main, volumes=volumes)), "up")
    pid = json.loads((bireme.data / "daemon.json").read_bytes())["pid"]
    os.kill(pid, signal.SIGKILL)
    assert wait_gone(pid, SECONDS)
    bireme("up", "--driver", "podman")
    (shared / "go").touch()
    bireme("wait", name, "--timeout", "3m", code=1)
    assert "gone on" in bireme("logs", name).stdout
    ended = pod(bireme, f"{name}-worker-0")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (4, "Error")


def test_nothing_is_left_of_a_pod_whose_shim_is_killed(bireme: Bireme, user: OrdinaryUser | None) -> None:
    name = begin(bireme, job("lost", replica(container("echo up; sleep 1000"))), "up")
    uid = pod(bireme, f"{name}-worker-0")["metadata"]["uid"]
    state = json.loads((bireme.data / f"node/pods/{uid}/state.json").read_text())
    os.kill(state["shim"]["pid"], signal.SIGKILL)
    bireme("wait", name, "--for", "failed", "--timeout", "3m")
    until(lambda: containers(user, uid) == [])
    bireme("delete", name)


@pytest.mark.long
def test_one_job_chooses_another_driver_than_the_daemon(bireme: Bireme) -> None:
    manifest = job("here", replica(container("test -e /bireme || echo no container")))
    manifest["metadata"]["annotations"] = {"bireme.dev/driver": "process"}
    assert "no container" in play(bireme, manifest)


def test_a_driver_that_is_none_is_refused(bireme: Bireme) -> None:
    manifest = job("wrong", replica(container("true")))
    manifest["metadata"]["annotations"] = {"bireme.dev/driver": "docker"}
    done = bireme("run", "-f", "-", input=json.dumps(manifest), code=1)
    assert "'docker' is not a driver: use process or podman" in done.stderr


def test_a_launcher_runs_commands_in_its_workers(bireme: Bireme) -> None:
    """As mpirun does it: the agent needs nothing of an image but a shell and a few programs."""
    ask = (
        "echo handed in | bireme-agent far-worker-0 'cat; hostname; echo aside >&2; exit 3'; echo code $?;"
        " bireme-agent --free-port | wc -l; unset BIREME_AGENT_WAITS;"
        " bireme-agent far-worker-9 true; echo code $?"
    )
    told = [line.partition("| ")[2] for line in play(bireme, launcher_job("far", ask)).splitlines()]
    assert sorted(told[:3]) == ["aside", "far-worker-0", "handed in"]
    assert told[3:5] == ["code 3", "1"]
    assert told[-1] == "code 255"
    assert any("far-worker-9" in line for line in told)


def test_a_command_in_a_worker_gets_its_callers_signals_and_goes_with_it(bireme: Bireme) -> None:
    ask = (
        "loop='trap \"echo got TERM; exit 9\" TERM; echo up; while :; do sleep 0.1; done';"
        ' bireme-agent sig-worker-0 "$loop" >/out & call=$!; until grep -q up /out; do sleep 0.1; done;'
        " kill $call; wait $call; echo code $?; cat /out;"
        " bireme-agent sig-worker-0 'echo $$$$ >/pid; exec sleep 1000' & call=$!;"
        " until bireme-agent sig-worker-0 'test -s /pid'; do sleep 0.1; done;"
        " kill -9 $call; until bireme-agent sig-worker-0 '! kill -0 $$(cat /pid)'; do sleep 0.1; done;"
        " echo gone"
    )
    told = [line.partition("| ")[2] for line in play(bireme, launcher_job("sig", ask)).splitlines()]
    assert [line for line in told if line in ("code 9", "got TERM", "gone")] == ["code 9", "got TERM", "gone"]


def test_many_calls_at_a_time_each_get_their_own_answer(bireme: Bireme) -> None:
    ask = (
        "for n in $(seq 1 40); do (x=$(echo $n | bireme-agent many-worker-0 'read n; echo $n; exit $n');"
        " echo $n $? $x) & done; wait"
    )
    told = [line.partition("| ")[2].split() for line in play(bireme, launcher_job("many", ask)).splitlines()]
    assert sorted(int(line[0]) for line in told) == [*range(1, 41)]
    assert [line for line in told if not line[0] == line[1] == line[2]] == []


@pytest.mark.long
def test_an_mpi_job_runs_in_its_image(bireme: Bireme, user: OrdinaryUser | None) -> None:
    code = (
        "from mpi4py import MPI; w = MPI.COMM_WORLD;"
        " print('sum', w.allreduce(w.rank), w.size, MPI.Get_processor_name(), flush=True)"
    )
    modules = next(images.VENV.glob("lib/python3*/site-packages"))
    worker = {
        "name": "mpi-worker",
        "image": images.MPI,
        "env": [{"name": "PYTHONPATH", "value": str(modules)}],
    }
    manifest = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "MPIJob",
        "metadata": {"name": "crew"},
        "spec": {
            "worker": {
                "replicas": 2,
                "extraMPIArgs": ["-N", "2"],
                "cmd": [f"{images.VENV}/bin/python3", "-c", code],
                "template": {"spec": {"containers": [worker]}},
            },
            "runPolicy": {"cleanUpWorkers": "all"},
        },
    }
    with images.image(images.MPI, images.mpi_files(), path=f"{images.VENV}/bin:/usr/bin:/bin", user=user):
        lines = [line.partition("| ")[2].split() for line in play(bireme, manifest).splitlines()]
    sums = [line for line in lines if line[:1] == ["sum"]]
    assert [line[1:3] for line in sums] == [["6", "4"]] * 4
    assert {line[3] for line in sums} == {"crew-worker-0", "crew-worker-1"}
