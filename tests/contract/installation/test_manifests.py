"""Everything that `bireme manifests` prints is taken by a real API server, in every mode.

The CRDs are applied for real, once for all tests here.
"""

import asyncio
import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from bireme.api.kinds import KINDS
from bireme.cli.main import cli
from bireme.installation.checkup import examine
from bireme.installation.objects import build_namespace, build_objects
from bireme.installation.values import read_values
from bireme.run.checkup import Examiner
from support.cluster_world import connect
from support.control_plane import ControlPlane
from support.installation import apply, as_list

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
    "scheduler-of-one-namespace": {
        "watchNamespace": "team",
        "scheduler": {"enabled": True},
        "crds": {"install": False},
    },
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
    plane.kubectl("wait", "--for=condition=Established", "--timeout=150s", "crd", "--all")
    return plane


@pytest.mark.parametrize("values", MODES.values(), ids=MODES)
def test_a_server_side_dry_run_takes_all_objects(cluster: ControlPlane, values: dict[str, Any]) -> None:
    objects = build_objects(read_values(values), "try")
    told = apply(cluster, objects, "--dry-run=server", "--validate=strict")
    assert len(told.splitlines()) == len(objects)


def test_our_own_pods_are_let_in_where_pod_security_is_strictest(cluster: ControlPlane) -> None:
    """As a Deployment's pods are made by somebody else, its template is tried as a pod."""
    apply(cluster, [build_namespace("strict")])
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


def namespaces(*arguments: str) -> list[str]:
    """Those that `bireme manifests` prints."""
    result = CliRunner().invoke(cli, ["manifests", *arguments], catch_exceptions=False)
    printed = yaml.load_all(result.stdout, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return [each["metadata"]["name"] for each in printed if each["kind"] == "Namespace"]


def test_only_a_namespace_of_our_own_is_printed() -> None:
    """Whoever deletes what was printed would delete everything in it."""
    assert namespaces() == ["bireme-system"]
    assert namespaces("-n", "tools") == []
    assert namespaces("-n", "tools", "--set", "watchNamespace=team") == []


DELETE = ("delete", "--ignore-not-found", "-f", "-")
SELECTED = ("--selector", "app.kubernetes.io/part-of=bireme")
"""As docs/guides/uninstall.md has it."""


def test_what_else_is_in_the_namespace_stays_as_it_is(cluster: ControlPlane) -> None:
    name = "shared"
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": name}}
    apply(cluster, [home, other])
    objects = build_objects(read_values(MODES["scheduler"]), name)
    try:
        apply(cluster, objects)
    finally:
        cluster.kubectl(*DELETE, input=as_list(objects))
    found = json.loads(cluster.kubectl("get", "namespace", name, "-o", "json").stdout)
    assert found["status"]["phase"] == "Active"
    assert labels.items() <= found["metadata"]["labels"].items()
    assert left_in(cluster, name) == ["configmap/other"]
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def left_in(cluster: ControlPlane, namespace: str) -> list[str]:
    kinds = "configmaps,deployments,services,secrets,roles,rolebindings,poddisruptionbudgets,networkpolicies"
    found = cluster.kubectl("get", "-n", namespace, "-o", "name", kinds).stdout.split()
    return [each for each in found if "kube-root-ca" not in each]


async def said_of_webhooks(cluster: ControlPlane, namespace: str) -> set[str]:
    async with connect(cluster) as client:
        findings = examine(await Examiner(client, namespace).look())
    return {finding.check for finding in findings if "webhook" in finding.check}


def test_bireme_goes_and_its_namespace_and_crds_stay(cluster: ControlPlane) -> None:
    """By the selector alone, though both are among what is deleted."""
    values = read_values({"kubeflow": {"enabled": True}, "scheduler": {"enabled": True}})
    objects = [build_namespace("kept"), *build_objects(values, "kept")]
    try:
        apply(cluster, objects)
        # Called by their Service, which nobody is behind here; else they are as they were printed.
        assert asyncio.run(said_of_webhooks(cluster, "kept")) == {
            "webhook-service",
            "webhooks-registered",
            "webhooks-unreachable",
        }
    finally:
        cluster.kubectl(*DELETE, *SELECTED, input=as_list(objects))
    assert left_in(cluster, "kept") == []
    assert not cluster.kubectl("get", "-o", "name", *SELECTED, "clusterroles,clusterrolebindings").stdout
    assert cluster.kubectl("get", "namespace", "kept", "-o", "jsonpath={.status.phase}").stdout == "Active"
    crds = cluster.kubectl("get", "crds", "-o", "name").stdout
    assert all(f"/{kind.crd_name}\n" in crds for kind in KINDS)
    cluster.kubectl("delete", "namespace", "kept", "--wait=false")
