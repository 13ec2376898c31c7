"""What controllers are made of works on our server: informers, leader election, paged lists of client-go."""

import json
import subprocess
from collections.abc import Iterator
from typing import IO, Any

import pytest

from support.clients import find_client
from support.control_plane import BinariesMissingError, ControlPlane
from support.embedded import EmbeddedServer
from support.fixtures import unavailable

pytestmark = pytest.mark.xdist_group("control_plane")

Server = ControlPlane | EmbeddedServer
LABELS = {"crew": "yes"}
CONTAINERS = [{"name": "c", "image": "i"}]
JOB = {
    "apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "GenericJob",
    "metadata": {"name": "galley", "labels": LABELS},
    "spec": {"replicaSpecs": [{"type": "worker", "template": {"spec": {"containers": CONTAINERS}}}]},
}  # fmt: skip
POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "oar", "labels": LABELS},
    "spec": {"automountServiceAccountToken": False, "containers": CONTAINERS},
}  # fmt: skip
SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "labels": LABELS}}


def program(mode: str, server: Server, namespace: str, *flags: str) -> list[str]:
    try:
        informer = str(find_client("informer"))
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None
    return [
        informer,
        mode,
        "-kubeconfig",
        str(server.kubeconfig),
        "-namespace",
        namespace,
        "-selector",
        "crew",
        *flags,
    ]


def told(mode: str, server: Server, namespace: str) -> list[dict[str, Any]]:
    """Run to the end, and return what was said."""
    done = subprocess.run(program(mode, server, namespace), capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def watching(server: Server, namespace: str) -> Iterator[IO[str]]:
    """An informer that has seen the first lists, with all that was said until then read."""
    server.kubectl("create", "-n", namespace, "-f", "-", input=json.dumps(SETTINGS))
    flags = ("-custom", "genericjobs.v1beta1.batch.tensorstack.dev", "-events", "11")
    argv = program("watch", server, namespace, *flags)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout
        assert process.wait(180) == 0


def events(lines: IO[str]) -> list[tuple[str, str, str]]:
    """What follows, up to "synced" or the end."""
    read = []
    for line in lines:
        said = json.loads(line)
        if said["event"] == "synced":
            break
        read.append((said["event"], said["resource"], said["name"]))
    return read


def test_an_informer_hears_of_every_change(server: Server, namespace: str, watching: IO[str]) -> None:
    assert events(watching) == [("add", "configmaps", "settings")]

    def kubectl(*arguments: str, input: str = "") -> None:  # noqa: A002 - as subprocess.run has it
        server.kubectl(*arguments, "--namespace", namespace, input=input)

    kubectl("create", "-f", "-", input=json.dumps(POD))
    kubectl("create", "-f", "-", input=json.dumps(JOB))
    kubectl("patch", "configmap", "settings", "--patch", '{"data":{"a":"1"}}')
    kubectl("patch", "pod", "oar", "--subresource=status", "--patch", '{"status":{"phase":"Running"}}')
    kubectl("patch", "genericjob", "galley", "--type=merge", "--patch", '{"spec":{"cleanUpPolicy":"All"}}')
    kubectl("label", "configmap", "settings", "a=b")
    kubectl("delete", "pod", "oar", "--now")
    kubectl("delete", "genericjob", "galley")
    kubectl("delete", "configmap", "settings")

    heard = events(watching)
    for resource, name, words in (
        ("pods", "oar", ["add", "update", "update", "delete"]),
        ("configmaps", "settings", ["update", "update", "delete"]),
        ("genericjobs", "galley", ["add", "update", "delete"]),
    ):
        assert [word for word, *about in heard if about == [resource, name]] == words


def test_a_leader_is_elected_and_lets_go(server: Server, namespace: str) -> None:
    said = told("elect", server, namespace)
    assert [each["event"] for each in said] == ["leader", "released"]
    lease = json.loads(server.kubectl("get", "lease", "informer", "-n", namespace, "-o", "json").stdout)
    assert lease["spec"].get("holderIdentity", "") == ""
    assert lease["spec"]["leaseTransitions"] == 0


def test_a_list_comes_in_pages(server: Server, namespace: str) -> None:
    names = [f"page-{number}" for number in range(5)]
    items = [{**SETTINGS, "metadata": {"name": name, "labels": LABELS}} for name in names]
    server.kubectl("create", "-n", namespace, "-f", "-", input="\n---\n".join(map(json.dumps, items)))
    pages = told("list", server, namespace)
    assert [page["names"] for page in pages] == [names[:2], names[2:4], names[4:]]
    assert pages[0]["remaining"] is None, "nobody counts what a selector leaves"
