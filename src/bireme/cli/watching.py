"""Follows jobs until they have ended, or until the user has seen enough."""

import asyncio
import contextlib
import functools
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final

from bireme.cli.disk_notice import DiskNotice
from bireme.cli.durations import shown
from bireme.cli.endings import describe_end, exit_code
from bireme.cli.failures import INTERRUPTED, Failure
from bireme.cli.follow import JobFollower
from bireme.cli.interrupts import Interrupts, has_terminal
from bireme.cli.lookup import Found
from bireme.cli.screen import Screen
from bireme.cli.sending import kill_pods, remove
from bireme.cli.stuck_ranks import StuckRanks
from bireme.cli.targets import Connection
from bireme.run.jobs import phase

if TYPE_CHECKING:
    from bireme.cli.stdin import Forwarder

Object = dict[str, Any]

_TICK_SECONDS: Final = 1.0
_QUESTION: Final = "stop the job, or detach and let it run? [s]top / [d]etach / [c]ontinue: "


async def watch_jobs(
    connection: Connection,
    sending: Coroutine[Any, Any, list[Found]],
    *,
    with_stdin: bool = False,
    explain: Callable[[Object], Iterable[str]] = lambda _: (),
) -> int:
    """Send jobs, show their output and how they end; return the exit code.

    With `with_stdin` our standard input goes to the container that reads it. `explain` gives lines to show
    below the end of a job.

    Ctrl-C stops them, or leaves them alone, as the user says: from the first moment on, so that none is left
    behind that nobody knows of.
    """
    interrupts = Interrupts()
    with interrupts.caught():
        jobs = await interrupts.spare(sending)
        if not jobs:
            return 0
        stdin = None
        if with_stdin:
            from bireme.cli.stdin import Forwarder

            stdin = Forwarder(connection.target.open_http)
        return await _Session(connection, jobs, interrupts, Screen(), stdin, explain).run()


