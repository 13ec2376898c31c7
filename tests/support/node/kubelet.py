"""kubelet, kube-proxy and CoreDNS of one node."""

import functools
import json
import subprocess
from pathlib import Path
from typing import Any, Final

from support.node.plane import NodePlane
from support.node.program import Program, answers
from support.node.runtime import SOCKET
from support.node.world import KUBELET_FOLDER, NODE_ADDRESS, POD_SUBNET

BUILD: Final = Path(__file__).parents[3] / "hack/node/build"
NODE_NAME: Final = "node-0"
DNS_ADDRESS: Final = "10.0.0.10"
_KUBELET_HEALTH: Final = 10248
_PROXY_HEALTH: Final = 10256
_DNS_READY: Final = 8181

_COREFILE: Final = """\
.:53 {{
    bind {address}
    errors
    ready 127.0.0.1:{ready}
    kubernetes cluster.local {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 0
    }}
}}
"""


@functools.cache
def binaries_folder() -> Path:
    """Where `make node` puts the programs."""
    path = subprocess.run([BUILD, "path"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(path.stdout.strip())


def kubelet(folder: Path, plane: NodePlane, cgroup: str) -> Program:
    """The kubelet, registered as NODE_NAME."""
    config = folder / "kubelet.json"
    config.write_text(json.dumps(_kubelet_config(folder, plane, cgroup)))
    argv = [
        str(binaries_folder() / "kubelet"),
        f"--config={config}",
        f"--kubeconfig={plane.kubeconfig_for(f'system:node:{NODE_NAME}', ['system:nodes'])}",
        f"--hostname-override={NODE_NAME}",
        f"--node-ip={NODE_ADDRESS}",
        f"--root-dir={KUBELET_FOLDER}",
        f"--cert-dir={KUBELET_FOLDER}/pki",
    ]
    return Program("kubelet", argv, folder / "kubelet.log", answers(_KUBELET_HEALTH, "/healthz"))


def _kubelet_config(folder: Path, plane: NodePlane, cgroup: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "x509": {"clientCAFile": str(plane.ca_path)},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "healthzPort": _KUBELET_HEALTH,
        "podLogsDir": str(folder / "pods"),
        "volumePluginDir": str(folder / "volume-plugins"),
        # What the machine's other work leaves must not decide whether a test's pod may run.
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        # Lower ones need CAP_SYS_RESOURCE.
        "oomScoreAdj": 0,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "eventRecordQPS": 0,
        # world.py shows it those that it wants.
        "protectKernelDefaults": True,
    }


def kube_proxy(folder: Path, plane: NodePlane) -> Program:
    """Makes Services' addresses work, the API server's among them."""
    config = folder / "kube-proxy.json"
    config.write_text(json.dumps(_proxy_config(plane)))
    argv = [
        str(binaries_folder() / "kube-proxy"),
        f"--config={config}",
        f"--hostname-override={NODE_NAME}",
    ]
    return Program("kube-proxy", argv, folder / "kube-proxy.log", answers(_PROXY_HEALTH, "/healthz"))


def _proxy_config(plane: NodePlane) -> dict[str, Any]:
    # Zeros leave the machine's settings as they are.
    untouched = {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": POD_SUBNET,
        "healthzBindAddress": f"127.0.0.1:{_PROXY_HEALTH}",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig_for("system:kube-proxy"))},
        "conntrack": untouched,
        "nftables": {"minSyncPeriod": "100ms"},
        "oomScoreAdj": 0,
    }


def coredns(folder: Path, plane: NodePlane) -> Program:
    """The cluster's names, at a Service as elsewhere; no other name resolves."""
    user = "coredns"
    plane.kubectl("create", "clusterrolebinding", user, "--clusterrole=view", f"--user={user}")
    plane.kubectl("create", "-f", "-", input=json.dumps(_dns_service()))
    corefile = folder / "Corefile"
    corefile.write_text(
        _COREFILE.format(address=NODE_ADDRESS, ready=_DNS_READY, kubeconfig=plane.kubeconfig_for(user))
    )
    argv = [str(binaries_folder() / "coredns"), "-conf", str(corefile)]
    return Program("coredns", argv, folder / "coredns.log", answers(_DNS_READY, "/ready"))


def _dns_service() -> dict[str, Any]:
    """A Service whose endpoint is no pod."""
    metadata = {"name": "kube-dns", "namespace": "kube-system"}
    ports = [{"name": name, "protocol": name.upper(), "port": 53} for name in ("udp", "tcp")]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**metadata, "labels": {"k8s-app": "kube-dns"}},
        "spec": {"clusterIP": DNS_ADDRESS, "ports": ports},
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**metadata, "labels": {"kubernetes.io/service-name": "kube-dns"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [NODE_ADDRESS]}],
        "ports": ports,
    }
    return {"apiVersion": "v1", "kind": "List", "items": [service, endpoints]}
