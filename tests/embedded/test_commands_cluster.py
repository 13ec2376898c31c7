"""The same commands on a cluster: a real kube-apiserver, where nobody runs pods."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import PAUSED, Bireme
from support.control_plane import ControlPlane

pytestmark = pytest.mark.xdist_group("control_plane")

CRDS = Path(__file__).parents[2] / "deploy/crds"
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {word: %s}\n"


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    for crd in sorted(CRDS.glob("*.yaml")):
        control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(crd))
    control_plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=150s")
    control_plane.kubectl("create", "namespace", "commands")
    yield "commands"
    control_plane.kubectl("delete", "namespace", "commands", "--wait=false")


def test_commands_work_on_a_cluster(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    bireme = Bireme(tmp_path)
    where = ("--kubeconfig", str(control_plane.kubeconfig), "-n", namespace)
    made = bireme("apply", "-f", "-", *where, input=SETTINGS % "one")
    assert made.stdout == "configmap/settings created\n"
    assert made.stderr.startswith("on https://127.0.0.1:")
    assert (
        bireme("apply", "-f", "-", *where, input=SETTINGS % "one").stdout == "configmap/settings unchanged\n"
    )
    control_plane.kubectl(
        "patch", "configmap/settings", "-n", namespace, "-p", '{"data": {"word": "theirs"}}'
    )
    refused = bireme("apply", "-f", "-", *where, input=SETTINGS % "two", code=1)
    assert "hint: `bireme apply --force-conflicts` takes those fields over" in refused.stderr
    taken = bireme("apply", "--force-conflicts", "-f", "-", *where, input=SETTINGS % "two")
    assert taken.stdout == "configmap/settings changed\n"

    assert "a cluster needs an image" in bireme("run", *where, "--replicas", "1", "--", "true", code=2).stderr
    job = ("--name", "hello", "--image", "busybox", "--replicas", "1", "--", "true")
    assert bireme("run", "-d", *where, *job).stdout == "genericjob.batch.tensorstack.dev/hello\n"
    assert bireme("get", *where).stdout.splitlines()[1].split()[0] == "hello"
    # Only the server knows this kind.
    assert "no roles" not in bireme("get", "rolebindings", "-A", *where).stderr
    assert "NAME" in bireme("get", "apiservices", *where).stdout
    late = bireme("wait", "hello", "--timeout", "1s", *where, code=124)
    assert late.stderr.endswith("error: hello is not finished after 1s\n")
    annotations = bireme("get", "gj/hello", "-o", "json", *where).stdout
    assert "bireme.dev/directory" not in annotations
    bireme("run", "-d", "-f", "-", *where, input=PAUSED)
    going = bireme("apply", "-f", "-", *where, input=PAUSED.replace("enabled: true", "enabled: false"))
    assert going.stdout.endswith("pausable changed\n")
    refused = bireme("delete", "hello", "--no-wait", *where, code=2)
    assert "hint: --yes confirms it" in refused.stderr
    deleted = bireme("delete", "hello", "--no-wait", "--yes", *where)
    assert deleted.stdout == "genericjob.batch.tensorstack.dev/hello deleted\n"
