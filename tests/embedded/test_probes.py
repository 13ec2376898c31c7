"""Probes and hooks of real processes: who is ready, who is started again, what runs before and after."""

import socket
from typing import Any

import pytest

from support.here import Here, Object, eventually, generic, replica, shell

pytestmark = pytest.mark.xdist_group("here")

# Answers on the port of its arguments, with 500 while the file `ill` is there.
SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(500 if os.path.exists("ill") else 200); self.end_headers()
    def log_message(self, *_): pass
print("up", flush=True)
http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Handler).serve_forever()
"""


def free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        port: int = tried.getsockname()[1]
        return port


TCP, HTTP, NOBODY = free_port(), free_port(), free_port()
SOON = {"periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 5}


def pod(here: Here, name: str, *containers: Object, **spec: Any) -> Object:
    """Start a pod that is nobody's, in a folder of its own."""
    folder = here.work / name
    folder.mkdir()
    placed = [{"workingDir": str(folder), **container} for container in containers]
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": placed, "terminationGracePeriodSeconds": 1, **spec},
    }
    return here.create(body)


def serving(port: int, **more: Any) -> Object:
    return {"name": "main", "image": "none", "command": ["python3", "-c", SERVER, str(port)], **more}


def container(pod: Object, name: str = "main") -> Object:
    status = pod.get("status") or {}
    every = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    found: Object = next((each for each in every if each["name"] == name), {})
    return found


def is_ready(pod: Object) -> bool:
    return bool(container(pod).get("ready"))


HANDLERS: dict[str, tuple[Object, Object]] = {
    "exec": (shell("main", "touch well; sleep inf"), {"exec": {"command": ["sh", "-c", "test ! -e ill"]}}),
    "tcp": (serving(TCP), {"tcpSocket": {"port": TCP}}),
    "http": (
        serving(HTTP, ports=[{"name": "web", "containerPort": HTTP}]),
        {"httpGet": {"port": "web", "path": "/health"}},
    ),
}


@pytest.mark.parametrize(("program", "handler"), HANDLERS.values(), ids=HANDLERS)
def test_a_container_is_ready_while_its_probe_says_so(here: Here, program: Object, handler: Object) -> None:
    name = f"ready-{next(iter(handler)).lower()}"
    made = pod(here, name, program | {"readinessProbe": handler | SOON})
    here.until_pod(name, is_ready)
    if "tcpSocket" not in handler:
        (here.work / name / "ill").touch()
        here.until_pod(name, lambda pod: not is_ready(pod))
        (here.work / name / "ill").unlink()
        assert container(here.until_pod(name, is_ready))["restartCount"] == 0
    here.delete(made)


def test_a_container_that_is_not_alive_is_started_again(here: Here) -> None:
    probe = {"exec": {"command": ["sh", "-c", "test ! -e ill || { rm ill; exit 1; }"]}} | SOON
    made = pod(here, "alive", shell("main", "echo here; sleep inf", livenessProbe=probe))
    here.until_pod("alive", is_ready)
    (here.work / "alive/ill").touch()
    again = here.until_pod("alive", lambda pod: is_ready(pod) and container(pod)["restartCount"] == 1)
    assert container(again)["lastState"]["terminated"]["exitCode"] == 143
    assert here.output("alive") == "here\nhere\n"
    here.delete(made)


def test_other_probes_wait_until_a_slow_program_has_started(here: Here) -> None:
    """It would be killed at once if it were asked whether it is alive."""
    startup = {"exec": {"command": ["test", "-e", "started"]}} | SOON | {"failureThreshold": 60}
    liveness = {"exec": {"command": ["test", "-e", "started"]}} | SOON
    made = pod(here, "slow", shell("main", "sleep inf", startupProbe=startup, livenessProbe=liveness))
    here.until_pod("slow", lambda pod: "running" in container(pod).get("state", {}))
    eventually(lambda: container(here.pod("slow"))["started"] is False)
    (here.work / "slow/started").touch()
    ready = here.until_pod("slow", is_ready)
    assert (container(ready)["started"], container(ready)["restartCount"]) == (True, 0)
    here.delete(made)


