"""Bireme installed on a control plane: its objects, its accounts, and its programs as processes."""

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

import pytest

from bireme.control.webhooks.certificates import make_authority
from bireme.installation.authority import Authority
from bireme.installation.names import CONTROLLER, DEFAULT_NAMESPACE, WEBHOOKS
from bireme.installation.objects import build_crds, build_namespace, build_objects
from bireme.installation.values import overlay
from bireme.kube.clock import utc_now
from support.cluster_world import until
from support.control_plane import BinariesMissingError, ControlPlane
from support.fixtures import unavailable
from support.ports import free_port
from support.values import complete_values

BIREME = Path(sys.executable).parent / "bireme"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
Object = dict[str, Any]


class Installation:
    """What `bireme manifests` prints for some values, but CRDs, its namespace, and programs that run.

    No pod can be reached here, so webhooks are called by the URL of a process of ours.
    """

    def __init__(self, plane: ControlPlane, namespace: str, values: Object | None = None) -> None:
        self.plane = plane
        self.namespace = namespace
        self.values = complete_values(overlay(values or {}, {"crds": {"install": False}}))
        self.health_port, self.webhook_port = free_port(), free_port()
        self.webhook_health_port = free_port()
        self.authority = make_authority(utc_now())
        made = [self._reachable(each) for each in build_objects(self.values, namespace, self.authority)]
        homes = [] if namespace == DEFAULT_NAMESPACE else [build_namespace(namespace)]
        self.objects = [*homes, *made]

    def _reachable(self, obj: Object) -> Object:
        if not obj["kind"].endswith("WebhookConfiguration"):
            return obj
        webhooks = [
            {**each, "clientConfig": self._client_config(each["clientConfig"])} for each in obj["webhooks"]
        ]
        return {**obj, "webhooks": webhooks}

    def _client_config(self, config: Object) -> Object:
        url = f"https://127.0.0.1:{self.webhook_port}{config['service']['path']}"
        return {"url": url, "caBundle": config["caBundle"]}

    def certificates(self, authority: Authority | None = None) -> Path:
        """The folder where the pods of the webhooks have their Secret; with another authority, if given."""
        folder = self.plane.folder / f"certificates-{self.namespace}"
        folder.mkdir(exist_ok=True)
        chosen = authority or self.authority
        (folder / "ca.crt").write_bytes(chosen.certificates)
        (folder / "ca.key").write_bytes(chosen.key)
        return folder

    def apply(self) -> None:
        apply(self.plane, self.objects)

    def remove(self) -> None:
        command = ("delete", "--ignore-not-found", "--wait=false", "-f", "-")
        self.plane.kubectl(*command, input=as_list(self.objects))

    def find(self, kind: str, name: str) -> Object:
        return next(each for each in self.objects if (each["kind"], each["metadata"]["name"]) == (kind, name))

    def _arguments(self, deployment: str, health_port: int) -> list[str]:
        """Those of a Deployment, with other places to listen at."""
        (container,) = self.find("Deployment", deployment)["spec"]["template"]["spec"]["containers"]
        given: list[str] = container["args"]
        return [*given, f"--health-port={health_port}", "--health-host=127.0.0.1"]

    def account_kubeconfig(self, account: str = CONTROLLER) -> Path:
        """The kubeconfig of a service account of the installation."""
        token = self.plane.kubectl(
            "create", "token", account, "-n", self.namespace, "--duration=2h"
        ).stdout.strip()
        config = json.loads(self.plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        path = self.plane.folder / f"{account}-{self.namespace}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Controller and webhooks, both ready."""
        with self.controller(), self.webhooks():
            self.wait_ready()
            self.wait_webhooks()
            yield

    @contextlib.contextmanager
    def controller(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """The controller as its Deployment runs it, with the permissions that the installation gives it."""
        with self._process(CONTROLLER, *self._arguments(CONTROLLER, self.health_port), *options) as process:
            yield process

    @contextlib.contextmanager
    def webhooks(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """The webhooks as their Deployment runs them, with an account of their own."""
        arguments = [
            *self._arguments(WEBHOOKS, self.webhook_health_port),
            f"--certificates={self.certificates()}",
            f"--port={self.webhook_port}",
            "--host=127.0.0.1",
            "--name=127.0.0.1",
            # No other replica takes over here, so that a test would only wait.
            "--drain-seconds=0",
            *options,
        ]
        with self._process(WEBHOOKS, *arguments) as process:
            yield process

    @contextlib.contextmanager
    def _process(self, account: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        log = self.plane.folder / f"{account}-{self.namespace}.log"
        command = [str(BIREME), *arguments, f"--kubeconfig={self.account_kubeconfig(account)}"]
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
        """Wait until the controller is ready, as a kubelet would find out."""
        self._wait(CONTROLLER, self.health_port)

    def wait_webhooks(self) -> None:
        self._wait(WEBHOOKS, self.webhook_health_port)

    def _wait(self, name: str, port: int) -> None:
        async def look() -> bool:
            return (await asyncio.to_thread(self.health, port))[0] == 200

        try:
            asyncio.run(until(look, seconds=120))
        except TimeoutError:
            raise AssertionError(f"never ready: {self.health(port)}\n{self.log(name)}") from None

    def log(self, name: str = CONTROLLER) -> str:
        path = self.plane.folder / f"{name}-{self.namespace}.log"
        return path.read_text() if path.exists() else ""

    def health(self, port: int | None = None, path: str = "/readyz") -> tuple[int, str]:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port or self.health_port}{path}", timeout=5
            ) as reply:
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


def node(name: str = "somewhere") -> Object:
    """A node that only pretends: without one, pods that are bound to it may not be resized."""
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": name}
    room = {"cpu": "1000", "memory": "1Ti", "pods": "1000"}
    status = {"capacity": room, "allocatable": room}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": status,
    }


def install_crds(plane: ControlPlane) -> None:
    """All six, once for all installations."""
    apply(plane, build_crds(complete_values({"kubeflow": {"enabled": True}})))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=150s", "crd", "--all")


def audited(plane: ControlPlane, user: str) -> list[Object]:
    """What the API server was asked by a user, from its audit log."""
    lines = (plane.folder / "audit.log").read_text().splitlines()
    entries = (json.loads(line) for line in lines if user in line)
    return [entry for entry in entries if entry["user"]["username"] == user]


@contextlib.contextmanager
def own_plane(folder: Path) -> Iterator[ControlPlane]:
    """A control plane with the CRDs and an audit log; on somebody's cluster the test is skipped."""
    policy = folder / "audit-policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    plane = ControlPlane(parent=folder)
    if plane.is_existing_cluster:
        pytest.skip("needs a control plane of its own")
    audit = folder / "audit.log"
    flags = [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={audit}",
        # Who sets blockOwnerDeletion must then be allowed to: some distributions have it on.
        "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
    ]
    try:
        # Nodes only pretend, and nobody tells of them again: they must not be taken for lost.
        manager = ["--controllers=*,-node-lifecycle-controller"]
        plane.start(flags={"kube-apiserver": flags, "kube-controller-manager": manager}, deadline_seconds=180)
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None
    (plane.folder / "audit.log").symlink_to(audit)
    install_crds(plane)
    try:
        yield plane
    finally:
        plane.stop()
