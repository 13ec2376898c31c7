"""The cluster that end-to-end tests run on: one of our own, or any other.

BIREME_TEST_KUBECONFIG names another. Its nodes pull images, so they are named as well, each where a test
that needs it shall run: BIREME_TEST_IMAGE_BUSYBOX, …_MPI4, …_MPI5, …_CONTROLLER.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support.control_plane import find_kubectl
from support.kubectl import Kubectl
from support.node import recipes
from support.node.cluster import OneNodeCluster, missing

IMAGES: Final = {
    "busybox": recipes.BUSYBOX,
    "mpi4": recipes.MPI4,
    "mpi5": recipes.MPI5,
    "controller": recipes.CONTROLLER,
}
_LIES_ON: Final = {"mpi5": "mpi4", "controller": "mpi4"}


class Cluster:
    """A kubeconfig, the names of images, and the node where it is ours to break."""

    def __init__(self, kubeconfig: Path, folder: Path, node: OneNodeCluster | None) -> None:
        self.kubeconfig, self.node = kubeconfig, node
        self.kubectl = Kubectl(find_kubectl(), kubeconfig, folder / "kubectl")
        self._folder = folder
        self._imported: set[str] = set()

    def image(self, name: str) -> str | None:
        """The image of that name, if the cluster has one; our own node gets it when it is first asked for."""
        if self.node is not None:
            self._import(self.node, name)
        return self.image_name(name)

    def image_name(self, name: str) -> str | None:
        """What it is called; whether our own node has got it is not asked."""
        return IMAGES[name] if self.node else os.environ.get(f"BIREME_TEST_IMAGE_{name.upper()}")

    def _import(self, node: OneNodeCluster, name: str) -> None:
        if name in self._imported:
            return
        if name in _LIES_ON:
            self._import(node, _LIES_ON[name])
        made = name == "controller"
        node.import_image(recipes.make_controller(self._folder) if made else recipes.archive(name))
        self._imported.add(name)


def why_not() -> str | None:
    """Why there is no cluster here, in one line."""
    if os.environ.get("BIREME_TEST_KUBECONFIG"):
        return None
    return missing() or (None if recipes.are_made() else "no images: run `make e2e`")


@contextmanager
def cluster(parent: Path) -> Iterator[Cluster]:
    """The cluster, as long as the block runs; nothing of ours is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="cluster-", dir=parent) as temporary:
        folder = Path(temporary)
        existing = os.environ.get("BIREME_TEST_KUBECONFIG")
        if existing:
            yield Cluster(Path(existing), folder, None)
            return
        node = OneNodeCluster(recipes.archive("pause"), folder)
        node.start()
        try:
            yield Cluster(node.kubeconfig, folder, node)
        finally:
            node.stop()
