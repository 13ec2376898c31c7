"""GenericJobs in real containers: services, run modes and clean-up."""

from typing import Any

import pytest

from support.manifests import generic_job, replica
from support.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

IDLE = "exec sleep 600"
KIND = "genericjobs.batch.tensorstack.dev"


def test_replicas_find_each_other_by_name(stage: Stage) -> None:
    serve = "cd /tmp && echo hello from $(type) $(rank) >hi && exec busybox httpd -f -p $(service.port[http])"
    ask = "until wget -q -O - http://$(service.server[0].host):$(service.port[http])/hi; do sleep 0.3; done"
    job = generic_job(
        "greet",
        stage.image("busybox"),
        {"server": serve, "client": ask},
        service={"ports": [{"name": "http", "port": 7000}]},
        successRules=[{"client": [0]}],
    )
    stage.create(job)
    stage.wait_phase(job, "Succeeded")
    assert stage.logs("greet-client-0").splitlines()[-1] == "hello from server 0"


def test_a_failed_replica_is_restarted_and_then_named(stage: Stage) -> None:
    image = stage.image("busybox")
    restarts = {"restartPolicy": {"policy": "OnFailure", "limit": 1}}
    job = generic_job("bad", image, {}, cleanUpPolicy="All")
    script = "echo something is wrong >&2; exit 5"
    job["spec"]["replicaSpecs"] = [replica("worker", image, script, **restarts)]
    stage.create(job)
    status = stage.wait_phase(job, "Failed")
    cause = status["firstFailure"]
    assert (cause["replica"], cause["exitCode"], cause["message"]) == (
        "bad-worker-0",
        5,
        "something is wrong",
    )
    assert status["tasks"][0]["restartCount"] == 1


def test_a_replica_that_takes_too_much_memory_is_named(stage: Stage) -> None:
    image = stage.image("busybox")
    job = generic_job("greedy", image, {"worker": "x=x; while :; do x=$x$x; done"})
    container = job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"memory": "32Mi"}}
    stage.create(job)
    cause = stage.wait_phase(job, "Failed")["firstFailure"]
    assert (cause["replica"], cause["reason"]) == ("greedy-worker-0", "OOMKilled")


def test_a_paused_job_has_no_pods_and_goes_on_with_its_resume_command(stage: Stage) -> None:
    resume = {"type": "worker", "command": ["sh", "-c", "echo went on"]}
    run_mode = {"pause": {"enabled": False, "resumeSpecs": [resume]}}
    job = generic_job("pause", stage.image("busybox"), {"worker": IDLE}, runMode=run_mode)
    stage.create(job)
    stage.wait_phase(job, "Running")
    stage.patch(job, {"runMode": {"pause": {"enabled": True}}})
    stage.wait((KIND, "pause"), lambda found: _reason(found, "Paused") == "Stopped")
    assert stage.names("pods") == []
    stage.patch(job, {"runMode": {"pause": {"enabled": False}}})
    stage.wait_phase(job, "Succeeded")
    assert stage.logs("pause-worker-0") == "went on\n"


def _reason(found: dict[str, Any], condition: str) -> str | None:
    for each in (found.get("status") or {}).get("conditions") or ():
        if each["type"] == condition:
            return str(each.get("reason"))
    return None


def test_a_job_in_debug_mode_idles_until_it_is_switched_off(stage: Stage) -> None:
    run_mode = {"debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "command": ["sleep", "600"]}]}}
    job = generic_job("debug", stage.image("busybox"), {"worker": "echo worked"}, runMode=run_mode)
    stage.create(job)
    stage.wait_phase(job, "Running")
    assert "sleep 600" in stage.execute("debug-worker-0", "sh", "-c", "tr '\\0' ' ' </proc/1/cmdline")
    stage.patch(job, {"runMode": {"debug": {"enabled": False}}})
    stage.wait_phase(job, "Succeeded")
    assert stage.logs("debug-worker-0") == "worked\n"


@pytest.mark.parametrize(
    ("policy", "left"),
    [("None", ["end-short-0", "end-long-0"]), ("Unfinished", ["end-short-0"]), ("All", [])],
)
def test_the_clean_up_policy_says_which_pods_stay(stage: Stage, policy: str, left: list[str]) -> None:
    job = generic_job(
        "end",
        stage.image("busybox"),
        {"short": "true", "long": IDLE},
        successRules=[{"short": [0]}],
        cleanUpPolicy=policy,
    )
    stage.create(job)
    stage.wait_phase(job, "Succeeded")
    stage.until(lambda: sorted(stage.names("pods")) == sorted(left), f"pods {left}")
