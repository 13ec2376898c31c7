"""The node's end of logs, exec and attach."""

import asyncio
import contextlib
import os
import pty
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, Final

from bireme.apiserver import errors
from bireme.apiserver.serving.gateway import ExecOptions, LogOptions, Session
from bireme.node import shims
from bireme.node.agent import Agent
from bireme.node.keeper import Keeper
from bireme.node.last_words import write_message
from bireme.node.output import Wanted, read
from bireme.node.seen import Object
from bireme.node.shims import ShimError
from bireme.node.times import read_time
from bireme.run.streams import feed, pump, resize

_SYNC_SECONDS: Final = 10.0
"""How long a request waits for an agent that has just started."""
_MOST_SINCE_SECONDS: Final = 10**9
"""Decades: no pod is as old, and a number that a client chose can't leave the calendar."""


class NodeGateway:
    """A bireme.apiserver.serving.gateway.Gateway over an agent, once there is one."""

    def __init__(self) -> None:
        self._agent: Agent | None = None

    def attach(self, agent: Agent) -> None:
        self._agent = agent

    @contextlib.asynccontextmanager
    async def logs(self, pod: Object, options: LogOptions) -> AsyncIterator[AsyncIterator[bytes]]:
        keeper = await self._keeper(pod)
        attempt = keeper.attempt_of(options.container)
        if options.previous and attempt is not None:
            attempt = attempt - 1 if attempt > 0 else None
        if attempt is None:
            raise errors.bad_request(_why_no_output(pod, options))
        path, opened = _open(keeper, options.container, attempt)
        follows = options.follow and not options.previous
        is_over = (lambda: not keeper.runs(options.container)) if follows else None
        with keeper.changes() as changed:
            output = read(path, self._wanted(options), is_over, changed, opened)
            async with contextlib.aclosing(output) as chunks:  # type: ignore[type-var]
                yield chunks

    async def run(self, pod: Object, options: ExecOptions, session: Session) -> int:
        keeper = await self._keeper(pod)
        if not keeper.runs(options.container):
            name = pod["metadata"]["name"]
            raise errors.bad_request(f'container "{options.container}" in pod "{name}" is not running')
        if not options.command:
            return await _attach(keeper, options, session)
        try:
            if options.tty:
                return await _with_terminal(keeper, options, session)
            return await _with_pipes(keeper, options, session)
        except ShimError as error:
            raise errors.bad_request(str(error)) from error

    def departed(self, namespace: str, name: str) -> Object | None:
        return None if self._agent is None else self._agent.departed(namespace, name)

    async def _keeper(self, pod: Object) -> Keeper:
        """Return who keeps a pod. An agent that has just started first finds the pods that are there."""
        agent, uid = self._agent, pod["metadata"]["uid"]
        if agent is not None and agent.keeper(uid) is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SYNC_SECONDS):
                    await agent.wait_synced()
        keeper = None if agent is None else agent.keeper(uid)
        if keeper is None:
            raise _nothing_left(pod["metadata"]["name"])
        return keeper

    def _wanted(self, options: LogOptions) -> Wanted:
        assert self._agent is not None
        since = None
        if options.since_seconds is not None:
            since = self._agent.now() - timedelta(seconds=min(options.since_seconds, _MOST_SINCE_SECONDS))
        elif options.since_time:
            since = read_time(options.since_time)
        return Wanted(options.tail_lines, since, options.timestamps, options.limit_bytes)


def _open(keeper: Keeper, container: str, attempt: int) -> tuple[Path, BinaryIO]:
    try:
        return keeper.open_output(container, attempt)
    except FileNotFoundError:
        raise _nothing_left(keeper.name) from None


def _nothing_left(name: str) -> errors.StatusError:
    return errors.bad_request(f"pod {name} has left no output on this node")


def _why_no_output(pod: Object, options: LogOptions) -> str:
    name = pod["metadata"]["name"]
    if options.previous:
        return f'previous terminated container "{options.container}" in pod "{name}" not found'
    return f'container "{options.container}" in pod "{name}" is waiting to start'


