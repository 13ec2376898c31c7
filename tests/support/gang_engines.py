"""The gang engines themselves, from their Go modules, beside a control plane; `make engines` builds them."""

import base64
import contextlib
import functools
import http.client
import json
import os
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from support.certificates import rsa_authority
from support.component import Component, reserve_port
from support.control_plane import BinariesMissingError, ControlPlane
from support.installation import Object, apply
from support.ports import free_port

BUILD: Final = Path(__file__).parents[2] / "hack/engines/build"
READY_SECONDS: Final = 180
POLL_SECONDS: Final = 0.1
KUEUE: Final = "kueue-system"
COSCHEDULER: Final = "scheduler-plugins-scheduler"


@functools.cache
def engines_folder() -> Path:
    """Where engines are or would be, by the build script's own rules."""
    path = subprocess.run([BUILD, "path"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(path.stdout.strip())


def manifests(engine: str) -> list[Object]:
    """What an engine's module brings: CRDs, and for Kueue roles and webhooks."""
    folder = engines_folder() / "manifests" / engine
    if not folder.is_dir():
        raise BinariesMissingError(f"no manifests of {engine}: run `hack/engines/build manifests`")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    texts = [path.read_text() for path in sorted(folder.glob("*.yaml"))]
    return [each for text in texts for each in yaml.load_all(text, loader) if each]


def crds(engine: str) -> list[Object]:
    return [each for each in manifests(engine) if each["kind"] == "CustomResourceDefinition"]


def install_engine_crds(plane: ControlPlane, *engines: str) -> None:
    """CRDs alone; versions of a kind are then converted by their name only, which no webhook needs."""
    apply(plane, [crd for engine in engines for crd in crds(engine)])
    plane.kubectl("wait", "--for=condition=Established", "--timeout=150s", "crd", "--all")


def program(name: str) -> Path:
    path = engines_folder() / name
    if not os.access(path, os.X_OK):
        raise BinariesMissingError(f"no {name} in {path.parent}: run `make engines`")
    return path


def wait_until(holds: Callable[[], bool], component: Component) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not holds():
        component.raise_if_dead()
        assert time.monotonic() < deadline, f"{component.name} was not ready in time:\n{component.tail()}"
        time.sleep(POLL_SECONDS)


@contextlib.contextmanager
def at_work(component: Component) -> Iterator[Component]:
    component.spawn()
    try:
        wait_until(component.is_healthy, component)
        yield component
    finally:
        component.stop()


# ---- coscheduling


@contextlib.contextmanager
def coscheduling(plane: ControlPlane) -> Iterator[Component]:
    """scheduler-plugins as a second scheduler, which is how its own chart installs it."""
    binary = program("coscheduling")
    install_engine_crds(plane, "coscheduling")
    apply(plane, _rights("coscheduling", "system:kube-scheduler", {"scheduling.x-k8s.io": ["podgroups"]}))
    config = plane.folder / "coscheduling.json"
    config.write_text(json.dumps(_scheduler_config(plane.kubeconfig_for("system:kube-scheduler"))))
    tls = ssl.create_default_context(cafile=plane.ca_path)
    tls.load_cert_chain(plane.admin_cert, plane.admin_key)
    with reserve_port() as reservation:
        port: int = reservation.getsockname()[1]
        argv = [
            str(binary), f"--config={config}", "--bind-address=127.0.0.1", f"--secure-port={port}",
            "--permit-port-sharing", f"--tls-cert-file={plane.folder / 'server.crt'}",
            f"--tls-private-key-file={plane.folder / 'server.key'}",
        ]  # fmt: skip
        log = plane.folder / "coscheduling.log"
        with at_work(Component("coscheduling", argv, log, port, "/healthz", tls)) as component:
            yield component


def _scheduler_config(kubeconfig: Path) -> Object:
    only = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    plugins = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}, "queueSort": only}
    # Its default is a minute, in which a gang that does not fit holds the room of others.
    arguments = {"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 10}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"schedulerName": COSCHEDULER, "plugins": plugins, "pluginConfig": [arguments]}],
    }


def _rights(name: str, user: str, groups: dict[str, list[str]]) -> list[Object]:
    rules = [
        {"apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"]}
        for group, resources in groups.items()
    ]
    role = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    return [role, _binding("ClusterRole", name, user)]


RBAC: Final = "rbac.authorization.k8s.io/v1"


