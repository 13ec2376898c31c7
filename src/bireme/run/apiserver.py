"""The embedded API server by itself."""

import asyncio
import contextlib
import logging
import random
import secrets
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from bireme.api.crd import build_crd
from bireme.api.kinds import KINDS
from bireme.apiserver.backend import Backend
from bireme.apiserver.database import Database, DatabaseError
from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import CORE, CUSTOM_RESOURCE_DEFINITION, EVENT, NAMESPACE, PRIORITY_CLASS
from bireme.apiserver.priority import BUILT_IN
from bireme.apiserver.reviews import MASTERS, User
from bireme.apiserver.rules import Object
from bireme.apiserver.serving.access import Access
from bireme.apiserver.serving.activity import CountingHandler
from bireme.apiserver.serving.folder import Folder, FolderError, TlsFiles, read_token
from bireme.apiserver.serving.gateway import Gateway
from bireme.apiserver.serving.server import is_loopback, listen, serve, tls_context
from bireme.apiserver.store import Store
from bireme.apiserver.terms import Terms
from bireme.apiserver.typed import BySchema
from bireme.node.open_files import raise_limit
from bireme.run.parts import keep_going

log = logging.getLogger("bireme")

HISTORY: Final = 5_000
EVENTS_LIVE: Final = timedelta(hours=1)
_NAMESPACES: Final = ("default", "kube-system", "kube-public")
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_EVENT_ROUND_SECONDS: Final = 60.0
_SERVER: Final = Terms(manager="bireme")


class Options(NamedTuple):
    """What `bireme apiserver` was told."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    token_file: Path | None = None


class Running(NamedTuple):
    """A server that is ready, on TLS and on a Unix socket in its folder.

    `quiet_seconds` says for how long no client was served.
    """

    backend: Backend
    url: str
    kubeconfig: Path
    socket: Path
    quiet_seconds: Callable[[], float]


async def run_apiserver(options: Options, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. Raises FolderError, DatabaseError and ListenError."""
    raise_limit()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    async with serving(options) as running:
        say(f"API server at {running.url}\n")
        say(f"export KUBECONFIG={running.kubeconfig}\n")
        await stop.wait()


@contextlib.asynccontextmanager
async def serving(
    options: Options, gateway: Gateway | None = None, *, stand_ins: bool = False
) -> AsyncIterator[Running]:
    """An API server, ready for clients, until the context ends; `stand_ins` as in `open_backend`."""
    _check(options)
    folder = Folder(options.folder)
    with folder.locked():
        listening = listen(options.host, _ports(options, folder))
        with contextlib.closing(listening.socket):
            files, token = _tls(options, folder), _token(options, folder)
            backend = open_backend(folder.database, stand_ins=stand_ins)
            hosts = listening.hosts if is_loopback(options.host) else None
            access = Access(token, hosts, User("bireme:owner", (MASTERS, "system:authenticated")))
            handler = CountingHandler(backend, access, gateway)
            try:
                await _furnished(backend)
                backend.collect()
                socket = folder.path / "api.sock"
                async with serve(handler, listening, tls_context(files.certificate, files.key), socket):
                    authority = files.authority.read_bytes()
                    folder.write_kubeconfig(listening.url, authority, token, listening.port)
                    handler.is_ready = True
                    with _chores(backend):
                        yield Running(
                            backend, listening.url, folder.kubeconfig, socket, handler.quiet_seconds
                        )
            finally:
                folder.remove_kubeconfig()
                await backend.close()


def open_backend(path: Path | None, *, stand_ins: bool = False) -> Backend:
    """A store with what was saved in a file; in memory alone without one.

    With `stand_ins`, pods may name some objects that are not there (`plugins.admit`).
    """
    store = Store(
        CORE,
        uid=lambda: str(uuid.uuid4()),
        suffix=lambda: "".join(secrets.choice(_LETTERS) for _ in range(5)),
        history=HISTORY,
        intake=BySchema(stand_ins=stand_ins),
        publishes=False,
    )
    database = None if path is None else Database(path, history=HISTORY)
    if database is not None and (saved := database.load()) is not None:
        store.restore(saved)
    return Backend(store, database, now)


async def _furnished(backend: Backend) -> None:
    try:
        await backend.write(lambda: furnish(backend.store, now()))
    except StatusError as error:
        raise DatabaseError(error.message) from error


