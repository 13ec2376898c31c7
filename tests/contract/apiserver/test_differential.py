"""Our server answers as a kube-apiserver does: generated requests go to both, and the answers are compared.

Compared are codes, reasons, causes, warnings, lists, watches and whole objects with the owners of their
fields. UIDs, versions, times and generated names are by chance, and compared by when they were first seen.
What differs on purpose is listed in tests/support/differential/known.py, and each of it must show.

The real server is one of its own here: with the two controllers whose work ours does too, and without the
admission plugins whose work it leaves out. `BIREME_PLAY=core:7` plays a single play.
"""

import itertools
import os
import time
from collections.abc import Callable, Iterator

import pytest

from support.control_plane import BinariesMissingError, ControlPlane
from support.differential.calls import Call
from support.differential.known import KNOWN
from support.differential.plays import THEMES, make
from support.differential.servers import Server, our_server, real_server
from support.differential.stage import Stage, described
from support.differential.widgets import GROUP, build_crd
from support.embedded import EmbeddedServer
from support.fixtures import unavailable

pytestmark = pytest.mark.xdist_group("control_plane")

LONG = os.environ.get("BIREME_LONG") == "1"
REQUESTS = 10_000 if LONG else 1_500
SLOW_PLAYS = 6 if LONG else 1
FLAGS = {
    "kube-apiserver": ["--disable-admission-plugins=StorageObjectInUseProtection,TaintNodesByCondition"],
    "kube-controller-manager": ["--controllers=garbage-collector-controller,namespace-controller"],
}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RUNTIME_CLASS = {"metadata": {"name": "rc"}, "handler": "h"}
URGENT = {"metadata": {"name": "urgent"}, "value": 7, "preemptionPolicy": "Never"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    own = ControlPlane(parent=tmp_path_factory.getbasetemp())
    if own.is_existing_cluster:
        pytest.skip("BIREME_TEST_KUBECONFIG: controllers of that cluster would write too")
    try:
        own.start(flags=FLAGS)
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None
    yield own
    own.stop()


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """One of its own: what is made here would show in the tests of others."""
    server = EmbeddedServer(parent=tmp_path_factory.getbasetemp())
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def stage(plane: ControlPlane, own_server: EmbeddedServer) -> Iterator[Stage]:
    """Both servers, with the same CRDs, and with what generated pods refer to."""
    real, ours = real_server(plane), our_server(own_server)
    for crd in ours.send(Call("GET", CRDS)).body["items"]:
        metadata = {
            key: crd["metadata"][key] for key in ("name", "labels", "annotations") if key in crd["metadata"]
        }
        real.send(Call("POST", CRDS, {"metadata": metadata, "spec": crd["spec"]}))
    real.send(Call("POST", "/apis/node.k8s.io/v1/runtimeclasses", RUNTIME_CLASS))
    for server in (real, ours):
        server.send(Call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", URGENT))
        server.send(Call("POST", CRDS, build_crd(GROUP)))
    _wait_until_served(real, ours)
    yield Stage(real, ours)
    real.close()
    ours.close()


def _wait_until_served(real: Server, ours: Server) -> None:
    """The real server serves what a CRD defines, and knows classes, a moment later."""
    paths = [
        f"/apis/{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}/{crd['spec']['names']['plural']}"
        for crd in ours.send(Call("GET", CRDS)).body["items"]
    ]
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "priorityClassName": "urgent",
        "runtimeClassName": "rc",
    }
    account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
    real.send(Call("POST", "/api/v1/namespaces/default/serviceaccounts", account))
    probe = Call("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "probe"}, "spec": spec})
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if all(real.send(Call("GET", path)).code == 200 for path in paths) and real.send(probe).code in (
            201,
            409,
        ):
            return
        time.sleep(0.1)
    pytest.fail("the real server does not serve the CRDs, or does not know the classes, after 120 s")


def seeds_of(theme: str, stage: Stage) -> Iterator[int]:
    """Plays until the theme has had its share of requests."""
    chosen, _, seed = os.environ.get("BIREME_PLAY", "").partition(":")
    if chosen:
        yield from [int(seed)] if chosen == theme else []
        return
    shares = sum(share for _, _, share in THEMES.values())
    if not THEMES[theme][2]:
        yield from range(SLOW_PLAYS)
        return
    end = stage.agreed + REQUESTS * THEMES[theme][2] / shares
    for number in itertools.count():
        if stage.agreed >= end:
            return
        yield number


@pytest.mark.parametrize("theme", THEMES)
def test_generated_requests_are_answered_alike(stage: Stage, theme: str) -> None:
    for seed in seeds_of(theme, stage):
        calls = make(theme, seed)
        difference = stage.play(calls)
        if difference is not None:
            shortest, shown = stage.shorten(calls) or (calls, difference)
            pytest.fail(described(theme, seed, shortest, shown), pytrace=False)


def test_enough_agreed_and_every_known_difference_has_shown(
    stage: Stage, record_property: Callable[[str, object], None]
) -> None:
    if "BIREME_PLAY" in os.environ:
        pytest.skip("BIREME_PLAY: a single play shows little")
    record_property("agreed", stage.agreed)
    print(f"{stage.agreed} requests were answered alike; known differences: {dict(stage.known)}")
    assert stage.agreed >= REQUESTS
    assert {each.name for each in KNOWN} - set(stage.known) == set()
