"""A cache follows a real API server: through a restart, and past versions that are gone."""

import asyncio
import contextlib
import json
import queue
import signal
import threading
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from bireme.api.core import ConfigMap
from bireme.kube.cache import Cache
from bireme.kube.client import Client
from bireme.kube.config import load_config
from bireme.kube.errors import Gone
from bireme.kube.resources import CONFIG_MAPS
from bireme.kube.transport import HttpTransport
from support.control_plane import ControlPlane

pytestmark = pytest.mark.xdist_group("control_plane")

LABEL = "cached=yes"


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    name = f"kube-cache-{uuid.uuid4().hex[:6]}"
    control_plane.kubectl("create", "namespace", name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def forgetful(control_plane: ControlPlane) -> ControlPlane:
    """An API server that has begun after version 1, and does not know what was before."""
    if not control_plane.is_existing_cluster:
        control_plane.restart("kube-apiserver", signum=signal.SIGKILL)
    return control_plane


class Follower:
    """A cache of labelled ConfigMaps in a thread of its own; what it tells of changes waits in a queue.

    The test stays in the main thread: the control plane's programs die with the thread that starts them.
    """

    def __init__(self, transport: HttpTransport, namespace: str) -> None:
        self._transport = transport
        self._changes: queue.SimpleQueue[str] = queue.SimpleQueue()
        client = Client(transport)
        self.cache = Cache(
            client,
            CONFIG_MAPS,
            ConfigMap,
            namespace=namespace,
            label_selector=LABEL,
            on_change=self._on_change,
            page_size=2,
        )
        self._begun = threading.Event()

    def _on_change(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        sign = "+" if old is None else "-" if new is None else "~"
        obj = new or old
        assert obj is not None
        self._changes.put(f"{sign}{obj.metadata.name}")

    def next(self, count: int = 1) -> list[str]:
        """The next changes, when they have come."""
        return [self._changes.get(timeout=120) for _ in range(count)]

    async def _follow(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._begun.set()
        following = asyncio.ensure_future(self.cache.run())
        await self._stop.wait()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await self._transport.close()

    @contextlib.contextmanager
    def running(self) -> Iterator["Follower"]:
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(asyncio.run, self._follow())
            self._begun.wait()
            try:
                yield self
            finally:
                self._loop.call_soon_threadsafe(self._stop.set)
                done.result()


class Kubectl:
    """Another client's hand."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self._control_plane = control_plane
        self._namespace = namespace

    def create(self, *names: str) -> None:
        items = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": self._namespace, "labels": {"cached": "yes"}},
            }
            for name in names
        ]
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        self._control_plane.kubectl("create", "-f", "-", input=manifest)

    def delete(self, name: str) -> None:
        self._control_plane.kubectl("-n", self._namespace, "delete", "configmap", name)


@pytest.fixture
def kubectl(control_plane: ControlPlane, namespace: str) -> Kubectl:
    return Kubectl(control_plane, namespace)


def test_a_cache_sees_what_others_do_and_survives_a_restart(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    kubectl.create("early")
    transport = HttpTransport(load_config(kubeconfig=str(control_plane.kubeconfig), environ={}))
    with Follower(transport, namespace).running() as follower:
        assert follower.next() == ["+early"]
        kubectl.create("late")
        kubectl.delete("early")
        assert follower.next(2) == ["+late", "-early"]
        if control_plane.is_existing_cluster:
            return
        control_plane.restart("kube-apiserver", signum=signal.SIGKILL)
        kubectl.delete("late")
        kubectl.create("after")
        assert follower.next(2) == ["-late", "+after"]
        assert [each.metadata.name for each in follower.cache.all()] == ["after"]
        assert follower.cache.last_error is None


class Late(HttpTransport):
    """Comes so late with its first watch that the version is gone, and things have happened meanwhile."""

    def __init__(self, control_plane: ControlPlane, meanwhile: Callable[[], None]) -> None:
        super().__init__(load_config(kubeconfig=str(control_plane.kubeconfig), environ={}))
        self._meanwhile: Callable[[], None] | None = meanwhile

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        if self._meanwhile is not None:
            self._meanwhile()
            self._meanwhile = None
            params = {**params, "resourceVersion": "1"}
        async with super().stream(path, params=params) as chunks:
            yield chunks


def test_a_watch_from_a_version_long_gone_says_so(forgetful: ControlPlane, namespace: str) -> None:
    async def main() -> None:
        transport = HttpTransport(load_config(kubeconfig=str(forgetful.kubeconfig), environ={}))
        watch = Client(transport).watch(CONFIG_MAPS, namespace, resource_version="1", type=ConfigMap)
        async with contextlib.aclosing(watch), asyncio.timeout(90):
            with pytest.raises(Gone, match="too old resource version"):
                await anext(watch)
        await transport.close()

    asyncio.run(main())


def test_a_cache_whose_version_is_gone_finds_out_what_it_missed(
    forgetful: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    kubectl.create("a", "b", "c")
    transport = Late(forgetful, lambda: kubectl.delete("b"))
    with Follower(transport, namespace).running() as follower:
        assert follower.next(4) == ["+a", "+b", "+c", "-b"]
        assert follower.cache.statistics()["lists"] == 2
        kubectl.create("d")
        assert follower.next() == ["+d"]
