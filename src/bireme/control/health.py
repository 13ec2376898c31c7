"""Health, readiness and metrics over HTTP."""

from collections.abc import Callable, Sequence

from aiohttp import web

from bireme.control.metrics import Metrics
from bireme.server_header import omit_server_header

METRICS_TYPE = "text/plain; version=0.0.4"


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


async def serve(app: web.Application, host: str, port: int) -> web.AppRunner:
    """Serve until the returned runner is cleaned up; the host `*` stands for all addresses."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    omit_server_header(runner.server)
    # Not 0.0.0.0: a cluster may have the sixth version of IP alone.
    await web.TCPSite(runner, None if host == "*" else host, port).start()
    return runner
