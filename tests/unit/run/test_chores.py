"""What the daemon does by the clock, against a server in memory."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bireme.apiserver.backend import Backend
from bireme.apiserver.inside import InsideTransport
from bireme.cli.adhoc import build_generic_job
from bireme.kube.client import Client
from bireme.kube.resources import PODS, resource_for
from bireme.run import chores
from bireme.run.apiserver import furnish, now, open_backend

GENERIC_JOBS = resource_for("GenericJob")


class Server:
    """A server in memory, and a client of it."""

    def __init__(self, backend: Backend) -> None:
        self.client = Client(InsideTransport(backend))

    async def add_job(self, name: str, **status: Any) -> None:
        await self.client.create(GENERIC_JOBS, "default", build_generic_job(name, 1, ["true"]))
        body = {"status": status}
        await self.client.patch(GENERIC_JOBS, "default", name, body, subresource="status")

    async def add_pod(self, name: str, **metadata: Any) -> None:
        body = {"metadata": {"name": name, **metadata}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
        await self.client.create(PODS, "default", body)

    async def names(self) -> list[str]:
        return [job["metadata"]["name"] for _, job in await chores.list_jobs(self.client)]


def play(story: Any) -> None:
    async def main() -> None:
        backend = open_backend(None)
        await backend.write(lambda: furnish(backend.store, now()))
        try:
            await story(Server(backend))
        finally:
            await backend.close()

    asyncio.run(main())


async def is_at_it(chore: Coroutine[Any, Any, None]) -> None:
    """A chore does not end by itself."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await chore


def test_only_jobs_that_ended_long_ago_are_forgotten() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)

    async def story(server: Server) -> None:
        await server.add_job("old", phase="Failed", completionTime="2026-01-01T22:59:59Z")
        await server.add_job("new", phase="Succeeded", completionTime="2026-01-01T23:30:00Z")
        await server.add_job("running", phase="Running")
        chore = chores.forget_finished(server.client, timedelta(hours=1), lambda: moment)
        work = asyncio.create_task(chore)
        async with asyncio.timeout(90):
            while "old" in await server.names():
                await asyncio.sleep(0)
        work.cancel()
        assert sorted(await server.names()) == ["new", "running"]

    play(story)


def test_an_unfinished_job_or_a_pod_of_nobody_is_work() -> None:
    async def story(server: Server) -> None:
        assert not await chores.has_work(server.client)
        await server.add_job("ended", phase="Succeeded")
        assert not await chores.has_work(server.client)
        await server.add_job("new")
        assert await chores.has_work(server.client)
        await server.client.delete(GENERIC_JOBS, "default", "new")
        await server.add_pod("by-hand")
        assert await chores.has_work(server.client)

    play(story)


def test_idle_is_when_nobody_was_served_for_long_enough() -> None:
    async def story(server: Server) -> None:
        answers = iter([0.0, 0.05, 0.09, 0.1])
        async with asyncio.timeout(90):
            await chores.wait_until_idle(server.client, lambda: next(answers), 0.1)
        assert next(answers, None) is None

    play(story)


def test_a_daemon_with_work_is_not_idle() -> None:
    async def story(server: Server) -> None:
        await server.add_job("running", phase="Running")
        await is_at_it(chores.wait_until_idle(server.client, lambda: 100.0, 0.01))

    play(story)


def test_pods_that_run_are_stopped_and_waited_for() -> None:
    async def story(server: Server) -> None:
        await server.add_pod("first")
        await server.add_pod("second")
        stopped = await chores.stop_pods(server.client, 0)
        assert [pod["metadata"]["name"] for pod in stopped] == ["first", "second"]
        async with asyncio.timeout(90):
            await chores.wait_stopped(server.client)

    play(story)
