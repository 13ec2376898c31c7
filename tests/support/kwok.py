"""Nodes without machines: KWOK pretends that their pods run, and end when a test says so."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from support.control_plane import ControlPlane
from support.node.kubelet import binaries_folder

ENDS: Final = "bireme.dev/test-ends"
"""An annotation: the pod's containers end, with success."""
_CONTAINERS: Final = """\
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  restartCount: 0
  ready: %(ready)s
  state: {%(state)s}
{{ end }}
phase: %(phase)s
"""
_RUNS: Final = {
    "ready": "true",
    "state": "running: {startedAt: {{ Now | Quote }}}",
    "phase": "Running\nstartTime: {{ Now | Quote }}\npodIP: 10.9.9.9",
}
_ENDED: Final = {
    "ready": "false",
    "state": "terminated: {exitCode: 0, reason: Completed, finishedAt: {{ Now | Quote }}}",
    "phase": "Succeeded",
}
_READY: Final = """\
conditions:
- {type: Ready, status: "True", reason: Pretended, lastHeartbeatTime: {{ Now | Quote }}}
phase: Running
"""


def _stage(name: str, kind: str, expressions: list[tuple[str, str, str]], **following: object) -> Any:
    """Objects for which all of `key operator value` hold become what follows."""
    rules = [
        {"key": key, "operator": operator, **({"values": [value]} if value else {})}
        for key, operator, value in expressions
    ]
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": rules},
            "next": following,
        },
    }


_DELETED: Final = ".metadata.deletionTimestamp"
_STAGES: Final = (
    _stage(
        "node-ready",
        "Node",
        [('.status.conditions.[] | select( .type == "Ready" ) | .status', "NotIn", "True")],
        statusTemplate=_READY,
    ),
    _stage(
        "pod-runs",
        "Pod",
        [(_DELETED, "DoesNotExist", ""), (".status.phase", "In", "Pending")],
        statusTemplate=_CONTAINERS % _RUNS,
    ),
    _stage(
        "pod-ends",
        "Pod",
        [
            (_DELETED, "DoesNotExist", ""),
            (".status.phase", "In", "Running"),
            (f'.metadata.annotations["{ENDS}"]', "Exists", ""),
        ],
        statusTemplate=_CONTAINERS % _ENDED,
    ),
    _stage("pod-goes", "Pod", [(_DELETED, "Exists", "")], delete=True),
)


def why_not() -> str | None:
    return None if (binaries_folder() / "kwok").exists() else "no kwok: run `make node`"


@contextmanager
def nodes(plane: ControlPlane, count: int) -> Iterator[None]:
    """That many nodes, as long as the block runs."""
    config = plane.folder / "kwok.yaml"
    config.write_text("---\n".join(json.dumps(stage) + "\n" for stage in _STAGES))
    command = [
        str(binaries_folder() / "kwok"), "--kubeconfig", str(plane.kubeconfig), "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40", f"--config={config}",
    ]  # fmt: skip
    with (plane.folder / "kwok.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _add(plane, count)
        yield
    finally:
        process.terminate()
        process.wait(30)


def _add(plane: ControlPlane, count: int) -> None:
    has = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number}"},
            "status": {"allocatable": has, "capacity": has},
        }
        for number in range(count)
    ]
    plane.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    plane.kubectl("wait", "--for=condition=Ready", "--timeout=150s", "node", "--all")
