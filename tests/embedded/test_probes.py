"""Probes and hooks of real processes: who is ready, who is started again, what runs before and after."""

from typing import Any

import pytest

from support.here import Here, Object, eventually, generic, replica, shell
from support.ports import free_port

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

# Has the port of its arguments open, but while the file `ill` is there.
DOOR = """
import os, socket, sys, time
while True:
    with socket.create_server(("", int(sys.argv[1]))):
        while not os.path.exists("ill"): time.sleep(0.05)
    while os.path.exists("ill"): time.sleep(0.05)
"""


TCP, HTTP, NOBODY, FRAGILE_TCP, FRAGILE_HTTP = (free_port() for _ in range(5))
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


def serving(port: int, program: str = SERVER, **more: Any) -> Object:
    return {"name": "main", "image": "none", "command": ["python3", "-c", program, str(port)], **more}


def container(pod: Object, name: str = "main") -> Object:
    status = pod.get("status") or {}
    every = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    found: Object = next((each for each in every if each["name"] == name), {})
    return found


def is_ready(pod: Object) -> bool:
    return bool(container(pod).get("ready"))


def assert_told(here: Here, name: str, reason: str, *messages: str) -> None:
    """This is what Events with a reason come to say of a pod."""

    def said() -> list[str]:
        return sorted(message for who, message in here.events(reason) if who == f"Pod/{name}")

    eventually(lambda: said() == sorted(messages), said)


HANDLERS: dict[str, tuple[Object, Object]] = {
    "exec": (shell("main", "touch well; sleep inf"), {"exec": {"command": ["sh", "-c", "test ! -e ill"]}}),
    "tcp": (serving(TCP, DOOR), {"tcpSocket": {"port": TCP}}),
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
    (here.work / name / "ill").touch()
    here.until_pod(name, lambda pod: not is_ready(pod))
    (here.work / name / "ill").unlink()
    assert container(here.until_pod(name, is_ready))["restartCount"] == 0
    here.delete(made)


def test_a_container_that_is_not_alive_is_started_again(here: Here) -> None:
    probe = {"exec": {"command": ["sh", "-c", "test ! -e ill || { rm ill; echo it is ill; exit 1; }"]}} | SOON
    made = pod(here, "alive", shell("main", "echo here; sleep inf", livenessProbe=probe))
    here.until_pod("alive", is_ready)
    (here.work / "alive/ill").touch()
    again = here.until_pod("alive", lambda pod: is_ready(pod) and container(pod)["restartCount"] == 1)
    ended = container(again)["lastState"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (143, "Liveness probe failed: exit code 1: it is ill")
    assert here.output("alive") == "here\nhere\n"
    assert_told(here, "alive", "Unhealthy", "Liveness probe failed: exit code 1: it is ill")
    assert_told(here, "alive", "Killing", "Container main failed liveness probe, will be restarted")
    here.delete(made)


@pytest.mark.parametrize(
    ("program", "port", "handler"),
    [(DOOR, FRAGILE_TCP, "tcpSocket"), (SERVER, FRAGILE_HTTP, "httpGet")],
    ids=["tcp", "http"],
)
def test_a_server_that_does_not_answer_any_more_is_started_again(
    here: Here, program: str, port: int, handler: str
) -> None:
    """It is asked whether it is alive only once it has answered."""
    name = f"answers-{handler.lower()}"
    heal = "import os; os.path.exists('ill') and os.remove('ill')"
    probe: Object = {handler: {"port": port}} | SOON
    probes = {"startupProbe": probe | {"failureThreshold": 60}, "livenessProbe": probe}
    made = pod(here, name, serving(port, heal + program, **probes))
    here.until_pod(name, is_ready)
    (here.work / name / "ill").touch()
    again = here.until_pod(name, lambda pod: is_ready(pod) and container(pod)["restartCount"] == 1)
    assert container(again)["lastState"]["terminated"]["exitCode"] == 143
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


@pytest.mark.parametrize(("name", "then"), [("says-no", "exit 1"), ("says-nothing", "sleep inf")])
def test_a_program_that_a_command_never_finds_started_is_stopped(here: Here, name: str, then: str) -> None:
    command = ["sh", "-c", f"echo asked >>asked; {then}"]
    probe = SOON | {"exec": {"command": command}, "failureThreshold": 2, "timeoutSeconds": 5}
    made = pod(here, name, shell("main", "sleep inf", startupProbe=probe), restartPolicy="Never")
    ended = here.until_pod(name, lambda pod: (pod.get("status") or {}).get("phase") == "Failed")
    assert container(ended)["state"]["terminated"]["exitCode"] == 143
    assert (here.work / name / "asked").read_text() == "asked\nasked\n"
    here.delete(made)


def test_a_program_that_never_starts_is_stopped(here: Here) -> None:
    probe = {"tcpSocket": {"port": NOBODY}} | SOON | {"failureThreshold": 2}
    made = pod(here, "dull", shell("main", "sleep inf", startupProbe=probe), restartPolicy="Never")
    ended = here.until_pod("dull", lambda pod: (pod.get("status") or {}).get("phase") == "Failed")
    assert container(ended)["state"]["terminated"]["exitCode"] == 143
    assert_told(here, "dull", "Unhealthy", "Startup probe failed: Connection refused")
    assert_told(here, "dull", "Killing", "Container main failed startup probe")
    here.delete(made)


def test_a_probe_that_nobody_here_can_make_ends_no_container(here: Here) -> None:
    asked = {name: {"grpc": {"port": NOBODY}} | SOON for name in ("livenessProbe", "readinessProbe")}
    made = pod(here, "remote", shell("main", "until test -e seen; do sleep 0.1; done", **asked))
    here.until_pod("remote", is_ready)
    notices = [
        f"{name} of container main: gRPC is not spoken here, the probe counts as passed"
        for name in sorted(asked)
    ]
    assert_told(here, "remote", "Substituted", *notices)
    (here.work / "remote/seen").touch()
    ended = here.until_pod("remote", lambda pod: "terminated" in (container(pod).get("lastState") or {}))
    assert container(ended)["lastState"]["terminated"]["exitCode"] == 0
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
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "echo no such data; exit 1"]}}}
    made = pod(here, "hurt", shell("main", "sleep inf", lifecycle=hook), restartPolicy="Never")
    ended = here.until_pod("hurt", lambda pod: (pod.get("status") or {}).get("phase") == "Failed")
    state = container(ended)["state"]["terminated"]
    assert (state["exitCode"], state["message"]) == (143, "PostStartHook failed: exit code 1: no such data")
    assert_told(here, "hurt", "FailedPostStartHook", "PostStartHook failed: exit code 1: no such data")
    here.delete(made)


def test_a_failed_hook_before_the_end_is_told_and_holds_nobody_up(here: Here) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo nobody to tell; exit 2"]}}}
    made = pod(here, "rude", shell("main", "sleep inf", lifecycle=hook))
    here.until_pod("rude", is_ready)
    here.delete(made)
    text = "PreStopHook failed: exit code 2: nobody to tell"
    assert_told(here, "rude", "FailedPreStopHook", text)


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