def _binding(kind: str, role: str, user: str, **metadata: str) -> Object:
    return {
        "apiVersion": RBAC,
        "kind": f"{kind}Binding",
        "metadata": {"name": role, **metadata},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    }


# ---- Kueue


class _Plain(Component):
    """A program that tells of its health without TLS."""

    def is_healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", self.health_path)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@contextlib.contextmanager
def kueue(plane: ControlPlane) -> Iterator[Component]:
    """Kueue's manager with its own roles and webhooks, for plain pods.

    No pod can be reached here, so its webhooks are called by URL. It manages its certificates itself, and
    keeps what it finds in its Secret while that is valid: ours, which is good for the URL too.
    """
    binary = program("kueue")
    webhook_port, health_port = free_port(), free_port()
    url = f"https://127.0.0.1:{webhook_port}"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KUEUE}}
    apply(plane, [namespace])
    apply(plane, [_secret(plane.folder / "kueue")])
    apply(plane, [_with_conversion(each, url) for each in crds("kueue")])
    plane.kubectl("wait", "--for=condition=Established", "--timeout=150s", "crd", "--all")
    apply(plane, _kueue_roles())
    hooks = [_kueue_hooks(each, url) for each in manifests("kueue") if "Webhook" in each["kind"]]
    apply(plane, hooks)
    config = plane.folder / "kueue.json"
    config.write_text(json.dumps(_kueue_config(plane.folder / "kueue", webhook_port, health_port)))
    kubeconfig = plane.kubeconfig_for("kueue-manager")
    argv = [str(binary), f"--config={config}", f"--kubeconfig={kubeconfig}", "--zap-log-level=3"]
    component = _Plain(
        "kueue", argv, plane.folder / "kueue.log", health_port, "/readyz", ssl.create_default_context()
    )
    try:
        with at_work(component):
            yield component
    finally:
        # With nobody behind them they would refuse every pod.
        for hook in hooks:
            plane.kubectl("delete", hook["kind"], hook["metadata"]["name"])


def _secret(folder: Path) -> Object:
    folder.mkdir()
    hosts = [f"kueue-webhook-service.{KUEUE}.svc", "127.0.0.1"]
    authority, server = rsa_authority("kueue-ca", hosts)
    files = {
        "ca.crt": authority.certificate,
        "ca.key": authority.key,
        "tls.crt": server.certificate,
        "tls.key": server.key,
    }
    for name, text in files.items():
        (folder / name).write_bytes(text)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kueue-webhook-server-cert", "namespace": KUEUE},
        "data": {name: base64.b64encode(text).decode() for name, text in files.items()},
    }


def _with_conversion(crd: Object, url: str) -> Object:
    """As its own installation does it for kinds of more than one version."""
    if len(crd["spec"]["versions"]) == 1:
        return crd
    hook = {"conversionReviewVersions": ["v1"], "clientConfig": {"url": f"{url}/convert"}}
    return {**crd, "spec": {**crd["spec"], "conversion": {"strategy": "Webhook", "webhook": hook}}}


def _kueue_roles() -> list[Object]:
    roles = [each for each in manifests("kueue") if each["kind"] in ("ClusterRole", "Role")]
    placed: list[Object] = []
    for role in roles:
        metadata = {"name": f"kueue-{role['metadata']['name']}"}
        if role["kind"] == "Role":
            metadata["namespace"] = KUEUE
        placed.append({**role, "metadata": metadata})
        binding = _binding(role["kind"], metadata["name"], "kueue-manager")
        placed.append({**binding, "metadata": metadata})
    return placed


def _kueue_hooks(configuration: Object, url: str) -> Object:
    """Of its webhooks those of its own kinds and of pods: the other integrations are off."""
    hooks = [
        {**each, "clientConfig": {"url": f"{url}{each['clientConfig']['service']['path']}"}}
        for each in configuration["webhooks"]
        if all(rule["apiGroups"][0] in ("", "kueue.x-k8s.io") for rule in each["rules"])
    ]
    name = f"kueue-{configuration['metadata']['name']}"
    return {**configuration, "metadata": {"name": name}, "webhooks": hooks}


def _kueue_config(folder: Path, webhook_port: int, health_port: int) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": KUEUE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "integrations": {"frameworks": ["pod"]},
        "featureGates": {"VisibilityOnDemand": False},
    }
