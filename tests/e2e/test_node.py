"""The cluster itself: what every other test takes for granted."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.cluster import Cluster
from support.stage import Stage, stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]


@pytest.fixture
def place(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A namespace; no controller is needed here."""
    with stage(cluster, request.node.name.removeprefix("test_").replace("_", "-")[:50]) as new:
        yield new


def pod(stage: Stage, name: str, script: str, **spec: object) -> dict[str, Any]:
    container = {"name": "main", "image": stage.image("busybox"), "command": ["sh", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "test"}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
        | spec,
    }


@pytest.mark.smoke
def test_a_pod_runs_to_its_end_and_its_output_is_kept(place: Stage) -> None:
    place.create(pod(place, "short", "echo hello from $(hostname)"))
    place.wait_pod("short", "Succeeded")
    assert place.logs("short") == "hello from short\n"


def test_a_command_runs_in_a_pod(place: Stage) -> None:
    place.create(pod(place, "idle", "exec sleep 600"))
    place.wait_pod("idle", "Running")
    assert place.execute("idle", "hostname") == "idle\n"
    failed = place.try_kubectl("exec", "idle", "--", "sh", "-c", "exit 7")
    assert failed.code == 7


def test_the_names_of_a_headless_service_are_its_pods(place: Stage) -> None:
    spec = {"clusterIP": "None", "selector": {"app": "test"}, "publishNotReadyAddresses": True}
    place.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "peers"}, "spec": spec})
    place.create(pod(place, "one", "exec sleep 600", hostname="one", subdomain="peers"))
    address = place.wait_pod("one", "Running")["status"]["podIP"]
    name = f"one.peers.{place.namespace}.svc.cluster.local"
    place.create(pod(place, "asks", f"until nslookup {name}; do sleep 0.2; done"))
    place.wait_pod("asks", "Succeeded")
    assert address in place.logs("asks")


def test_a_pod_reaches_the_api_server_at_its_service(place: Stage) -> None:
    place.create(
        pod(place, "asks", "nc -w 10 kubernetes.default.svc.cluster.local 443 </dev/null && echo open")
    )
    place.wait_pod("asks", "Succeeded")
    assert place.logs("asks") == "open\n"
