"""Everything that `bireme manifests` prints is taken by a real API server, in every mode.

The CRDs are applied for real, once for all tests here.
"""

from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from bireme.cli.main import cli
from bireme.installation.objects import build_objects
from bireme.installation.values import read_values
from support.control_plane import ControlPlane
from support.installation import apply

pytestmark = pytest.mark.xdist_group("installation")

MONITORING = {
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "dashboard": {"enabled": True},
}
MODES: dict[str, dict[str, Any]] = {
    "default": {"crds": {"install": False}},
    "one-namespace": {"watchNamespace": "team", "crds": {"install": False}},
    "kubeflow": {"kubeflow": {"enabled": True}, "crds": {"install": False}},
    "native": {"gangEngine": "native", "crds": {"install": False}},
    "scheduler": {"scheduler": {"enabled": True}, "crds": {"install": False}},
    "everything": {
        "watchNamespace": "team",
        "kubeflow": {"enabled": True},
        "crds": {"install": False},
        "metrics": MONITORING,
        "webhooks": {"certManager": {"enabled": True}},
        "networkPolicy": {"restrictEgress": True},
        "controller": {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"a": "b"}},
    },
    "no-webhooks": {"webhooks": {"enabled": False}, "crds": {"install": False}, "rbac": {"aggregate": False}},
}


def foreign_crd(group: str, plural: str, kind: str) -> dict[str, Any]:
    """A kind of somebody else's, of which only the name matters here."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


@pytest.fixture(scope="module")
def cluster(plane: ControlPlane) -> ControlPlane:
    """With the namespaces, as a dry run creates none, and with the kinds of other operators."""
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("try", "team")
    ]
    crds = [
        foreign_crd("monitoring.coreos.com", "servicemonitors", "ServiceMonitor"),
        foreign_crd("monitoring.coreos.com", "prometheusrules", "PrometheusRule"),
        foreign_crd("cert-manager.io", "certificates", "Certificate"),
    ]
    apply(plane, [*namespaces, *crds])
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    return plane


@pytest.mark.parametrize("values", MODES.values(), ids=MODES)
def test_a_server_side_dry_run_takes_all_objects(cluster: ControlPlane, values: dict[str, Any]) -> None:
    objects = build_objects(read_values(values), "try")
    told = apply(cluster, objects, "--dry-run=server", "--validate=strict")
    assert len(told.splitlines()) == len(objects)


def test_our_own_pods_are_let_in_where_pod_security_is_strictest(cluster: ControlPlane) -> None:
    """As a Deployment's pods are made by somebody else, its template is tried as a pod."""
    apply(cluster, build_objects(read_values({"crds": {"install": False}}), "strict")[:1])
    objects = build_objects(read_values({}), "strict")
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    template["spec"].pop("serviceAccountName")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        **template,
        "metadata": {"name": "try", "namespace": "strict", **template["metadata"]},
    }
    cluster.kubectl("create", "serviceaccount", "default", "-n", "strict", check=False)
    assert "try" in apply(cluster, [pod], "--dry-run=server")
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(Exception, match="returned non-zero") as refused:
        apply(cluster, [pod], "--dry-run=server")
    assert "violates PodSecurity" in str(refused.value.__notes__)


def test_the_command_prints_the_same_objects() -> None:
    settings = ("--set", "kubeflow.enabled=true", "--set", "crds.install=false")
    result = CliRunner().invoke(cli, ["manifests", "-n", "try", *settings])
    printed = list(yaml.load_all(result.stdout, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    assert printed == build_objects(read_values(MODES["kubeflow"]), "try")
