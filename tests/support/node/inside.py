"""The first process inside: brings the cluster up, then does what it is told until its input ends.

    python -m support.node.inside FOLDER CGROUP LISTENER-FD PAUSE-IMAGE

It writes one JSON object per line to its standard output: first `{"ready": {…}}` or `{"error": "…"}`, then
an answer to every line of its input: `{"restart": "kubelet"}` or `{"import": "image.tar"}`.
"""

import json
import os
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from support.component import Component
from support.node import door, kubelet, runtime, world
from support.node.plane import NodePlane
from support.node.program import START_SECONDS, Program

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


class Inside:
    """All programs of the cluster."""

    def __init__(self, folder: Path, cgroup: str) -> None:
        self._folder, self._cgroup = folder, cgroup
        self._programs: dict[str, Program] = {}
        self.plane = NodePlane(parent=folder)

    def start(self, pause_image: Path) -> None:
        """Start everything; return when the node is ready."""
        world.build(self._folder)
        self._add(runtime.containerd(self._folder)).spawn()
        self.plane.start(COMPONENTS, deadline_seconds=START_SECONDS)
        for program in (
            kubelet.kubelet(self._folder, self.plane, self._cgroup),
            kubelet.kube_proxy(self._folder, self.plane),
            kubelet.coredns(self._folder, self.plane),
        ):
            self._add(program).spawn()
        for program in self._programs.values():
            program.wait_until_healthy()
        runtime.import_image(pause_image)
        self._wait_until_ready()

    def _add(self, program: Program) -> Program:
        self._programs[program.name] = program
        return program

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self.plane.kubectl(
            "wait", "--for=condition=Ready", f"node/{kubelet.NODE_NAME}", "--timeout=5s", check=False
        ).returncode:
            for program in self._programs.values():
                program.raise_if_dead()
            if time.monotonic() > deadline:
                raise TimeoutError(f"the node is not ready: {self._programs['kubelet'].tail()}")
            time.sleep(0.1)
        # Made by the controller manager; pods are refused before.
        for name in ("serviceaccount/default", "configmap/kube-root-ca.crt"):
            self.plane.kubectl("wait", "--for=create", name, "--timeout=30s")

    def restart(self, name: str, signum: int = signal.SIGTERM) -> None:
        """End a program of the node, and start it again."""
        program: Component = self._programs[name]
        program.stop(signum)
        self._programs[name].start()

    def describe(self) -> dict[str, Any]:
        return {"kubeconfig": str(self.plane.kubeconfig), "audit_log": str(self.plane.audit_log)}


def _say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def _obey(inside: Inside, line: str) -> None:
    command = json.loads(line)
    try:
        if "restart" in command:
            inside.restart(command["restart"])
        if "import" in command:
            runtime.import_image(Path(command["import"]))
    except Exception:
        _say(error=traceback.format_exc())
    else:
        _say(done=command)


def _run(folder: Path, cgroup: str, listener: socket.socket, pause_image: Path) -> None:
    """Nothing is stopped one by one at the end: when the first process ends, the kernel ends all others."""
    inside = Inside(folder, cgroup)
    try:
        inside.start(pause_image)
    except Exception:
        _say(error=traceback.format_exc())
        return
    door.serve(listener, inside.plane.port)
    _say(ready=inside.describe())
    for line in sys.stdin:
        _obey(inside, line)


def _reap_until_ended(child: int) -> int:
    """As process 1, take care of those whose parents are gone."""
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def main() -> None:
    folder, cgroup, listener, pause_image = sys.argv[1:]
    child = os.fork()
    if child:
        sys.stdin.close()
        sys.exit(_reap_until_ended(child))
    _run(Path(folder), cgroup, socket.socket(fileno=int(listener)), Path(pause_image))


if __name__ == "__main__":
    main()
