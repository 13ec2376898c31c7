"""The embedded mode: API server, controller, scheduler and node in one process, on this machine."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bireme.api.kinds import QUEUE
from bireme.api.scheduler import DEFAULT_QUEUE
from bireme.apiserver.inside import InsideTransport
from bireme.control.controller import Controller
from bireme.kube.client import Client
from bireme.kube.errors import AlreadyExists
from bireme.kube.resources import resource_of
from bireme.node.agent import Agent
from bireme.node.binder import Binder
from bireme.node.cgroups import Limits, settle
from bireme.node.drivers import PROCESS
from bireme.node.machine import Machine, caller_environment, look
from bireme.planning import Settings
from bireme.planning.observed import EMBEDDED
from bireme.run.apiserver import Options, Running, now, serving
from bireme.run.gateway import NodeGateway
from bireme.run.parts import running as keep_running

DEFAULT: Final = {
    "apiVersion": QUEUE.api_version,
    "kind": QUEUE.kind,
    "metadata": {"name": DEFAULT_QUEUE},
    "spec": {"namespaceSelector": {}},
}
"""The queue that everybody may use; whoever deletes it finds it again after the next start."""


class Embedded(NamedTuple):
    """The embedded mode at work."""

    server: Running
    machine: Machine
    driver: str = PROCESS
    limits: tuple[str, ...] = ()
    """What pods can be held to: memory, cpu."""


@contextlib.asynccontextmanager
async def embedded(
    options: Options,
    *,
    directory: Path | None = None,
    machine: Machine | None = None,
    driver: str = PROCESS,
) -> AsyncIterator[Embedded]:
    """Run jobs until the context ends; pods that run then go on, and are found again."""
    settle()
    machine = machine or look()
    gateway = NodeGateway()
    async with serving(options, gateway, stand_ins=True) as running:
        client = Client(InsideTransport(running.backend, "bireme"))

        def begin_agent() -> Coroutine[Any, Any, None]:
            agent = Agent(
                client,
                machine,
                options.folder / "node",
                now=now,
                environment=caller_environment(os.environ),
                directory=directory or Path.cwd(),
                driver=driver,
            )
            gateway.attach(agent)
            return agent.run()

        queued = asyncio.Event()
        settings = Settings(profile=msgspec.structs.replace(EMBEDDED, shared_cpus=machine.cpus))
        parts = {
            "node agent": begin_agent,
            "scheduler": lambda: Binder(client, machine, queued).run(),
            "scheduler of queues": lambda: _schedule_queues(client, queued),
            "controller": lambda: Controller(client, settings).run(),
        }
        try:
            async with keep_running(parts):
                yield Embedded(running, machine, driver, Limits().offered)
        finally:
            await client.close()


async def _schedule_queues(client: Client, queued: asyncio.Event) -> None:
    """Schedule what waits in queues, once something does: few need it, and it brings numpy with it."""
    with contextlib.suppress(AlreadyExists):
        await client.create(resource_of(QUEUE), None, DEFAULT)
    await queued.wait()
    from bireme.control.scheduler import Scheduler
    from bireme.scheduling import Policy

    await Scheduler(client, Policy(permissions=False), with_volumes=False).run()
