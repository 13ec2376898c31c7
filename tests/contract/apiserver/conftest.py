"""Two servers, one after the other: what a client does on the real one must work on ours, unchanged."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.control_plane import ControlPlane
from support.embedded import EmbeddedServer

CRDS = Path(__file__).parents[3] / "deploy/crds"
Server = ControlPlane | EmbeddedServer
numbers = itertools.count(1)


@pytest.fixture(scope="session")
def real(control_plane: ControlPlane) -> ControlPlane:
    """The real server, with our CRDs."""
    control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=150s", "-f", str(CRDS))
    return control_plane


@pytest.fixture(params=["real", "ours"])
def server(request: pytest.FixtureRequest) -> Server:
    name = "real" if request.param == "real" else "embedded"
    found: Server = request.getfixturevalue(name)
    return found


@pytest.fixture
def namespace(server: Server) -> Iterator[str]:
    """A namespace of the test's own; its name says nothing."""
    name = f"clients-{next(numbers)}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    server.kubectl("create", "-f", "-", input=json.dumps(manifest))
    if isinstance(server, ControlPlane):
        wait = ("wait", "--for=create", "--timeout=150s", "--namespace", name)
        server.kubectl(*wait, "serviceaccount/default")
    yield name
    server.kubectl("delete", "namespace", name, "--wait=false")
