"""containerd and runc, in folders of their own."""

import json
import subprocess
from pathlib import Path
from typing import Final

from support.node.program import Program, listens
from support.node.world import POD_SUBNET

SOCKET: Final = Path("/run/containerd/containerd.sock")
PAUSE_IMAGE: Final = "bireme.test/pause:1"
_PLUGINS: Final = Path("/usr/lib/cni")
_CAP_SYS_RESOURCE: Final = 24

_CONFIG: Final = """\
version = 2
root = "{folder}/containerd"
state = "/run/containerd"
# The first would make /opt/containerd on the machine; the others ask for kernel modules.
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = {restrict}
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""

# Routed, not bridged: so traffic between two pods passes kube-proxy's rules on every kernel.
_NETWORK: Final = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "ptp",
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": POD_SUBNET}]],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dataDir": "/run/cni",
            },
        }
    ],
}


def containerd(folder: Path) -> Program:
    """The program, with its configuration written."""
    (folder / "cni").mkdir()
    (folder / "cni/10-pods.conflist").write_text(json.dumps(_NETWORK))
    config = folder / "containerd.toml"
    config.write_text(
        _CONFIG.format(
            folder=folder,
            socket=SOCKET,
            pause=PAUSE_IMAGE,
            plugins=_PLUGINS,
            restrict=str(not _has_capability(_CAP_SYS_RESOURCE)).lower(),
        )
    )
    argv = ["/usr/bin/containerd", "--config", str(config)]
    return Program("containerd", argv, folder / "containerd.log", listens(SOCKET))


def import_image(archive: Path) -> None:
    """Give the node an image; none is ever pulled."""
    subprocess.run(
        ["ctr", "--address", SOCKET, "--namespace", "k8s.io", "images", "import", archive],
        check=True,
        capture_output=True,
    )


def _has_capability(number: int) -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    mask = next(line.split()[1] for line in lines if line.startswith("CapEff:"))
    return bool(int(mask, 16) >> number & 1)
