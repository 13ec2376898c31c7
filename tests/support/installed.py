"""Bireme on a cluster, as its users install it: by the chart."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support.cluster import Cluster
from support.node.kubelet import binaries_folder

CHART: Final = Path(__file__).parents[2] / "deploy/helm/bireme"
NAMESPACE: Final = "bireme-system"
RELEASE: Final = "bireme"


class Installation:
    """A release of the chart."""

    def __init__(self, cluster: Cluster, image: str) -> None:
        self.cluster, self._image = cluster, image
        found = binaries_folder() / "helm"
        self._helm = str(found) if found.exists() else shutil.which("helm")

    @property
    def why_not(self) -> str | None:
        return None if self._helm else "no helm: run `make e2e`"

    def install(self) -> None:
        """Install it with all that is off by default, and return when it is ready."""
        repository, _, tag = self._image.rpartition(":")
        self.helm(
            "install", RELEASE, str(CHART), "--create-namespace", "--wait", "--timeout=5m",
            "--set-string", f"image.repository={repository},image.tag={tag}",
            "--set", "kubeflow.enabled=true",
        )  # fmt: skip

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

    def tell(self) -> str:
        """What the controller's pods are at."""
        pods = self.cluster.kubectl.run(["-n", NAMESPACE, "describe", "pods"]).stdout
        logs = ["-n", NAMESPACE, "logs", "deployment/bireme-controller", "--all-pods", "--tail=50"]
        return f"{pods}\n{self.cluster.kubectl.run(logs).stdout}"


@contextmanager
def installed(cluster: Cluster, image: str) -> Iterator[Installation]:
    """The release, as long as the block runs."""
    installation = Installation(cluster, image)
    installation.install()
    try:
        yield installation
    finally:
        installation.uninstall()
