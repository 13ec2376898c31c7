"""ColossalAIJobs in real containers: torchrun is a stand-in, all around it is real."""

import json
from typing import Any, Final

import pytest

from support.manifests import Manifest, colossalai_job
from support.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

TORCHRUN: Final = """\
#!/usr/bin/python3
# Says what it was called with, in a line that is printed at once; fails on the node of $FAIL_ON.
import json, os, signal, socket, sys
host = socket.gethostname()
options = dict(word.split("=", 1) for word in sys.argv if "=" in word)
master = socket.gethostbyname(options["--master_addr"])
said = {"args": sys.argv[1:], "host": host, "cwd": os.getcwd(), "master": master}
said["level"] = os.environ["LEVEL"]
print("called " + json.dumps(said), flush=True)
if os.environ.get("FAIL_ON") == host:
    sys.exit(9)
if "FAIL_ON" in os.environ:
    signal.pause()
"""
ARGUMENTS: Final = ["train.py", "--name", "it's $HOME", "two  spaces", ""]


def build(stage: Stage, name: str, **env: str) -> Manifest:
    """A job whose workers have the stand-in on their PATH."""
    tools = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tools"}}
    stage.create({**tools, "data": {"torchrun": TORCHRUN}})
    job = colossalai_job(name, stage.image("mpi4"), ARGUMENTS, torchArgs=["--max-restarts", "0"])
    job["spec"]["launcher"] |= {"workingDir": "/srv", "env": [{"name": "LEVEL", "value": "3"}]}
    pod = job["spec"]["worker"]["template"]["spec"]
    pod["volumes"] = [{"name": "tools", "configMap": {"name": "tools", "defaultMode": 0o555}}]
    variables = {"PATH": "/tools:/usr/bin:/bin", **env}
    pod["containers"][0] |= {
        "volumeMounts": [{"name": "tools", "mountPath": "/tools"}],
        "env": [{"name": key, "value": value} for key, value in variables.items()],
    }
    return job


def calls(output: str) -> dict[str, dict[str, Any]]:
    """What each worker's torchrun was called with."""
    said = [json.loads(line[7:]) for line in output.splitlines() if line.startswith("called ")]
    return {each["host"]: each for each in said}


def test_torchrun_starts_on_every_worker_with_its_arguments(stage: Stage) -> None:
    job = build(stage, "train")
    stage.create(job)
    stage.wait_phase(job, "Succeeded")
    found = calls(stage.logs("train-launcher"))
    for rank in (0, 1):
        call = found[f"train-worker-{rank}"]
        options = [
            "--nnodes=2", f"--node_rank={rank}", "--nproc_per_node=2", "--master_addr=train-worker-0",
            "--master_port=29500", "--max-restarts", "0",
        ]  # fmt: skip
        assert call["args"] == options + ARGUMENTS
        assert (call["cwd"], call["level"]) == ("/srv", "3")
    assert found["train-worker-0"]["master"] == found["train-worker-1"]["master"]


def test_the_worker_whose_torchrun_failed_is_named_and_the_others_stop(stage: Stage) -> None:
    job = build(stage, "bad", FAIL_ON="bad-worker-1")
    stage.create(job)
    cause = stage.wait_phase(job, "Failed")["firstFailure"]
    assert cause["replica"] == "bad-worker-1"
    assert cause["exitCode"] == 9
    stage.until(lambda: stage.names("pods") == ["bad-launcher"], "the launcher alone")
