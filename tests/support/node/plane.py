"""A control plane that a node and its pods can reach, and that writes down every request."""

import json
from pathlib import Path
from typing import Final

from support.control_plane import ControlPlane
from support.node.world import NODE_ADDRESS

_AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class NodePlane(ControlPlane):
    """Listens on the node's address too; pods reach it at the Service `kubernetes`."""

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def _apiserver_flags(self, port: int) -> list[str]:
        policy = self.folder / "audit-policy.json"
        policy.write_text(json.dumps(_AUDIT_POLICY))
        return [
            *super()._apiserver_flags(port),
            "--bind-address=0.0.0.0",
            f"--advertise-address={NODE_ADDRESS}",
            "--endpoint-reconciler-type=lease",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={self.admin_cert}",
            f"--kubelet-client-key={self.admin_key}",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.audit_log}",
        ]