class _Session:
    def __init__(
        self,
        connection: Connection,
        jobs: list[Found],
        interrupts: Interrupts,
        screen: Screen,
        stdin: "Forwarder | None",
        explain: Callable[[Object], Iterable[str]],
    ) -> None:
        self._connection, self._jobs = connection, jobs
        self._interrupts, self._screen = interrupts, screen
        self._stdin, self._explain = stdin, explain
        self._began = asyncio.get_running_loop().time()
        self._disk = DiskNotice(connection.target.daemon, screen.say)
        self._stuck = [StuckRanks(job.object) for job in jobs]
        self._followers = [
            JobFollower(
                connection.client,
                job.resource,
                job.object,
                screen,
                title=job.name if len(jobs) > 1 else "",
                on_change=self._show_status,
                stdin=stdin,
                on_output=functools.partial(self._on_output, stuck),
            )
            for job, stuck in zip(jobs, self._stuck, strict=True)
        ]

    async def run(self) -> int:
        work = asyncio.ensure_future(self._follow_all())
        ticking = asyncio.create_task(self._tick())
        try:
            async with _daemon_lost(self._connection) as lost:
                return await self._until_over(work, lost)
        finally:
            for task in (work, ticking):
                task.cancel()
            await asyncio.gather(work, ticking, return_exceptions=True)
            if self._stdin is not None:
                await self._stdin.close()
            self._screen.show_status("")

    async def _until_over(self, work: asyncio.Future[None], lost: asyncio.Future[None]) -> int:
        lost_input = [self._stdin.lost] if self._stdin is not None else []
        while True:
            interrupt = asyncio.create_task(self._interrupts.next())
            try:
                awaited: list[asyncio.Future[Any]] = [work, lost, interrupt, *lost_input]
                await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    work.result()
                    return self._end()
                if lost.done() and self._unsent:
                    names = " ".join(job.name for job in self._jobs)
                    hint = f"the rest of it is lost: `bireme delete {names}`, and run it again"
                    raise Failure(f"the daemon has ended, and {self._unsent}", hint)
                if lost.done():
                    raise Failure("the daemon has ended", "`bireme up` starts it; the pods go on meanwhile")
                for input_ in lost_input:
                    if input_.done():
                        await self._stop()
                        raise Failure(input_.result())
                code = await self._interrupted(interrupt.result(), work, lost)
            finally:
                interrupt.cancel()
            if code is not None:
                return code

    async def _follow_all(self) -> None:
        tasks = [asyncio.create_task(follower.run()) for follower in self._followers]
        try:
            await asyncio.gather(*tasks)
        except OSError:
            if self._unsent:
                self._screen.say(f"nobody reads the output any more, and {self._unsent}")
                await self._stop()
            else:
                self._screen.say("nobody reads the output any more; the job goes on")
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self) -> int:
        """Tell how each job ended; the first failure's code counts."""
        codes = []
        self._screen.show_status("")
        for follower in self._followers:
            if follower.is_gone:
                self._screen.say(f"{follower.name}: deleted by somebody else")
                codes.append(1)
                continue
            for line in (*describe_end(follower.job), *self._explain(follower.job)):
                self._screen.say(line)
            codes.append(exit_code(follower.job))
        return next((code for code in codes if code), 0)

    @property
    def _unsent(self) -> str:
        return "" if self._stdin is None else self._stdin.unsent

    def _on_output(self, stuck: StuckRanks, lines: list[bytes]) -> None:
        stuck.feed(lines, asyncio.get_running_loop().time())

    # ---- the status line

    def _show_status(self) -> None:
        if all(follower.is_gone for follower in self._followers):
            return
        took = asyncio.get_running_loop().time() - self._began
        parts = []
        for follower in self._followers:
            running, pods = follower.count_running()
            parts.append(f"{follower.name} {phase(follower.job)} {running}/{pods}")
        self._screen.show_status(f"{' · '.join(parts)} · {shown_seconds(took)}")

    async def _tick(self) -> None:
        while True:
            self._disk.look()
            for stuck in self._stuck:
                if hint := stuck.hint(asyncio.get_running_loop().time()):
                    self._screen.say(hint)
            self._show_status()
            await asyncio.sleep(_TICK_SECONDS)

    # ---- Ctrl-C

    async def _interrupted(self, signum: int, *over: asyncio.Future[None]) -> int | None:
        """Do what the user wants; None to go on, also where it is over before there is an answer."""
        if signum == signal.SIGINT and has_terminal():
            answer = await self._ask(*over)
            if answer == "c" or any(future.done() for future in over):
                return None
            if answer == "d" and self._unsent:
                self._screen.say(f"can't detach: {self._unsent}")
                return None
            if answer == "d":
                for job in self._jobs:
                    self._screen.say(f"detached: `bireme logs -f {job.name}` shows its output")
                return 0
        await self._stop()
        return INTERRUPTED if signum == signal.SIGINT else 128 + signum

    async def _ask(self, *over: asyncio.Future[None]) -> str | None:
        """Which of the three the user wants, by its first letter; None if there is no answer."""
        while True:
            self._screen.ask(_QUESTION)
            try:
                with self._stdin.paused() if self._stdin is not None else contextlib.nullcontext():
                    answer = await self._interrupts.answer(*over)
            finally:
                self._screen.ask("")
            if answer is None or answer[:1] in ("s", "d", "c"):
                return answer and answer[:1]

    async def _stop(self) -> None:
        """Delete the jobs; at once if another Ctrl-C comes before they have ended."""
        names = ", ".join(job.name for job in self._jobs)
        self._screen.say(f"stopping {names} (Ctrl-C again: at once)")
        stopping = asyncio.create_task(self._delete_all())
        again = asyncio.create_task(self._interrupts.next())
        await asyncio.wait((stopping, again), return_when=asyncio.FIRST_COMPLETED)
        if again.done():
            await self._kill_pods()
        again.cancel()
        await stopping
        self._screen.say(f"stopped {names}")

    async def _delete_all(self) -> None:
        client = self._connection.client
        await asyncio.gather(
            *(
                remove(client, job.resource, job.object["metadata"]["namespace"], job.object)
                for job in self._jobs
            )
        )

    async def _kill_pods(self) -> None:
        for job in self._jobs:
            metadata = job.object["metadata"]
            await kill_pods(self._connection.client, metadata["namespace"], metadata["uid"])


def shown_seconds(seconds: float) -> str:
    from datetime import timedelta

    return shown(timedelta(seconds=seconds))


@contextlib.asynccontextmanager
async def _daemon_lost(connection: Connection) -> AsyncIterator[asyncio.Future[None]]:
    """A future that is done when the daemon has ended; never for a cluster."""
    loop = asyncio.get_running_loop()
    lost: asyncio.Future[None] = loop.create_future()
    daemon = connection.target.daemon
    if daemon is None:
        yield lost
        return
    try:
        descriptor = os.pidfd_open(daemon.pid)
    except ProcessLookupError:
        lost.set_result(None)
        yield lost
        return
    loop.add_reader(descriptor, lambda: None if lost.done() else lost.set_result(None))
    try:
        yield lost
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
