"""A real API server takes every object that a plan creates."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from bireme.cli.main import cli
from support.control_plane import ControlPlane

pytestmark = pytest.mark.xdist_group("control_plane")

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*job*.yaml"))
NAMESPACE = "children"


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """A namespace with the accounts that pods of the examples name."""
    control_plane.kubectl("create", "namespace", NAMESPACE)
    control_plane.kubectl("-n", NAMESPACE, "create", "serviceaccount", "kubeflow-hello-launcher")
    for crd in sorted((ROOT / "deploy/crds").glob("*.yaml")):
        control_plane.kubectl("apply", "-f", str(crd))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=150s", "crd", "--all")
    control_plane.kubectl("-n", NAMESPACE, "wait", "--for=create", "serviceaccount/default", "--timeout=150s")
    return control_plane


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_children_are_accepted(cluster: ControlPlane, path: Path) -> None:
    rendered = CliRunner().invoke(cli, ["render", "-f", str(path), "-n", NAMESPACE, "--show-secrets"])
    assert rendered.exit_code == 0
    for obj in yaml.safe_load_all(rendered.stdout):
        if obj["kind"] == "ServiceAccount":
            continue
        reply = cluster.kubectl(
            "create", "--dry-run=server", "--validate=strict", "-f", "-", input=json.dumps(obj), check=False
        )
        assert (reply.returncode, reply.stderr) == (0, ""), obj["metadata"]["name"]
