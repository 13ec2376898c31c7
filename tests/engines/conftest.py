"""One control plane for all engines: the gates of the API server's own are on, and nodes are pretended."""

from collections.abc import Iterator

import pytest

from support.control_plane import START_ORDER, BinariesMissingError, ControlPlane
from support.fixtures import unavailable
from support.installation import install_crds

FLAGS = {
    "kube-apiserver": [
        "--feature-gates=GenericWorkload=true",
        "--runtime-config=scheduling.k8s.io/v1alpha2=true",
        "--disable-admission-plugins=TaintNodesByCondition",
    ],
    "kube-controller-manager": [
        "--feature-gates=GenericWorkload=true",
        # The nodes only pretend: nobody tells of them again and again, nor takes first taints away.
        "--controllers=*,-node-lifecycle-controller",
    ],
    "kube-scheduler": ["--feature-gates=GenericWorkload=true,GangScheduling=true"],
}


@pytest.fixture(scope="session")
def gang_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    made = ControlPlane(parent=tmp_path_factory.getbasetemp())
    if made.is_existing_cluster:
        pytest.skip("needs a control plane of its own")
    try:
        made.start(START_ORDER, flags=FLAGS, deadline_seconds=180)
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None
    try:
        install_crds(made)
        yield made
    finally:
        made.stop()
