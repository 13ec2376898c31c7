"""GenericJobs as processes of this machine: services, rules, restarts, pause and resume."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from bireme.node.shim.tree import read_process
from support.here import Here, Object, eventually, generic, replica, shell

pytestmark = pytest.mark.xdist_group("here")

RING = """
import http.server, socket, sys, threading, time, urllib.request
rank, port, after = sys.argv[1], int(sys.argv[2]), sys.argv[3]
asked = threading.Event()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(rank.encode()); asked.set()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("", port), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for _ in range(600):
    try:
        said = urllib.request.urlopen(f"http://{after}:{port}").read().decode()
        break
    except OSError:
        time.sleep(0.1)
print("next is", said, "I am", socket.gethostname(), flush=True)
asked.wait(60)
"""


def test_replicas_that_listen_on_one_port_find_each_other_by_name(here: Here) -> None:
    types = ["a", "b", "c", "d"]
    jobs = []
    for place, kind in enumerate(types):
        after = f"$(service.{types[(place + 1) % 4]}[0].host)"
        container = {
            "name": "main",
            "image": "none",
            "command": ["python3", "-c", RING, "$(type)", "$(service.port[web])", after],
        }
        jobs.append({"type": kind, "template": {"spec": {"containers": [container]}}})
    job = generic("ring", *jobs, service={"ports": [{"name": "web", "port": 8080}]})
    assert here.play(job)["phase"] == "Succeeded"
    for place, kind in enumerate(types):
        said = here.output(f"ring-{kind}-0")
        assert said == f"next is {types[(place + 1) % 4]} I am ring-{kind}-0\n"
    here.delete(job)


def test_services_without_a_network_are_said_not_to_be_found(nameless: Here) -> None:
    job = generic("lonely", replica("a", "true"), service={"ports": [{"name": "web", "port": 8080}]})
    assert nameless.play(job)["phase"] == "Succeeded"
    text = (
        "service.ports: pods get no network of their own on this machine: names of services do not resolve,"
        " and replicas share its ports"
    )
    eventually(lambda: nameless.events("Substituted") == {(who, text) for who in LONELY})
    nameless.delete(job)


LONELY = ("Pod/lonely-a-0", "GenericJob/lonely")


def test_a_container_is_told_the_address_of_its_pod_from_the_first_on(here: Here) -> None:
    paths = ("status.podIP", "status.podIPs", "status.hostIP")
    env = [{"name": path.partition(".")[2], "valueFrom": {"fieldRef": {"fieldPath": path}}} for path in paths]
    say = 'echo "$podIP $podIPs $hostIP"'
    spec = replica("a", say, initContainers=[shell("first", say, env=env)])
    spec["template"]["spec"]["containers"][0]["env"] = env
    job = generic("told", spec, service={"ports": [{"name": "web", "port": 8080}]})
    here.create(job)
    told: list[str] = []

    def ends(pod: Object) -> bool:
        status = pod.get("status") or {}
        told.append(status.get("podIP", ""))
        return status.get("phase") in ("Succeeded", "Failed")

    here.until_pod("told-a-0", ends)
    own = told[-1]
    assert own.startswith("10.88.")
    assert set(told) <= {"", own}, "nobody is told an address that is not the pod's"
    for container in ("first", "main"):
        assert here.output("told-a-0", container) == f"{own} {own} 127.0.0.1\n"
    here.delete(job)


LONG = "sleep 100"
RULES: dict[str, tuple[Object, str, str]] = {
    "every replica must succeed": (
        generic("rule", replica("a", "true", 2), replica("b", "true")),
        "Succeeded",
        "",
    ),
    "one that failed for good fails the job": (
        generic("rule", replica("a", LONG), replica("b", "exit 6", 2), cleanUpPolicy="All"),
        "Failed",
        "rule-b-",
    ),
    "a success rule does not wait for the others": (
        generic(
            "rule", replica("a", "true"), replica("b", LONG), successRules=[{"a": [0]}], cleanUpPolicy="All"
        ),
        "Succeeded",
        "",
    ),
    "a failure rule bears a failure that it does not name": (
        generic(
            "rule",
            replica("a", "exit 3"),
            replica("b", "true"),
            failureRules=[{"a": [0], "b": [0]}],
            successRules=[{"b": [0]}],
        ),
        "Succeeded",
        "",
    ),
    "no rule holds at the end": (
        generic("rule", replica("a", "exit 3"), replica("b", "true"), failureRules=[{"b": [0]}]),
        "Failed",
        "rule-a-0",
    ),
}


@pytest.mark.parametrize(("job", "phase", "blamed"), RULES.values(), ids=RULES)
def test_rules_decide_on_the_end(here: Here, job: Object, phase: str, blamed: str) -> None:
    status = here.play(job)
    assert status["phase"] == phase
    assert ("firstFailure" in status) == bool(blamed)
    assert not blamed or status["firstFailure"]["replica"].startswith(blamed)
    if job["spec"].get("cleanUpPolicy") == "All":
        eventually(lambda: not [pod for pod in here.pods() if pod.startswith("rule-")])
    here.delete(job)


FAIL_TWICE = "echo x >>tries.$(rank); test $(wc -l <tries.$(rank)) -gt 2"


@pytest.mark.parametrize(
    ("restarts", "phase", "tries"), [(2, "Succeeded", 3), (1, "Failed", 2)], ids=["enough", "too few"]
)
def test_a_replica_is_replaced_until_its_restarts_are_used(
    here: Here, restarts: int, phase: str, tries: int
) -> None:
    name = f"again-{restarts}"
    folder = here.work / name
    folder.mkdir()
    container = shell("main", FAIL_TWICE.replace("$(wc", "$$(wc"), workingDir=str(folder))
    worker = replica("worker", "", 2, restarts=restarts, containers=[container])
    job = generic(name, worker)
    status = here.play(job)
    assert status["phase"] == phase
    assert max(len(file.read_text().split()) for file in folder.glob("tries.*")) == tries
    assert max(each["restarts"] for each in status["tasks"][0]["replicas"]) == restarts
    here.delete(job)


def pause(*, on: bool, **more: Any) -> Object:
    return {"runMode": {"pause": {"enabled": on, **more}}}


def test_what_a_container_writes_about_its_end_is_told(here: Here) -> None:
    """The file is there before it, as with a kubelet: our own launchers don't make it."""
    script = 'if [ -w "$BIREME_TERMINATION_LOG" ]; then echo no data >"$BIREME_TERMINATION_LOG"; fi; exit 3'
    job = generic("words", replica("main", script))
    first = here.play(job)["firstFailure"]
    here.delete(job)
    assert (first["exitCode"], first["message"]) == (3, "no data")


