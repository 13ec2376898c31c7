"""The Helm chart: the same objects as `bireme manifests`, and never a CRD that is not ours replaced."""

import base64
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from bireme.api.kinds import KUBEFLOW_MPI_JOB
from bireme.control.webhooks.certificates import (
    Leaf,
    is_trusted,
    make_authority,
    read_certificates,
    read_leaf,
    renew_leaf,
)
from bireme.installation.authority import Authority
from bireme.installation.names import WEBHOOKS
from bireme.installation.objects import build_objects
from bireme.installation.values import ValuesError, read_values
from bireme.kube.clock import utc_now
from support.control_plane import ControlPlane
from support.helm import CHART, helm, render
from support.installation import install_crds
from support.values import SET_IMAGE, complete_values, with_image

pytestmark = pytest.mark.xdist_group("installation")

NAME = KUBEFLOW_MPI_JOB.crd_name
VALUES: dict[str, dict[str, Any]] = {
    "default": {"crds": {"install": False}},
    "one-namespace": {"watchNamespace": "team", "crds": {"install": False}},
    "scheduler": {"crds": {"install": False}, "scheduler": {"enabled": True, "preemption": False}},
    "scheduler-of-one-namespace": {
        "watchNamespace": "team",
        "crds": {"install": False},
        "scheduler": {"enabled": True},
    },
    "everything": {
        "kubeflow": {"enabled": True},
        "image": {"repository": 'registry.example/"odd": {{ name }}', "tag": "1.0"},
        "webhooks": {"certManager": {"enabled": True, "issuerName": "own"}, "port": 10250},
        "networkPolicy": {"restrictEgress": True},
        "controller": {
            "replicas": 3,
            "keepMessages": False,
            "logFormat": "text",
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "resources": {"requests": {"cpu": 2}},
            "podAnnotations": {"note": "yes: it is"},
        },
        "metrics": {
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "prometheusRule": {"enabled": True},
            "dashboard": {"enabled": True},
        },
    },
    "volcano": {"crds": {"install": False}, "gangEngine": "volcano"},
    "kueue": {"crds": {"install": False}, "gangEngine": "kueue"},
    "little": {
        "crds": {"install": False},
        "webhooks": {"enabled": False},
        "rbac": {"aggregate": False},
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
    },
}
WRONG: dict[str, dict[str, Any]] = {
    "unknown": {"imag": {}},
    "unknown-inside": {"image": {"tagg": "x"}},
    "type": {"controller": {"replicas": "two"}},
    "range": {"controller": {"replicas": 0}},
    "engine": {"gangEngine": "slurm"},
    "choice": {"webhooks": {"failurePolicy": "Maybe"}},
    "name": {"watchNamespace": "Team"},
    "no-replicas": {"scheduler": {"enabled": True, "replicas": 0}},
}


