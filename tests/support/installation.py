"""Bireme installed on a control plane: its objects, its account, and its controller as a process."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bireme.installation.names import CONTROLLER, DEFAULT_NAMESPACE
from bireme.installation.objects import build_crds, build_namespace, build_objects
from bireme.installation.values import overlay, read_values
from support.cluster_world import until
from support.control_plane import ControlPlane
from support.ports import free_port

BIREME = Path(sys.executable).parent / "bireme"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
Object = dict[str, Any]


class Installation:
    """What `bireme manifests` prints for some values, but CRDs, its namespace, and a controller that runs.

    No pod can be reached here, so webhooks are called by the URL of a process of ours.
    """

    def __init__(self, plane: ControlPlane, namespace: str, values: Object | None = None) -> None:
        self.plane = plane
        self.namespace = namespace
        self.values = read_values(overlay(values or {}, {"crds": {"install": False}}))
        self.health_port, self.webhook_port = free_port(), free_port()
        made = [self._reachable(each) for each in build_objects(self.values, namespace)]
        homes = [] if namespace == DEFAULT_NAMESPACE else [build_namespace(namespace)]
        self.objects = [*homes, *made]

    def _reachable(self, obj: Object) -> Object:
        if not obj["kind"].endswith("WebhookConfiguration"):
            return obj
        webhooks = [
            {**each, "clientConfig": {"url": self._url(each["clientConfig"]["service"]["path"])}}
            for each in obj["webhooks"]
        ]
        return {**obj, "webhooks": webhooks}

    def _url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.webhook_port}{path}"

    def apply(self) -> None:
        apply(self.plane, self.objects)

    def remove(self) -> None:
        command = ("delete", "--ignore-not-found", "--wait=false", "-f", "-")
        self.plane.kubectl(*command, input=as_list(self.objects))

    def find(self, kind: str, name: str) -> Object:
        return next(each for each in self.objects if (each["kind"], each["metadata"]["name"]) == (kind, name))

    @property
    def arguments(self) -> list[str]:
        """Those of the Deployment, with other places to listen at."""
        (container,) = self.find("Deployment", CONTROLLER)["spec"]["template"]["spec"]["containers"]
        given: list[str] = container["args"]
        return [
            *given,
            f"--health-port={self.health_port}",
            "--health-host=127.0.0.1",
            f"--webhook-port={self.webhook_port}",
            "--webhook-host=127.0.0.1",
            "--webhook-name=127.0.0.1",
        ]

    def account_kubeconfig(self) -> Path:
        """The kubeconfig of the controller's own service account."""
        token = self.plane.kubectl(
            "create", "token", CONTROLLER, "-n", self.namespace, "--duration=2h"
        ).stdout.strip()
        config = json.loads(self.plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        path = self.plane.folder / f"account-{self.namespace}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    @contextlib.contextmanager
    def controller(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """The controller as the Deployment runs it, with the permissions that the installation gives it."""
        log = self.plane.folder / f"controller-{self.namespace}.log"
        command = [
            str(BIREME),
            *self.arguments,
            # No other replica takes over here, so that a test would only wait.
            "--webhook-drain-seconds=0",
            *options,
            f"--kubeconfig={self.account_kubeconfig()}",
        ]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stderr=output, env={"PATH": os.environ["PATH"]})
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def wait_ready(self) -> None:
        """Wait until the process is ready, as a kubelet would find out."""

        async def look() -> bool:
            return (await asyncio.to_thread(self.health))[0] == 200

        try:
            asyncio.run(until(look, seconds=120))
        except TimeoutError:
            raise AssertionError(f"never ready: {self.health()}\n{self.log()}") from None

    def log(self) -> str:
        return (self.plane.folder / f"controller-{self.namespace}.log").read_text()

    def health(self, path: str = "/readyz") -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}{path}", timeout=5) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)


def as_list(objects: Sequence[Object]) -> str:
    """For `kubectl -f -`; JSON, which is read much faster than YAML."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def apply(plane: ControlPlane, objects: Sequence[Object], *options: str) -> str:
    command = ("apply", "--server-side", "--force-conflicts", *options, "-f", "-")
    return plane.kubectl(*command, input=as_list(objects)).stdout


def install_crds(plane: ControlPlane) -> None:
    """All six, once for all installations."""
    apply(plane, build_crds(read_values({"kubeflow": {"enabled": True}})))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=150s", "crd", "--all")


def audited(plane: ControlPlane, user: str) -> list[Object]:
    """What the API server was asked by a user, from its audit log."""
    lines = (plane.folder / "audit.log").read_text().splitlines()
    entries = (json.loads(line) for line in lines if user in line)
    return [entry for entry in entries if entry["user"]["username"] == user]
