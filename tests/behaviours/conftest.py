"""One place after another: each test runs in all of them."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from bireme.kube.errors import ApiError
from support.cluster import Cluster
from support.commands import daemon
from support.control_plane import ControlPlane
from support.fixtures import unavailable
from support.installation import Installation, apply
from support.places.jobs import kubeflow
from support.places.place import Object, Place, closing, resource
from support.places.played_node import PlayedNode
from support.places.programs import ContainerPrograms, LocalPrograms

ROOT: Final = Path(__file__).parents[2]
NAMESPACE: Final = "behaviours"
_PLACES: Final = [
    pytest.param("here", marks=pytest.mark.xdist_group("behaviours")),
    pytest.param("control-plane", marks=pytest.mark.xdist_group("control_plane")),
    pytest.param("node", marks=[pytest.mark.e2e, pytest.mark.xdist_group("e2e")]),
]


@pytest.fixture(scope="package", params=_PLACES)
def open_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The embedded mode; a real API server with a pretended node; a cluster with real containers."""
    name: str = request.param
    folder = tmp_path_factory.mktemp(name)
    with ExitStack() as stack:
        if name == "here":
            opened = here(folder)
        elif name == "control-plane":
            opened = on_control_plane(request.getfixturevalue("control_plane"))
        else:
            reviews = request.getfixturevalue("controller") == "chart"
            opened = on_node(request.getfixturevalue("cluster"), reviews=reviews)
        yield stack.enter_context(opened)


@pytest.fixture
def place(open_place: Place) -> Iterator[Place]:
    """A place that is swept after each test."""
    yield open_place
    open_place.clear()


@contextmanager
def here(folder: Path) -> Iterator[Place]:
    """A daemon of its own, with real processes."""
    with daemon(folder) as bireme:
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        annotations = {"bireme.dev/path": path}
        kubeconfig = bireme.data / "kubeconfig"
        programs = LocalPrograms(bireme.work)
        made = Place(kubeconfig, "default", programs, brings_access=False, annotations=annotations)
        with closing(made) as place:
            yield place
            place.clear()


@contextmanager
def on_control_plane(plane: ControlPlane) -> Iterator[Place]:
    """An installation on a real API server, of one namespace; its controller a process, its node played."""
    if plane.is_existing_cluster:
        pytest.skip("BIREME_TEST_KUBECONFIG: there are real nodes, which `make e2e` uses")
    for crd in sorted((ROOT / "deploy/crds").glob("*.yaml")):
        plane.kubectl("apply", "-f", str(crd))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=150s", "crd", "--all")
    values = {
        "watchNamespace": NAMESPACE,
        "kubeflow": {"enabled": True},
        "webhooks": {"failurePolicy": "Fail"},
    }
    installation = Installation(plane, "bireme-behaviours", values)
    installation.objects = [_of_namespaces(each) for each in installation.objects]
    apply(plane, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    installation.apply()
    try:
        with (
            # Nobody would start it again when a busy machine keeps it from renewing the lease.
            installation.controller("--no-leader-elect"),
            installation.webhooks(),
            PlayedNode(plane.kubeconfig, NAMESPACE).at_work() as node,
            closing(Place(plane.kubeconfig, NAMESPACE, node, runs_programs=False)) as place,
        ):
            installation.wait_ready()
            installation.wait_webhooks()
            place.until(lambda: is_reviewed(place), installation.log)
            yield place
    finally:
        installation.remove()
        plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def _of_namespaces(obj: Object) -> Object:
    """Webhooks that leave alone what is in no namespace: others use the same API server."""
    if not obj["kind"].endswith("WebhookConfiguration"):
        return obj
    webhooks = [
        {**each, "rules": [{**rule, "scope": "Namespaced"} for rule in each["rules"]]}
        for each in obj["webhooks"]
    ]
    return {**obj, "webhooks": webhooks}


def is_reviewed(place: Place) -> bool:
    """Whether the API server knows whom to ask, and trusts the answer."""
    wrong = kubeflow(place, "wrong")
    wrong["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["imag"] = "x"
    try:
        place.do(place.client.create(resource(wrong), place.namespace, wrong, dry_run=True))
    except ApiError as error:
        return "denied the request" in error.message
    return False


@contextmanager
def on_node(cluster: Cluster, *, reviews: bool) -> Iterator[Place]:
    """Real containers; programs are told by exec."""
    image, brought = cluster.image("mpi4"), cluster.image("controller")
    if image is None or brought is None:
        raise unavailable("no image: set BIREME_TEST_IMAGE_MPI4 and BIREME_TEST_IMAGE_CONTROLLER")
    cluster.kubectl.run(["create", "namespace", NAMESPACE])
    wait = ["wait", "-n", NAMESPACE, "--for=create", "serviceaccount/default", "--timeout=150s"]
    assert cluster.kubectl.run(wait, seconds=180).code == 0
    programs = ContainerPrograms(cluster.kubectl, NAMESPACE, image)
    try:
        with closing(Place(cluster.kubeconfig, NAMESPACE, programs, reviews=reviews)) as place:
            yield place
    finally:
        cluster.kubectl.run(["delete", "namespace", NAMESPACE, "--wait=false"])