def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def values_file(folder: Path, values: dict[str, Any]) -> str:
    path = folder / "values.json"
    path.write_text(json.dumps(with_image(values)))
    return f"--values={path}"


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_the_chart_makes_the_objects_that_manifests_prints(tmp_path: Path, values: dict[str, Any]) -> None:
    text = render(tmp_path, values_file(tmp_path, values)).stdout
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    charted = by_name([each for each in yaml.load_all(text, loader) if each])
    authority = made_by_helm(charted)
    for (kind, _), each in charted.items():
        if kind == "CustomResourceDefinition":
            # Only Helm takes objects away by itself, and so only a chart must say that they stay.
            assert each["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    printed = by_name(build_objects(complete_values(values), "try", authority))
    assert charted.keys() == printed.keys()
    assert all(charted[key] == printed[key] for key in printed)


def made_by_helm(objects: dict[tuple[str, str], dict[str, Any]]) -> Authority:
    """The authority that a chart made; a process can sign with it."""
    secret = objects.get(("Secret", WEBHOOKS))
    if secret is None:
        return Authority()
    data = {name: base64.b64decode(value) for name, value in secret["data"].items()}
    authority = Authority(data["ca.crt"], data["ca.key"])
    leaf = read_leaf(renew_leaf(Leaf(), authority, ("a.svc",), utc_now()))
    assert leaf is not None
    assert is_trusted(leaf, authority.certificates)
    (certificate,) = read_certificates(authority.certificates)
    assert certificate.not_valid_after_utc - utc_now() > timedelta(days=3600)
    return authority


@pytest.mark.parametrize("values", WRONG.values(), ids=WRONG)
def test_both_refuse_the_same_values(tmp_path: Path, values: dict[str, Any]) -> None:
    result = render(tmp_path, values_file(tmp_path, values), check=False)
    assert result.returncode != 0
    assert "values don't meet the specifications of the schema" in result.stderr
    with pytest.raises(ValuesError):
        read_values(values)


def test_it_passes_helms_own_checks(tmp_path: Path) -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in helm("lint", CHART, folder=tmp_path).stdout


def test_an_upgrade_by_helm_keeps_the_authority(plane: ControlPlane, tmp_path: Path) -> None:
    """Also one that an older version's controller made, beside a certificate in the same Secret."""

    def run(*arguments: str | Path) -> None:
        helm(*arguments, "-n", "keeping", kubeconfig=plane.kubeconfig, folder=tmp_path)

    def found() -> tuple[dict[str, str], set[str]]:
        secret = json.loads(plane.kubectl("get", "secret", "-n", "keeping", WEBHOOKS, "-o", "json").stdout)
        kind = "validatingwebhookconfigurations"
        configuration = json.loads(plane.kubectl("get", kind, WEBHOOKS, "-o", "json").stdout)
        return secret["data"], {each["clientConfig"]["caBundle"] for each in configuration["webhooks"]}

    options = (f"--set=crds.install=false,{SET_IMAGE}", "--set=controller.replicas=3")
    try:
        run("install", "bireme", CHART, "--create-namespace", options[0])
        before = found()
        assert before[1] == {before[0]["ca.crt"]}
        run("upgrade", "bireme", CHART, *options)
        assert found() == before
        older = make_authority(utc_now())
        names = ("ca.crt", "ca.key", "tls.crt")
        values = (older.certificates, older.key, b"left by an older version")
        data = {name: base64.b64encode(value).decode() for name, value in zip(names, values, strict=True)}
        plane.kubectl(
            "patch", "secret", "-n", "keeping", WEBHOOKS, "--type=merge", "-p", json.dumps({"data": data})
        )
        run("upgrade", "bireme", CHART, options[0])
        assert found() == (data, {data["ca.crt"]})
    finally:
        run("uninstall", "bireme", "--ignore-not-found")
        plane.kubectl("delete", "namespace", "keeping", "--wait=false")


@pytest.mark.long
def test_crds_come_with_the_chart_and_stay_without_it(plane: ControlPlane, tmp_path: Path) -> None:
    """On a cluster: installed, upgraded, uninstalled; and refused where the CRD is somebody else's."""

    def run(*arguments: str | Path, check: bool = True) -> str:
        result = helm(*arguments, kubeconfig=plane.kubeconfig, folder=tmp_path, check=check)
        return result.stdout + result.stderr

    options = ("-n", "charted", "--create-namespace", "--set=kubeflow.enabled=true", f"--set={SET_IMAGE}")
    plane.kubectl("delete", "crd", NAME)
    try:
        run("install", "bireme", CHART, *options)
        crd = json.loads(plane.kubectl("get", "crd", NAME, "-o", "json").stdout)
        assert crd["metadata"]["annotations"]["meta.helm.sh/release-name"] == "bireme"
        plane.kubectl("patch", "crd", NAME, "--type=json", "-p", _DROP_COLUMNS)
        run("upgrade", "bireme", CHART, *options, "--set=controller.replicas=3")
        crd = json.loads(plane.kubectl("get", "crd", NAME, "-o", "json").stdout)
        assert len(crd["spec"]["versions"][0]["additionalPrinterColumns"]) > 1
        run("uninstall", "bireme", "-n", "charted")
        assert NAME in plane.kubectl("get", "crd").stdout
        plane.kubectl("label", "crd", NAME, "--overwrite", "app.kubernetes.io/name=other")
        told = run("install", "bireme", CHART, *options, check=False)
        assert f"the CRD {NAME} belongs to somebody else, and is not replaced" in told
        assert "bireme-controller" not in plane.kubectl("get", "clusterroles").stdout
    finally:
        run("uninstall", "bireme", "-n", "charted", "--ignore-not-found", check=False)
        plane.kubectl("delete", "crd", NAME)
        install_crds(plane)


_DROP_COLUMNS = json.dumps(
    [{"op": "replace", "path": "/spec/versions/0/additionalPrinterColumns", "value": []}]
)
