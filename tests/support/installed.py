"""Bireme on a cluster, as its users install it: by the chart."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support.cluster import Cluster
from support.node.kubelet import binaries_folder

CHART: Final = Path(__file__).parents[2] / "deploy/helm/bireme"
NAMESPACE: Final = "bireme-system"
RELEASE: Final = "bireme"
LEASE: Final = "bireme-controller"
ACCOUNTS: Final = tuple(
    f"system:serviceaccount:{NAMESPACE}:bireme-{name}" for name in ("controller", "scheduler", "webhooks")
)
EVERYTHING: Final = ("scheduler.enabled=true",)
"""All that is off by default."""


class Installation:
    """A release of the chart."""

    def __init__(self, cluster: Cluster, image: str) -> None:
        self.cluster, self._image = cluster, image
        found = binaries_folder() / "helm"
        self._helm = str(found) if found.exists() else shutil.which("helm")

    @property
    def why_not(self) -> str | None:
        return None if self._helm else "no helm: run `make e2e`"

    def install(self, *settings: str, chart: Path = CHART) -> None:
        """Install it, and return when it is ready. `settings` are values, as NAME=VALUE."""
        self.helm("install", RELEASE, str(chart), "--create-namespace", *self._options(settings))

    def upgrade(self, *settings: str, chart: Path = CHART) -> None:
        """Give the release this chart and these values, and return when all pods are new and ready."""
        self.helm("upgrade", RELEASE, str(chart), *self._options(settings))

    def _options(self, settings: Sequence[str]) -> list[str]:
        repository, _, tag = self._image.rpartition(":")
        image = f"image.repository={repository},image.tag={tag}"
        chosen = [f"--set={each}" for each in ("kubeflow.enabled=true", *settings)]
        return ["--wait", "--timeout=15m", f"--set-string={image}", *chosen]

    def uninstall(self) -> None:
        self.helm("uninstall", RELEASE, "--wait")

    def helm(self, *arguments: str) -> str:
        assert self._helm is not None
        done = subprocess.run(
            [self._helm, "--kubeconfig", self.cluster.kubeconfig, "-n", NAMESPACE, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"helm {arguments[0]}: {done.stderr}\n{self.tell()}"
        return done.stdout

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl in the namespace of the release."""
        result = self.cluster.kubectl.run(["-n", NAMESPACE, *arguments], seconds=900)
        assert result.code == 0, f"kubectl {' '.join(arguments)}: {result.stderr}"
        return result.stdout

    def leader(self) -> str:
        """The name of the pod that leads; empty where none does."""
        path = "jsonpath={.spec.holderIdentity}"
        return self.kubectl("get", "lease", LEASE, "-o", path).partition("_")[0]

    def tell(self) -> str:
        """What the pods of controller and webhooks are at."""
        pods = self.cluster.kubectl.run(["-n", NAMESPACE, "describe", "pods"]).stdout
        told = [pods]
        for name in ("controller", "webhooks"):
            logs = ["-n", NAMESPACE, "logs", f"deployment/bireme-{name}", "--all-pods", "--tail=50"]
            told.append(self.cluster.kubectl.run(logs).stdout)
        return "\n".join(told)


@contextmanager
def installed(cluster: Cluster, image: str) -> Iterator[Installation]:
    """The release, as long as the block runs."""
    installation = Installation(cluster, image)
    installation.install(*EVERYTHING)
    try:
        yield installation
    finally:
        installation.uninstall()
