"""Serves reviews over HTTPS."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
from aiohttp import web

from bireme.control.metrics import Metrics
from bireme.control.webhooks.queues import QueueAccess
from bireme.control.webhooks.reviews import (
    MalformedReviewError,
    Object,
    Request,
    answer_default,
    answer_validate,
    read_review,
    refuse_depth,
)
from bireme.installation.webhooks import DEFAULT_PATH, QUEUE_PATH, VALIDATE_PATH
from bireme.kube.errors import KubeError
from bireme.server_header import omit_server_header

log = logging.getLogger("bireme.webhooks")

LARGEST_REVIEW: Final = 8 * 1024 * 1024
"""An object, which an API server takes up to 3 MiB, and what it was before."""
_MOST_WAITING: Final = 64
Answer = Callable[[Request], Awaitable[Object]]


class _Court:
    """Judges beside the event loop, which has a lease to renew: one at a time, and only so many wait."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reviews")
        self._waiting = 0

    async def judge(self, answer: Callable[[Request], Object], request: Request) -> Object:
        """Raises TimeoutError where too many wait."""
        if self._waiting >= _MOST_WAITING:
            raise TimeoutError("too many reviews at once")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, answer, request)
        finally:
            self._waiting -= 1


def build_app(
    access: QueueAccess, metrics: Metrics, is_draining: Callable[[], bool] = lambda: False
) -> web.Application:
    """One path for each question. While draining, connections are closed after their next answer."""

    court = _Court()

    async def default(request: Request) -> Object:
        return await court.judge(answer_default, request)

    async def validate(request: Request) -> Object:
        return await court.judge(answer_validate, request)

    app = web.Application(client_max_size=LARGEST_REVIEW)
    answers: dict[str, Answer] = {
        DEFAULT_PATH: default,
        VALIDATE_PATH: validate,
        QUEUE_PATH: access.answer,
    }

    async def close_while_draining(_request: web.Request, response: web.StreamResponse) -> None:
        # An API server keeps connections: its next call would meet a process that has ended.
        if is_draining():
            response.headers["Connection"] = "close"
            response.force_close()

    app.on_response_prepare.append(close_while_draining)
    app.add_routes([web.post(path, _handler(path, answer, metrics)) for path, answer in answers.items()])
    return app


def _handler(path: str, answer: Answer, metrics: Metrics) -> Callable[[web.Request], Awaitable[web.Response]]:
    name = path.strip("/")

    async def handle(http: web.Request) -> web.Response:
        body = await http.read()
        try:
            try:
                review = await answer(read_review(body))
            except RecursionError:
                review = refuse_depth(body)
        except MalformedReviewError as error:
            metrics.reviews.labels(name, "malformed").inc()
            return web.Response(status=400, text=f"{error}\n")
        except (KubeError, TimeoutError) as error:
            # No answer is an answer: whether the object gets in is then for the failure policy to say.
            log.warning("no answer to a review: %s", error, extra={"webhook": name})
            metrics.reviews.labels(name, "error").inc()
            return web.Response(status=503, text=f"{error}\n")
        result = "allowed" if review["response"]["allowed"] else "refused"
        metrics.reviews.labels(name, result).inc()
        return web.Response(body=msgspec.json.encode(review), content_type="application/json")

    return handle


async def serve(app: web.Application, context: ssl.SSLContext, host: str, port: int) -> web.AppRunner:
    """Serve until `stop`; the host `*` stands for all addresses."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    omit_server_header(runner.server)
    await web.TCPSite(runner, None if host == "*" else host, port, ssl_context=context).start()
    return runner


async def stop(runner: web.AppRunner) -> None:
    """Answer what was asked, then hang up: TLS would have us wait for the other side's goodbye."""
    connected = runner.server.connections if runner.server is not None else []
    transports = [each.transport for each in connected if each.transport is not None]
    await runner.cleanup()
    for transport in transports:
        transport.abort()
    await asyncio.sleep(0)
