"""A control plane that schedules; the one that all tests share does not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.control_plane import START_ORDER, BinariesMissingError, ControlPlane
from support.fixtures import unavailable

ROOT = Path(__file__).parents[2]
# The nodes only pretend: nobody tells of them again and again, nor takes first taints away.
FLAGS = {
    "kube-apiserver": ["--disable-admission-plugins=TaintNodesByCondition"],
    "kube-controller-manager": ["--controllers=*,-node-lifecycle-controller"],
}


@pytest.fixture(scope="session")
def scheduled_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own, with a kube-scheduler in it; nodes are pretended."""
    made = ControlPlane(parent=tmp_path_factory.getbasetemp())
    try:
        made.start(START_ORDER, flags=FLAGS, deadline_seconds=180)
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None
    for crd in sorted((ROOT / "deploy/crds").glob("*.yaml")):
        made.kubectl("apply", "-f", str(crd))
    made.kubectl("wait", "--for=condition=Established", "--timeout=150s", "crd", "--all")
    yield made
    made.stop()