def furnish(store: Store, moment: datetime) -> None:
    """Bring in what is there from the beginning; CRDs of ours are kept up to date."""
    for name in _NAMESPACES:
        if store.record(NAMESPACE, name) is None:
            store.create(NAMESPACE, {"metadata": {"name": name}}, moment, terms=_SERVER)
    for priority_class in BUILT_IN:
        if store.record(PRIORITY_CLASS, priority_class["metadata"]["name"]) is None:
            store.create(PRIORITY_CLASS, priority_class, moment, terms=_SERVER)
    for kind in KINDS:
        _install(store, build_crd(kind), moment)


def _install(store: Store, crd: Object, moment: datetime) -> None:
    """Create a CRD, or bring it up to date; one that is going, or somebody else's, is left alone."""
    name = crd["metadata"]["name"]
    terms = Terms(manager="bireme", force=True)
    there = store.find(CUSTOM_RESOURCE_DEFINITION, name)
    if there is None:
        store.create(CUSTOM_RESOURCE_DEFINITION, crd, moment, terms=terms)
        return
    ours = there["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") == "bireme"
    if not ours or "deletionTimestamp" in there["metadata"]:
        log.warning("the CRD is not ours, and left as it is", extra={"crd": name})
        return
    version = there["metadata"]["resourceVersion"]
    crd = crd | {"metadata": there["metadata"] | crd["metadata"] | {"resourceVersion": version}}
    try:
        store.replace(CUSTOM_RESOURCE_DEFINITION, name, crd, moment, terms=terms)
    except StatusError as error:
        log.warning("the CRD can't be brought up to date", extra={"crd": name, "why": error.message})


def now() -> datetime:
    """The wall clock: the one place that asks it."""
    return datetime.now(UTC)  # noqa: TID251 - this is the shell


@contextlib.contextmanager
def _chores(backend: Backend) -> Iterator[None]:
    """What a server does by the clock."""
    work = keep_going("collector of Events", lambda: _forget_events(backend))
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield
    finally:
        task.cancel()


async def _forget_events(backend: Backend) -> None:
    while True:
        await asyncio.sleep(_EVENT_ROUND_SECONDS * random.uniform(0.9, 1.1))  # noqa: S311 - spreads load
        with contextlib.suppress(StatusError):
            await backend.write(lambda: forget_events(backend.store, now()))


def forget_events(store: Store, moment: datetime) -> int:
    """Remove Events that nobody wrote for an hour; return how many."""
    limit = moment - EVENTS_LIVE
    gone = 0
    for event in store.all(EVENT):
        if last_seen(event) < limit:
            metadata = event["metadata"]
            store.delete(EVENT, metadata["name"], moment, namespace=metadata["namespace"])
            gone += 1
    return gone


def last_seen(event: Object) -> datetime:
    """When an Event was last written, as far as its own times tell; they may be about the past."""
    metadata = event["metadata"]
    told = [metadata["creationTimestamp"], event.get("lastTimestamp"), event.get("eventTime")]
    told += [entry.get("time") for entry in metadata.get("managedFields") or ()]
    told.append((event.get("series") or {}).get("lastObservedTime"))
    return max(datetime.fromisoformat(each) for each in told if each)


def _check(options: Options) -> None:
    if (options.certificate is None) != (options.key is None):
        raise FolderError("a certificate needs its key: give --tls-cert and --tls-key together")
    if not is_loopback(options.host) and (options.certificate is None or options.token_file is None):
        raise FolderError(
            f"{options.host} is not on loopback: others could connect\n\n"
            "hint: to really offer it to them, give --tls-cert, --tls-key and --token-file yourself"
        )


def _ports(options: Options, folder: Folder) -> list[int]:
    """The one that is asked for; else that of the last time, so that a copied kubeconfig goes on to work."""
    if options.port:
        return [options.port]
    last = folder.last_port()
    return [last, 0] if last else [0]


def _tls(options: Options, folder: Folder) -> TlsFiles:
    if options.certificate is not None and options.key is not None:
        return TlsFiles(options.certificate, options.certificate, options.key)
    return folder.tls(now())


def _token(options: Options, folder: Folder) -> str:
    return read_token(options.token_file) if options.token_file is not None else folder.token()
