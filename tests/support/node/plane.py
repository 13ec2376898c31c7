"""A control plane that a node and its pods can reach, and that writes down every request."""

from pathlib import Path

from support import audit
from support.control_plane import ControlPlane
from support.node.world import NODE_ADDRESS


class NodePlane(ControlPlane):
    """Listens on the node's address too; pods reach it at the Service `kubernetes`."""

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def _apiserver_flags(self, port: int) -> list[str]:
        return [
            *super()._apiserver_flags(port),
            "--bind-address=0.0.0.0",
            f"--advertise-address={NODE_ADDRESS}",
            "--endpoint-reconciler-type=lease",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={self.admin_cert}",
            f"--kubelet-client-key={self.admin_key}",
            *audit.flags(self.folder),
        ]
