"""Everything that `bireme manifests` prints is taken by a real API server, in every mode.

The CRDs are applied for real, once for all tests here.
"""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from bireme.api.kinds import KINDS
from bireme.cli.main import cli
from bireme.control.webhooks.certificates import AUTHORITY_VALID, make_authority
from bireme.installation.authority import Authority
from bireme.installation.checkup import examine
from bireme.installation.names import CONTROLLER, WEBHOOKS, selector
from bireme.installation.objects import build_namespace, build_objects
from bireme.kube.clock import utc_now
from bireme.run.checkup import Examiner
from support.cluster_world import connect, until
from support.control_plane import ControlPlane
from support.installation import apply, as_list, node
from support.values import SET_IMAGE, complete_values

pytestmark = pytest.mark.xdist_group("installation")

AUTHORITY = make_authority(utc_now())
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
    objects = build_objects(complete_values(values), "try", AUTHORITY)
    told = apply(cluster, objects, "--dry-run=server", "--validate=strict")
    assert len(told.splitlines()) == len(objects)


@pytest.mark.parametrize("name", [CONTROLLER, WEBHOOKS])
def test_our_own_pods_are_let_in_where_pod_security_is_strictest(cluster: ControlPlane, name: str) -> None:
    """As a Deployment's pods are made by somebody else, its template is tried as a pod."""
    apply(cluster, [build_namespace("strict")])
    objects = build_objects(complete_values({}), "strict", AUTHORITY)
    deployment = next(
        each for each in objects if (each["kind"], each["metadata"]["name"]) == ("Deployment", name)
    )
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