async def _attach(keeper: Keeper, options: ExecOptions, session: Session) -> int:
    """Pass on what a container writes from now on, until it ends, and hand in what it is to read."""
    wants_output = options.stdout or options.stderr
    work = _hear(keeper, options.container, session) if wants_output else _ended(keeper, options.container)
    hearing = asyncio.create_task(work)
    # It has found the end of the output by now: an answer to what is handed in comes after it.
    await asyncio.sleep(0)
    talking = asyncio.create_task(_talk(keeper, options, session))
    try:
        await hearing
    finally:
        for task in (hearing, talking):
            task.cancel()
        await asyncio.gather(hearing, talking, return_exceptions=True)
    return keeper.exit_code(options.container)


async def _hear(keeper: Keeper, container: str, session: Session) -> None:
    attempt = keeper.attempt_of(container)
    assert attempt is not None, "it runs"
    path, opened = _open(keeper, container, attempt)
    with keeper.changes() as changed:
        over, wanted = (lambda: not keeper.runs(container)), Wanted(tail_lines=0)
        async for chunk in read(path, wanted, over, changed, opened):
            await session.write(1, chunk)


async def _ended(keeper: Keeper, container: str) -> None:
    """Wait until a container has ended."""
    with keeper.changes() as changed:
        while keeper.runs(container):
            await changed.wait()
            changed.clear()


async def _talk(keeper: Keeper, options: ExecOptions, session: Session) -> None:
    """Hand in what a client sends, where the container reads it, and tell its terminal of the client's size.

    One whose input has ended before is only listened to.
    """
    spec = keeper.container_spec(options.container)
    reads, has_terminal = options.stdin and spec.get("stdin"), options.tty and spec.get("tty")
    if not reads and not has_terminal:
        return
    try:
        descriptor = await asyncio.to_thread(shims.open_input, keeper.folder, options.container)
    except ShimError:
        return
    sizes = asyncio.create_task(resize(session, os.dup(descriptor))) if has_terminal else None
    try:
        await feed(session, descriptor, wanted=bool(reads))
        if sizes is not None:
            await sizes
    finally:
        if sizes is not None:
            sizes.cancel()
        if reads and spec.get("stdinOnce"):
            # Shielded: a client that leaves cancels this call, and the input must end all the same.
            await asyncio.shield(asyncio.to_thread(_end_input, keeper, options, session))


def _end_input(keeper: Keeper, options: ExecOptions, session: Session) -> None:
    """End the input of a container, or fail the container if its client is gone without having said so."""
    if session.input_closed or not options.fail_on_loss:
        shims.close_input(keeper.folder, options.container)
    elif keeper.runs(options.container):
        message = "the client that sent standard input is gone, and has not sent all of it"
        write_message(keeper.message_file(options.container), f"{message}\n")
        shims.kill_container(keeper.folder, options.container)


async def _with_pipes(keeper: Keeper, options: ExecOptions, session: Session) -> int:
    stdin, input_ = os.pipe()
    out, stdout = os.pipe()
    err, stderr = os.pipe()
    try:
        pumps = [asyncio.create_task(pump(out, session, 1)), asyncio.create_task(pump(err, session, 2))]
        feeding = asyncio.create_task(feed(session, input_, wanted=options.stdin))
        running = asyncio.create_task(
            shims.run_in(keeper.folder, options.container, list(options.command), (stdin, stdout, stderr))
        )
        await asyncio.sleep(0)
        for descriptor in (stdin, stdout, stderr):
            os.close(descriptor)
        try:
            code = await running
            await asyncio.gather(*pumps)
            return code
        finally:
            for task in (*pumps, feeding):
                task.cancel()
            await asyncio.gather(*pumps, feeding, return_exceptions=True)
    finally:
        for descriptor in (out, err):
            os.close(descriptor)


async def _with_terminal(keeper: Keeper, options: ExecOptions, session: Session) -> int:
    ours, theirs = pty.openpty()
    tasks = [
        asyncio.create_task(pump(ours, session, 1)),
        asyncio.create_task(feed(session, os.dup(ours), wanted=options.stdin)),
        asyncio.create_task(resize(session, os.dup(ours))),
    ]
    try:
        running = asyncio.create_task(
            shims.run_in(keeper.folder, options.container, list(options.command), (theirs, theirs, theirs))
        )
        await asyncio.sleep(0)
        os.close(theirs)
        code = await running
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await tasks[0]
        return code
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        os.close(ours)
