"""Jobs for podman: manifests, and a daemon of root's or of an ordinary user's that runs them."""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support import images
from support.commands import Bireme, daemon
from support.images import podman
from support.ordinary_user import OrdinaryUser, ordinary_user

Manifest = dict[str, Any]


def job(name: str, *replicas: Manifest, **spec: Any) -> Manifest:
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": list(replicas), **spec},
    }


def replica(*containers: Manifest, kind: str = "worker", replicas: int = 1, **spec: Any) -> Manifest:
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": list(containers), **spec}}
    return {
        "type": kind,
        "replicas": replicas,
        "restartPolicy": {"policy": "Never"},
        "template": template,
    }


def container(script: str, **fields: Any) -> Manifest:
    command = {"command": ["sh", "-c", script]} if script else {}
    return {"name": "main", "image": images.BUSYBOX, **command, **fields}


def launcher_job(name: str, script: str, worker: str = "sleep 1000", **fields: Any) -> Manifest:
    """A job whose launcher runs a script, beside one worker."""

    def side(main: Manifest, **more: Any) -> Manifest:
        spec = {"terminationGracePeriodSeconds": 1, "containers": [main]}
        return {"replicas": 1, "template": {"spec": spec}, **more}

    sides = {
        "Launcher": side(container(script, **fields), restartPolicy="Never"),
        "Worker": side(container(worker)),
    }
    return {
        "apiVersion": "kubeflow.org/v1alpha2",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {"cleanPodPolicy": "All", "mpiReplicaSpecs": sides},
    }


def play(bireme: Bireme, manifest: Manifest, code: int | None = 0) -> str:
    """Run a job to its end; return what it printed."""
    return bireme("run", "-f", "-", input=json.dumps(manifest), code=code).stdout


def containers(user: OrdinaryUser | None, uid: str = "") -> list[str]:
    """The containers that a podman has of ours, of one pod or of all."""
    label = f"label=bireme.dev/pod-uid{'=' * bool(uid)}{uid}"
    return podman("ps", "--all", "--filter", label, "--quiet", user=user).split()


@contextlib.contextmanager
def podman_user(mode: str) -> Iterator[OrdinaryUser | None]:
    """Whose podman it is, by `root` or `rootless`; None for root's."""
    if mode == "root":
        yield None
        return
    with ordinary_user() as user:
        yield user


@contextlib.contextmanager
def podman_daemon(user: OrdinaryUser | None) -> Iterator[Bireme]:
    """A daemon whose driver is podman; no container is left behind it."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(images.image(images.BUSYBOX, user=user))
        if user is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bireme-podman-")))
        else:
            folder = user.folder
        with daemon(folder, "--driver", "podman", user=user) as commands:
            yield commands
        assert containers(user) == []
