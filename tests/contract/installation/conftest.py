"""A control plane of its own, as webhooks and permissions concern all who use it. It keeps an audit log."""

import json
from collections.abc import Iterator

import pytest

from support.control_plane import BinariesMissingError, ControlPlane
from support.fixtures import unavailable
from support.installation import AUDIT_POLICY, install_crds


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("installation")
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
        plane.start(flags={"kube-apiserver": flags}, deadline_seconds=180)
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None
    (plane.folder / "audit.log").symlink_to(audit)
    install_crds(plane)
    yield plane
    plane.stop()