@pytest.mark.parametrize(
    "place",
    ["/dev/termination-log", "/bireme-test/words", "/bireme-volume/words"],
    ids=["default", "elsewhere", "in a volume"],
)
def test_last_words_are_written_where_the_manifest_says(here: Here, place: str) -> None:
    script = f"echo out of data >{place}; echo kept >/bireme-volume/file; ls /bireme-volume; exit 3"
    volume = {"name": "files", "hostPath": {"path": str(here.work), "type": "Directory"}}
    mount = {"name": "files", "mountPath": "/bireme-volume"}
    own = {} if place == "/dev/termination-log" else {"terminationMessagePath": place}
    main = shell("main", script, volumeMounts=[mount], **own)
    job = generic("last", replica("a", "", containers=[main], volumes=[volume]))
    first = here.play(job)["firstFailure"]
    here.delete(job)
    assert (first["exitCode"], first["message"]) == (3, "out of data")
    assert (here.work / "file").read_text() == "kept\n", "what is written beside it stays in the volume"
    (here.work / "file").unlink()
    assert not Path("/dev/termination-log").exists(), "the machine has no trace of it"


def test_a_pod_has_the_devices_of_the_machine_but_not_its_consoles(here: Here) -> None:
    terminal = "import os; print(os.path.exists(os.ttyname(os.openpty()[1])))"
    script = f"""
        head -c 4 /dev/urandom | wc -c
        echo lost >/dev/null
        python3 -c "{terminal}"
        ls /dev | grep -c '^tty[0-9]'
        true"""
    job = generic("dev", replica("a", script))
    assert here.play(job)["phase"] == "Succeeded"
    assert here.output("dev-a-0") == "4\nTrue\n0\n"
    here.delete(job)


def test_a_job_is_paused_and_resumed_with_other_commands(here: Here) -> None:
    resume = [
        {"type": "a", "command": ["sh", "-c", 'echo resumed with $0; test -z "$PREPARED"', "args"]},
    ]
    job = generic(
        "calm",
        replica("a", "trap 'echo stopped; exit 0' TERM; echo first; sleep 100 & wait"),
        replica("b", "true"),
        **pause(on=False, resumeSpecs=resume),
    )
    created = here.create(job)
    here.until(created, lambda job: job.get("status", {}).get("phase") == "Running")
    here.change(job, pause(on=True))
    paused = here.until(created, lambda job: _condition(job, "Paused") == "Stopped")
    assert paused["status"]["phase"] == "Paused"
    assert [pod for pod in here.pods() if pod.startswith("calm-")] == []
    here.change(job, pause(on=False))
    status = here.end_of(created)
    assert status["phase"] == "Succeeded"
    assert here.output("calm-a-0") == "resumed with args\n"
    assert here.pod("calm-b-0")["status"]["phase"] == "Succeeded"
    here.delete(job)


def test_a_job_that_was_created_paused_runs_its_ordinary_command(here: Here) -> None:
    resume = [{"type": "a", "command": ["sh", "-c", "echo resumed"]}]
    job = generic("late", replica("a", "echo ordinary"), **pause(on=True, resumeSpecs=resume))
    created = here.create(job)
    here.until(created, lambda job: _condition(job, "Paused") == "Stopped")
    here.change(job, pause(on=False))
    assert here.end_of(created)["phase"] == "Succeeded"
    assert here.output("late-a-0") == "ordinary\n"
    here.delete(job)


def _condition(job: Object, kind: str) -> str:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((each.get("reason", "") for each in conditions if each["type"] == kind), "")


def test_a_pod_goes_though_its_shim_does_nothing_any_more(here: Here) -> None:
    job = generic("deaf", replica("a", "sleep 1000", terminationGracePeriodSeconds=1))
    here.create(job)
    pod = here.until_pod("deaf-a-0", lambda pod: (pod.get("status") or {}).get("phase") == "Running")
    state = json.loads((here.folder / f"node/pods/{pod['metadata']['uid']}/state.json").read_text())
    os.kill(state["shim"]["pid"], signal.SIGSTOP)
    here.delete(job)
    pids = (state["shim"]["pid"], state["containers"]["main"]["pid"])
    eventually(lambda: not any(map(read_process, pids)))
