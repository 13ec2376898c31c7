"""Which API server a command talks to: that of this machine's daemon, or a cluster's."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from bireme.cli.failures import INTERRUPTED, Failure, say
from bireme.cli.places import Asked
from bireme.kube.client import Client
from bireme.kube.errors import ApiError, ConfigError, KubeError
from bireme.kube.local import LocalTransport
from bireme.kube.protocol import FormTransport
from bireme.run.presence import Daemon, StartError, ensure, find, read_token

if TYPE_CHECKING:
    from bireme.kube.config import ClusterConfig
    from bireme.run.queues import Scheduler

T = TypeVar("T")
# Long enough to look at what happened, short enough not to be in the way.
IDLE_SECONDS = 30
FIELD_MANAGER = "bireme-cli"


class Target(NamedTuple):
    """An API server: that of a daemon, which is reached by its token, or that of a kubeconfig."""

    daemon: Daemon | None = None
    token: str = ""
    config: "ClusterConfig | None" = None

    @property
    def title(self) -> str:
        if self.daemon is not None:
            return f"this machine ({Path(self.daemon.kubeconfig).parent})"
        assert self.config is not None
        return f"{self.config.server} ({self.config.source})"

    @property
    def namespace(self) -> str:
        return "default" if self.config is None else self.config.namespace

    def open(self) -> FormTransport:
        """A way there; that of clusters takes long to import, and is left alone where it is not needed."""
        if self.config is None:
            assert self.daemon is not None
            host = self.daemon.url.rpartition("/")[2]
            return LocalTransport(Path(self.daemon.socket), host, self.token)
        from bireme.kube.transport import HttpTransport

        return HttpTransport(self.config)


class Connection(NamedTuple):
    """A way to the API server of a target, and the namespace that is meant where none is named."""

    target: Target
    transport: FormTransport
    client: Client
    namespace: str


def choose(asked: Asked) -> Target:
    """The running daemon, else the kubeconfig's cluster; what was asked for comes first."""
    if asked.is_cluster:
        return cluster(asked)
    daemon = found(asked.folder)
    if daemon is not None:
        return embedded(daemon)
    from bireme.kube.config import load_config

    try:
        return Target(config=load_config(environ=os.environ))
    except ConfigError as error:
        message = f"no daemon runs for {asked.folder}, and there is {error}"
        raise Failure(message, "start one with `bireme up`, or name a cluster with --context") from error


def choose_to_run(asked: Asked) -> Target:
    """As `choose`, but a daemon is started where no cluster was asked for."""
    if asked.is_cluster:
        return cluster(asked)
    return embedded(started(asked.folder))


def started(folder: Path, *, quiet: bool = False) -> Daemon:
    """The daemon of a folder; one that is started for this ends when it is idle."""
    try:
        daemon, is_new = ensure(folder, stays=False, arguments=("--idle-seconds", str(IDLE_SECONDS)))
    except StartError as error:
        raise Failure(str(error)) from error
    if is_new and not quiet:
        say(f"started a daemon; it ends when it is idle for {IDLE_SECONDS} s")
    return daemon


def found(folder: Path) -> Daemon | None:
    try:
        return find(folder)
    except StartError as error:
        raise Failure(str(error)) from error


def cluster(asked: Asked) -> Target:
    """The cluster that was asked for."""
    return Target(config=_load(asked.kubeconfig, asked.context))


def embedded(daemon: Daemon) -> Target:
    token = read_token(daemon)
    return Target(daemon, token) if token else Target(daemon, config=_load(daemon.kubeconfig, None))


def _load(kubeconfig: str | None, context: str | None) -> "ClusterConfig":
    from bireme.kube.config import load_config

    try:
        return load_config(kubeconfig=kubeconfig, context=context, environ=os.environ)
    except ConfigError as error:
        raise Failure(str(error), error.hint) from error


@contextlib.asynccontextmanager
async def connected(
    target: Target, namespace: str | None = None, *, quiet: bool = False
) -> AsyncIterator[Connection]:
    """Say where, and talk to it."""
    if not quiet:
        say(f"on {target.title}")
    transport = target.open()
    try:
        client = Client(transport, field_manager=FIELD_MANAGER)
        yield Connection(target, transport, client, namespace or target.namespace)
    finally:
        await transport.close()


async def scheduler_of(connection: Connection, home: str | None) -> "Scheduler":
    """The scheduler of queues that decides there."""
    from bireme.run.queues import EMBEDDED, find_scheduler

    if connection.target.daemon is not None:
        return EMBEDDED
    return await find_scheduler(connection.client, home)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a command's work. Whatever goes wrong with the API ends it with a sentence, never a traceback."""
    try:
        return asyncio.run(main)
    except ApiError as error:
        raise Failure(error.message or str(error), error.hint) from error
    except KubeError as error:
        raise Failure(str(error), error.hint) from error
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
