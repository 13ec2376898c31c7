"""Makes the chosen API server ready, says which it is, and connects to it.

`target_choice` decides whom a command talks to. Here a daemon is started if it is this machine's and none
runs, and the first line on standard error names the target.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from bireme.cli.failures import INTERRUPTED, Failure, say
from bireme.cli.places import Asked, data_folder
from bireme.cli.target_choice import MEND, Choice, Cluster, read_choice
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
            return local_title(Path(self.daemon.kubeconfig).parent)
        assert self.config is not None
        return f"{self.config.server} ({self.config.source})"

    @property
    def is_cluster(self) -> bool:
        return self.daemon is None

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

    def open_http(self) -> FormTransport:
        """A way there that takes WebSockets, too."""
        from bireme.kube.transport import HttpTransport

        if self.config is not None:
            return HttpTransport(self.config)
        assert self.daemon is not None
        return HttpTransport(_load(self.daemon.kubeconfig, None))


class Connection(NamedTuple):
    """A way to the API server of a target, and the namespace that is meant where none is named."""

    target: Target
    transport: FormTransport
    client: Client
    namespace: str


def choose(asked: Asked) -> Target:
    """Return the API server that a command talks to, as `target_choice` decides, ready for use.

    Call it outside the event loop: Ctrl-C ends a daemon that is being started.
    """
    return prepare(read_choice(asked))


def prepare(choice: Choice) -> Target:
    """Say on standard error which target it is; start the daemon of this machine if none runs."""
    if isinstance(choice, Cluster):
        target = Target(config=cluster_config(choice))
        say(f"on {target.title}")
        return target
    folder = data_folder(choice.data_dir)
    daemon = found(folder)
    say_local(folder)
    return embedded(daemon or started(folder))


def say_local(folder: Path) -> None:
    """Say on standard error that a command is about this machine."""
    say(f"on {local_title(folder)}")


def local_title(folder: Path) -> str:
    return f"this machine ({folder})"


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


def cluster_config(choice: Cluster) -> "ClusterConfig":
    """Return how to reach a cluster. Raises Failure, which says so if the choice was a saved one."""
    try:
        return _load(choice.kubeconfig or None, choice.context)
    except Failure as error:
        if choice.saved is None:
            raise
        raise Failure(f"can't use the saved target, {choice.saved}: {error.message}", MEND) from error


def embedded(daemon: Daemon) -> Target:
    """Return the API server of a daemon. Raises Failure if its kubeconfig leads elsewhere.

    kubectl and cloud tools write into the file that $KUBECONFIG names, also a context of another cluster.
    """
    token = read_token(daemon)
    if token:
        return Target(daemon, token)
    config = _load(daemon.kubeconfig, None)
    if config.server != daemon.url:
        raise Failure(
            f"{daemon.kubeconfig} was changed: it leads to {config.server}, not to this machine's daemon",
            f"`kubectl config --kubeconfig {daemon.kubeconfig} use-context bireme`",
        )
    return Target(daemon, config=config)


def _load(kubeconfig: str | tuple[str, ...] | None, context: str | None) -> "ClusterConfig":
    from bireme.kube.config import load_config

    try:
        return load_config(kubeconfig=kubeconfig, context=context, environ=os.environ)
    except ConfigError as error:
        raise Failure(str(error), error.hint) from error


@contextlib.asynccontextmanager
async def connected(target: Target, namespace: str | None = None) -> AsyncIterator[Connection]:
    """Open a connection to the API server of a target."""
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
