"""Fixtures over a cluster with real containers, and the controller in it; one of each for all tests.

Mark tests that use them with `@pytest.mark.e2e` and `@pytest.mark.xdist_group("e2e")`.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from support.cluster import Cluster, why_not
from support.cluster import cluster as start_cluster
from support.fixtures import unavailable
from support.installed import installed
from support.node.program import Program, answers
from support.ports import free_port

ROOT: Final = Path(__file__).parents[2]
BIREME: Final = Path(sys.executable).parent / "bireme"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    reason = why_not()
    if reason:
        raise unavailable(reason)
    with start_cluster(tmp_path_factory.getbasetemp()) as running:
        yield running


@pytest.fixture(scope="session")
def controller(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """How the controller runs: `chart`, as users install it; BIREME_TEST_CONTROLLER=process is quicker."""
    chosen = os.environ.get("BIREME_TEST_CONTROLLER", "chart")
    image = cluster.image("controller") if chosen == "chart" else None
    if image is not None:
        with installed(cluster, image):
            yield "chart"
    else:
        with process(cluster, tmp_path_factory.mktemp("controller") / "controller.log"):
            yield "process"


@contextmanager
def process(cluster: Cluster, log: Path) -> Iterator[None]:
    """The controller outside of the cluster, which it reaches by the kubeconfig; without webhooks."""
    for arguments in (
        ["apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "deploy/crds")],
        ["wait", "--for=condition=Established", "--timeout=150s", "crd", "--all"],
    ):
        result = cluster.kubectl.run(arguments)
        assert result.code == 0, result.stderr
    port = free_port()
    argv = [
        str(BIREME), "controller", "--kubeconfig", str(cluster.kubeconfig), "--kubeflow",
        "--controller-image", cluster.image_name("controller") or "none", "--health-port", str(port),
        # Nobody would start it again when a busy machine keeps it from renewing the lease.
        "--no-leader-elect",
    ]  # fmt: skip
    program = Program("controller", argv, log, answers(port, "/readyz"))
    program.start()
    try:
        yield
    finally:
        program.stop()