def test_a_program_that_never_starts_is_stopped(here: Here) -> None:
    probe = {"tcpSocket": {"port": NOBODY}} | SOON | {"failureThreshold": 2}
    made = pod(here, "dull", shell("main", "sleep inf", startupProbe=probe), restartPolicy="Never")
    ended = here.until_pod("dull", lambda pod: (pod.get("status") or {}).get("phase") == "Failed")
    assert container(ended)["state"]["terminated"]["exitCode"] == 143
    here.delete(made)


def test_probes_ask_replicas_of_a_job_with_services_in_its_own_network(here: Here) -> None:
    """All listen on one port; none of them can be reached at the machine's own address."""
    code = "import os; os.chdir(os.environ['TMPDIR'])" + SERVER
    probe = {"httpGet": {"port": "web", "path": "/"}} | SOON
    main = {
        "name": "main",
        "image": "none",
        "command": ["python3", "-c", code, "$(service.port[web])"],
        "ports": [{"name": "web", "containerPort": 8080}],
        "readinessProbe": probe,
        "livenessProbe": {"tcpSocket": {"port": 8080}} | SOON | {"failureThreshold": 30},
    }
    job = generic(
        "own-net",
        replica("a", "", 2, containers=[main]),
        service={"ports": [{"name": "web", "port": 8080}]},
    )
    here.create(job)
    for index in (0, 1):
        assert container(here.until_pod(f"own-net-a-{index}", is_ready))["restartCount"] == 0
    here.delete(job)


def test_hooks_run_after_the_start_and_before_the_end(here: Here) -> None:
    hooks = {
        "postStart": {"exec": {"command": ["sh", "-c", "sleep 0.3; echo after >>said"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo before >>said"]}},
    }
    script = "trap 'echo stopped >>said; exit 0' TERM; sleep inf & wait"
    made = pod(here, "hooks", shell("main", script, lifecycle=hooks), terminationGracePeriodSeconds=20)
    here.until_pod("hooks", is_ready)
    here.delete(made)
    assert (here.work / "hooks/said").read_text().split() == ["after", "before", "stopped"]


def test_a_failed_hook_ends_the_container(here: Here) -> None:
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "exit 1"]}}}
    made = pod(here, "hurt", shell("main", "sleep inf", lifecycle=hook), restartPolicy="Never")
    ended = here.until_pod("hurt", lambda pod: (pod.get("status") or {}).get("phase") == "Failed")
    assert container(ended)["state"]["terminated"]["exitCode"] == 143
    here.delete(made)


def test_init_containers_come_in_their_order_and_sidecars_go_last(here: Here) -> None:
    ready = {"exec": {"command": ["test", "-e", "side-is-up"]}} | SOON | {"failureThreshold": 60}
    side = "trap 'echo side-off >>said; exit 0' TERM; echo side >>said; touch side-is-up; sleep inf & wait"
    folder = {"workingDir": str(here.work / "order")}
    first = [
        shell("one", "echo one >>said", **folder),
        shell("side", side, restartPolicy="Always", startupProbe=ready, **folder),
        shell("two", "test -e side-is-up && echo two >>said", **folder),
    ]
    made = pod(
        here,
        "order",
        shell("main", "echo main >>said"),
        initContainers=first,
        restartPolicy="Never",
        terminationGracePeriodSeconds=20,
    )
    ended = here.until_pod("order", lambda pod: (pod.get("status") or {}).get("phase") == "Succeeded")
    assert (here.work / "order/said").read_text().split() == ["one", "side", "two", "main", "side-off"]
    assert [each["name"] for each in ended["status"]["initContainerStatuses"]] == ["one", "side", "two"]
    here.delete(made)


def test_a_failed_init_container_fails_the_pod_and_its_job(here: Here) -> None:
    job = generic("init", replica("a", "echo never", initContainers=[shell("first", "echo no data; exit 4")]))
    status = here.play(job)
    assert status["phase"] == "Failed"
    first = status["firstFailure"]
    assert (first["replica"], first["container"], first["exitCode"]) == ("init-a-0", "first", 4)
    assert "main" not in [path.name for path in here.folder.glob("node/pods/*/output/*")]
    here.delete(job)
