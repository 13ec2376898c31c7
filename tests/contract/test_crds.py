"""A real API server takes the CRDs, and agrees with admission about what is valid."""

import json
from pathlib import Path
from typing import Any

import pytest

from bireme.api.crd import build_crd
from bireme.api.kinds import KINDS, MPI_JOB, Kind
from bireme.manifest import read
from bireme.manifest.writer import write
from support.control_plane import ControlPlane

pytestmark = pytest.mark.xdist_group("control_plane")

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
GOLDEN = ROOT / "tests/golden/validate"
VALID = sorted((GOLDEN / "valid").glob("*.input.yaml"))
INVALID = sorted((GOLDEN / "invalid").glob("*.input.yaml"))
STRICT = ("--dry-run=server", "--validate=strict")
MAX_ANNOTATION_BYTES = 262_144


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with our CRDs; they stay, as other tests use them too."""
    applied = control_plane.kubectl("apply", "-f", "-", input=write(build_crd(kind) for kind in KINDS))
    assert applied.stderr == ""
    control_plane.kubectl(
        "wait", "--for=condition=Established", "--timeout=150s", *(f"crd/{kind.crd_name}" for kind in KINDS)
    )
    return control_plane


def crd(cluster: ControlPlane, kind: Kind) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(cluster.kubectl("get", "crd", kind.crd_name, "-o", "json").stdout)
    return result


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.crd_name)
def test_crd_is_established_and_structural(cluster: ControlPlane, kind: Kind) -> None:
    conditions = {c["type"]: c["status"] for c in crd(cluster, kind)["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.crd_name)
def test_crd_fits_into_the_annotation_of_a_plain_apply(kind: Kind) -> None:
    assert len(json.dumps(build_crd(kind), separators=(",", ":"))) < MAX_ANNOTATION_BYTES


@pytest.mark.parametrize("path", [*EXAMPLES, *VALID], ids=lambda path: path.name)
def test_valid_manifest_is_accepted(cluster: ControlPlane, path: Path) -> None:
    verb = "create" if "generateName" in path.read_text() else "apply"
    result = cluster.kubectl(verb, *STRICT, "-f", str(path), check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.name.removesuffix(".input.yaml"))
def test_schema_refuses_what_it_can_express(cluster: ControlPlane, path: Path) -> None:
    """The second line of a case says who refuses it; both ways are checked."""
    mark = path.read_text().splitlines()[1]
    verb = "create" if "generateName" in path.read_text() else "apply"
    result = cluster.kubectl(verb, *STRICT, "-f", str(path), check=False)
    assert (result.returncode != 0) == (mark == "# On a cluster: refused."), result.stderr


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("mpijobs.spec.worker.cmd", "The MPI program and its arguments"),
        ("genericjobs.spec.replicaSpecs.template.spec.containers", "imagePullPolicy"),
        ("genericjobs.spec.replicaSpecs.restartPolicy.limit", "The most restarts"),
        ("colossalaijobs.spec.launcher.env", "valueFrom"),
        ("queues.spec.quota.requests", "The most of each resource"),
        ("podgroups.spec.roles.minMember", "must start together"),
    ],
)
def test_explain_reaches_three_levels_and_more(cluster: ControlPlane, field: str, expected: str) -> None:
    api_version = (
        "--api-version=batch.tensorstack.dev/v1beta1" if field.startswith("mpijobs") else "--recursive=false"
    )
    assert expected in cluster.kubectl("explain", field, api_version).stdout


def test_short_names_and_category(cluster: ControlPlane) -> None:
    listing = cluster.kubectl("api-resources", "--categories=bireme", "-o", "wide").stdout
    for kind in KINDS:
        row = next(line for line in listing.splitlines() if kind.plural in line and kind.group in line)
        assert ",".join(kind.short_names) in row


def test_template_comes_back_unchanged(cluster: ControlPlane) -> None:
    """Every field of a pod template survives, one that no Kubernetes knows included."""
    (document,) = read((ROOT / "tests/contract/full-template.yaml").read_bytes()).documents
    assert isinstance(document.value, dict)
    sent = document.value["spec"]["worker"]["template"]
    reply = cluster.kubectl(
        "create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(document.value)
    )
    assert json.loads(reply.stdout)["spec"]["worker"]["template"] == sent


def test_defaults_of_the_server_are_ours(cluster: ControlPlane) -> None:
    """What admission fills in is exactly what the CRD fills in."""
    from bireme.admission import default

    for path in [*EXAMPLES, *VALID]:
        for document in read(path.read_bytes()).documents:
            assert isinstance(document.value, dict)
            if "generateName" in document.value["metadata"] or document.value["apiVersion"] == "v1":
                continue
            reply = cluster.kubectl(
                "create", "--dry-run=server", "-o", "json", "-f", "-", input=json.dumps(document.value)
            )
            assert json.loads(reply.stdout)["spec"] == default(document.value)["spec"], path.name


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"spec": {"mpiHome": "/opt/other"}}, "mpiHome can't change"),
        ({"spec": {"mca": {"btl": "tcp"}}}, "mca can't change"),
        ({"spec": {"ssh": {"sshdPath": "/sbin/sshd"}}}, "ssh can't change"),
        ({"spec": {"scheduler": {"t9kScheduler": {"queue": "other"}}}}, "scheduler can't change"),
        ({"spec": {"scheduler": None}}, "scheduler can't change"),
    ],
    ids=["mpiHome", "mca", "ssh", "queue", "scheduler-removed"],
)
def test_cel_holds_what_can_not_change(cluster: ControlPlane, patch: dict[str, Any], message: str) -> None:
    name = f"{MPI_JOB.plural}.{MPI_JOB.group}/tuned"
    cluster.kubectl("apply", "-f", str(ROOT / "examples/mpijob-tuned.yaml"))
    result = cluster.kubectl("patch", name, "--type=merge", "-p", json.dumps(patch), check=False)
    assert result.returncode != 0
    assert message in result.stderr
    cluster.kubectl(
        "patch", name, "--type=merge", "-p", json.dumps({"spec": {"runPolicy": {"cleanUpWorkers": True}}})
    )
