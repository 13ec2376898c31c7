"""Health, readiness and metrics over HTTP."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from aiohttp import web

from bireme.control.listening import ConnectionLimit
from bireme.control.metrics import Metrics
from bireme.server_header import omit_server_header

METRICS_TYPE: Final = "text/plain; version=0.0.4"
MOST_CONNECTIONS: Final = 64
"""Any pod may reach this port; a kubelet and a few scrapers need a handful."""


def build_app(metrics: Metrics, not_ready: Callable[[], Sequence[str]]) -> web.Application:
    """`/healthz` says that the process answers, `/readyz` that it is in step, `/metrics` what it counted."""

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        missing = not_ready()
        text = "".join(f"not in step: {line}\n" for line in missing) or "ok\n"
        return web.Response(text=text, status=503 if missing else 200)

    async def show_metrics(_request: web.Request) -> web.Response:
        return web.Response(body=metrics.text(), headers={"Content-Type": METRICS_TYPE})

    app = web.Application()
    app.add_routes(
        [web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", show_metrics)]
    )
    return app


class HealthServer(NamedTuple):
    """What `stop` ends."""

    runner: web.AppRunner
    connections: ConnectionLimit


async def serve(app: web.Application, host: str, port: int) -> HealthServer:
    """Serve until `stop`; the host `*` stands for all addresses, as a cluster may have IPv6 alone."""
    connections = ConnectionLimit(MOST_CONNECTIONS)
    app.middlewares.append(connections.middleware)
    runner = web.AppRunner(app, access_log=None, auto_decompress=False)
    await runner.setup()
    omit_server_header(runner.server)
    await connections.listen(runner, host, port)
    return HealthServer(runner, connections)


async def stop(server: HealthServer) -> None:
    await server.connections.close()
    await server.runner.cleanup()
