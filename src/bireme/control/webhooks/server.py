"""Serves reviews over HTTPS, within budgets of connections, bytes, time and places.

    connection ──► body ──► place in the executor ──► decode and judge ──► answer
    256, 10 s      32 MiB,  64 wait, else 503          one thread
                   10 s, else 503

Anybody who reaches the port may send anything; only what the API server sends matters. Whatever is
refused for lack of room is answered 503 with Retry-After, and the API server then goes by the webhook's
failure policy.
"""

import asyncio
import functools
import logging
import ssl
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from bireme.control.listening import GOODBYE_SECONDS, IDLE_SECONDS, ConnectionLimit
from bireme.control.metrics import Metrics
from bireme.control.webhooks.bodies import BodyBudget, BodyTooLargeError, BrokenBodyError, OverloadedError
from bireme.control.webhooks.queues import QueueAccess, warn
from bireme.control.webhooks.reviews import (
    MalformedReviewError,
    Object,
    answer_default,
    answer_validate,
    judge,
)
from bireme.installation.webhooks import DEFAULT_PATH, QUEUE_PATH, VALIDATE_PATH
from bireme.kube.errors import KubeError
from bireme.server_header import omit_server_header

log = logging.getLogger("bireme.webhooks")

T = TypeVar("T")
MOST_WAITING: Final = 64
RETRY_SECONDS: Final = 1
_STACK_BYTES: Final = 32 * 1024 * 1024
"""Of address space: a decoder that skips 10,000 levels of JSON needs some megabytes."""
_QUIET_SECONDS: Final = 10.0
Body = bytes | bytearray
Answer = Callable[[Body], Awaitable[Object]]


class ReviewExecutor:
    """Runs what may take long in one thread, in the order of arrival, so that the event loop goes on."""

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._most_waiting = most_waiting
        self._waiting = 0
        usual = threading.stack_size(_STACK_BYTES)
        try:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="reviews")
            # The pool starts its thread with its first work, and threads keep the stack they begin with.
            self._thread.submit(int).result()
        finally:
            threading.stack_size(usual)

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Raises OverloadedError where too many wait."""
        if self._waiting >= self._most_waiting:
            raise OverloadedError("too many reviews at once")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Let the thread end after the work in hand."""
        self._thread.shutdown(wait=False, cancel_futures=True)


class WebhookServer:
    """One path for each question. While draining, connections are closed after their next answer."""

    def __init__(
        self,
        access: QueueAccess,
        metrics: Metrics,
        is_draining: Callable[[], bool] = lambda: False,
        *,
        connections: ConnectionLimit | None = None,
        bodies: BodyBudget | None = None,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._access = access
        self._metrics = metrics
        self._is_draining = is_draining
        self._connections = connections or ConnectionLimit()
        self._bodies = bodies or BodyBudget()
        self._executor = ReviewExecutor(most_waiting)
        self._broken = _Notes("the body of a review broke off")
        self._failed = _Notes("a review can't be judged")
        self._unanswered = _Notes("no answer to a review")
        app = web.Application(middlewares=[self._connections.middleware])
        app.on_response_prepare.append(self._prepare)
        answers: dict[str, Answer] = {
            DEFAULT_PATH: lambda body: self._executor.run(judge, answer_default, body),
            VALIDATE_PATH: lambda body: self._executor.run(judge, answer_validate, body),
            QUEUE_PATH: self._answer_queue,
        }
        app.add_routes([web.post(path, self._handler(path, answer)) for path, answer in answers.items()])
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=_server_log(),
            # A small body can't unpack into a large one.
            auto_decompress=False,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=GOODBYE_SECONDS,
        )

    async def start(self, context: ssl.SSLContext, host: str, port: int) -> None:
        """Serve until `stop`; the host `*` stands for all addresses. Raises OSError."""
        await self._runner.setup()
        omit_server_header(self._runner.server)
        await self._connections.listen(self._runner, host, port, context)

    async def stop(self) -> None:
        """Answer what was asked, then hang up without waiting for the other side to close TLS."""
        await self._connections.close()
        connected = self._runner.server.connections if self._runner.server is not None else []
        transports = [each.transport for each in connected if each.transport is not None]
        await self._runner.cleanup()
        for transport in transports:
            transport.abort()
        self._executor.close()
        await asyncio.sleep(0)

    async def _prepare(self, _request: web.Request, response: web.StreamResponse) -> None:
        # An API server keeps connections: its next call would meet a process that has ended.
        if self._is_draining():
            response.headers["Connection"] = "close"
            response.force_close()

    async def _answer_queue(self, body: Body) -> Object:
        """Ask the API server between two pieces of work; each of them may take long."""
        question = await self._executor.run(judge, self._access.question, body)
        if isinstance(question, dict):
            return question
        reply = await self._access.ask(question)
        answer = self._access.answer(question, reply)
        if answer is not None:
            return answer
        assert reply.queue is not None
        return await self._executor.run(judge, functools.partial(warn, reply.queue), body)

    def _handler(self, path: str, answer: Answer) -> Callable[[web.Request], Awaitable[web.Response]]:
        name = path.strip("/")

        def count(result: str) -> None:
            self._metrics.reviews.labels(name, result).inc()

        async def handle(http: web.Request) -> web.Response:
            try:
                async with self._bodies.read(http) as body:
                    with self._connections.working(http):
                        review = await answer(body)
            except BodyTooLargeError as error:
                count("malformed")
                return _hang_up(413, error)
            except BrokenBodyError as error:
                count("malformed")
                self._broken.note(error, http.remote)
                return _hang_up(408, error)
            except MalformedReviewError as error:
                count("malformed")
                return _hang_up(400, error)
            except (KubeError, OverloadedError) as error:
                # No answer is an answer: whether the object gets in is then for the failure policy to say.
                self._unanswered.note(error, http.remote)
                count("error")
                return _hang_up(503, error)
            except Exception as error:
                # Anybody can send an object that no API server would: the place is worth one traceback.
                self._failed.note(error, http.remote, trace=error)
                count("error")
                return _hang_up(500, error)
            count("allowed" if review["response"]["allowed"] else "refused")
            return web.Response(body=msgspec.json.encode(review), content_type="application/json")

        return handle


def _hang_up(status: int, error: Exception) -> web.Response:
    """An answer after which the connection is closed: what is left of its body is not worth reading."""
    headers = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else {}
    response = web.Response(status=status, text=f"{error}\n", headers=headers)
    response.force_close()
    return response


class _Notes:
    """Logs what clients do wrong: one line, and then one with their number at most every ten seconds."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self._unsaid = 0
        self._said_at = float("-inf")

    def note(self, error: Exception, remote: str | None, trace: Exception | None = None) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._said_at < _QUIET_SECONDS:
            self._unsaid += 1
            return
        more = f", and {self._unsaid} more since the last such line" if self._unsaid else ""
        message = "%s: %s%s"
        log.warning(message, self._sentence, error, more, exc_info=trace, extra={"remote": remote})
        self._unsaid, self._said_at = 0, now


def _server_log() -> logging.Logger:
    """aiohttp's log without a traceback for each client that speaks no HTTP."""
    found = logging.getLogger("bireme.webhooks.http")
    if not found.filters:
        found.addFilter(_is_no_clients_fault)
    return found


def _is_no_clients_fault(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
