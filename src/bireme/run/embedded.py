"""The embedded mode: API server, controller, scheduler and node in one process, on this machine."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from bireme.apiserver.inside import InsideTransport
from bireme.control.controller import Controller
from bireme.kube.client import Client
from bireme.node.agent import Agent
from bireme.node.binder import Binder
from bireme.node.machine import Machine, caller_environment, look
from bireme.planning import Settings
from bireme.planning.observed import EMBEDDED
from bireme.run.apiserver import Options, Running, now, serving
from bireme.run.gateway import NodeGateway


class Embedded(NamedTuple):
    """The embedded mode at work."""

    server: Running
    machine: Machine


@contextlib.asynccontextmanager
async def embedded(
    options: Options, *, directory: Path | None = None, machine: Machine | None = None
) -> AsyncIterator[Embedded]:
    """Run jobs until the context ends; pods that run then go on, and are found again."""
    machine = machine or look()
    gateway = NodeGateway()
    async with serving(options, gateway) as running:
        client = Client(InsideTransport(running.backend, "bireme"))
        agent = Agent(
            client,
            machine,
            options.folder / "node",
            now=now,
            environment=caller_environment(os.environ),
            directory=directory or Path.cwd(),
        )
        gateway.attach(agent)
        controller = Controller(client, Settings(profile=EMBEDDED))
        work = [asyncio.create_task(part.run()) for part in (agent, Binder(client, machine), controller)]
        try:
            yield Embedded(running, machine)
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await client.close()