def test_the_command_prints_the_same_objects(tmp_path: Path) -> None:
    file = tmp_path / "authority.pem"
    file.write_bytes(AUTHORITY.certificates + AUTHORITY.key)
    settings = ("--set", "kubeflow.enabled=true", "--set", "crds.install=false", "--authority", str(file))
    result = CliRunner().invoke(cli, ["manifests", "-n", "try", "--set", SET_IMAGE, *settings])
    printed = list(yaml.load_all(result.stdout, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    assert printed == build_objects(complete_values(MODES["kubeflow"]), "try", AUTHORITY)


def printed_authority(*arguments: str) -> tuple[Authority, set[str]]:
    """The authority of the Secret that is printed, and what the webhooks are told to trust."""
    result = CliRunner().invoke(
        cli, ["manifests", "--set", "crds.install=false", "--set", SET_IMAGE, *arguments]
    )
    assert result.exit_code == 0, result.output
    objects = list(yaml.load_all(result.stdout, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    (secret,) = [each for each in objects if each["kind"] == "Secret"]
    data = secret["data"]
    webhooks = [hook for each in objects for hook in each.get("webhooks") or ()]
    return (
        Authority(base64.b64decode(data["ca.crt"]), base64.b64decode(data["ca.key"])),
        {hook["clientConfig"]["caBundle"] for hook in webhooks} | {data["ca.crt"]},
    )


def test_an_upgrade_keeps_the_authority_that_the_cluster_has(cluster: ControlPlane) -> None:
    """Without a cluster each call makes a new one, which processes that run would not be trusted by."""
    first, trusted = printed_authority("-n", "try")
    assert len(trusted) == 1
    assert printed_authority("-n", "try")[0] != first
    place = ("-n", "try", "--kubeconfig", str(cluster.kubeconfig))
    assert printed_authority(*place)[0] != first
    objects = build_objects(complete_values(MODES["default"]), "try", first)
    apply(cluster, [each for each in objects if each["kind"] == "Secret"])
    try:
        assert printed_authority(*place) == (first, trusted)
    finally:
        cluster.kubectl("delete", "secret", "-n", "try", WEBHOOKS)


def test_an_authority_that_is_due_is_renewed_and_both_are_trusted(cluster: ControlPlane) -> None:
    old = make_authority(utc_now() - AUTHORITY_VALID * 0.9)
    objects = build_objects(complete_values(MODES["default"]), "try", old)
    apply(cluster, [each for each in objects if each["kind"] == "Secret"])
    try:
        new, trusted = printed_authority("-n", "try", "--kubeconfig", str(cluster.kubeconfig))
    finally:
        cluster.kubectl("delete", "secret", "-n", "try", WEBHOOKS)
    assert new.certificates.endswith(old.certificates)
    assert len(new.certificates) > len(old.certificates)
    assert new.key != old.key
    assert len(trusted) == 1


def test_webhooks_of_an_older_version_answer_until_the_new_ones_do(cluster: ControlPlane) -> None:
    """The Service has every ready pod of ours that serves webhooks: of older versions, the controller's."""
    home = build_namespace("older")
    objects = build_objects(complete_values({}), "older", AUTHORITY)
    service = next(
        each for each in objects if (each["kind"], each["metadata"]["name"]) == ("Service", WEBHOOKS)
    )
    port = {"name": "webhooks", "containerPort": 9443}
    pods = [
        our_pod("old", "controller", port),
        our_pod("new-controller", "controller", {"name": "health", "containerPort": 8081}),
        our_pod("new", "webhooks", port),
    ]
    apply(cluster, [home, node("older")])
    cluster.kubectl("create", "serviceaccount", "default", "-n", "older", check=False)
    try:
        apply(cluster, [service, *pods])
        for index, pod in enumerate(pods):
            address = f"10.9.9.{index + 1}"
            conditions = [{"type": "Ready", "status": "True"}]
            status = {
                "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions
            }  # fmt: skip
            command = ("patch", "pod", pod["metadata"]["name"], "-n", "older", "--subresource=status", "-p")
            cluster.kubectl(*command, json.dumps({"status": status}))

        async def both() -> bool:
            command = ("get", "endpointslices", "-n", "older", "-o", "json")
            slices = json.loads((await asyncio.to_thread(cluster.kubectl, *command)).stdout)["items"]
            served = [each for each in slices if each.get("ports")]
            found = {address for each in served for end in each["endpoints"] for address in end["addresses"]}
            assert "10.9.9.2" not in found
            return found == {"10.9.9.1", "10.9.9.3"}

        asyncio.run(until(both))
    finally:
        cluster.kubectl("delete", "--wait=false", "namespace/older", "node/older")


def our_pod(name: str, component: str, port: dict[str, Any]) -> dict[str, Any]:
    """A pod of ours on a node that only pretends."""
    nobody = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {
        "name": "main",
        "image": "registry.example/x:1",
        "ports": [port],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "older", "labels": selector(component)},
        "spec": {"containers": [container], "securityContext": nobody, "nodeName": "older"},
    }


def namespaces(*arguments: str) -> list[str]:
    """Those that `bireme manifests` prints."""
    result = CliRunner().invoke(cli, ["manifests", "--set", SET_IMAGE, *arguments], catch_exceptions=False)
    printed = yaml.load_all(result.stdout, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return [each["metadata"]["name"] for each in printed if each["kind"] == "Namespace"]


def test_an_installation_must_name_its_image() -> None:
    """Whoever owned a default name on a public registry would get the controller's permissions."""
    result = CliRunner().invoke(cli, ["manifests"])
    assert result.exit_code == 1
    assert "image.repository is not set" in result.stderr
    assert "--set image.repository=" in result.stderr


def test_a_digest_wins_over_a_tag() -> None:
    digest = f"sha256:{'0' * 64}"
    objects = build_objects(complete_values({"image": {"tag": "1", "digest": digest}}), "try", AUTHORITY)
    images = {
        container["image"]
        for each in objects
        if each["kind"] == "Deployment"
        for container in each["spec"]["template"]["spec"]["containers"]
    }
    assert images == {f"registry.example/bireme@{digest}"}


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
    objects = build_objects(complete_values(MODES["scheduler"]), name, AUTHORITY)
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
    values = complete_values({"kubeflow": {"enabled": True}, "scheduler": {"enabled": True}})
    objects = [build_namespace("kept"), *build_objects(values, "kept", AUTHORITY)]
    try:
        apply(cluster, objects)
        # Called by their Service, which nobody is behind here; else they are as they were printed.
        assert asyncio.run(said_of_webhooks(cluster, "kept")) == {
            "webhook-server-not-ready",
            "webhook-server-permissions",
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
