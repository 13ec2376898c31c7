"""When clients last asked for anything."""

import asyncio

from aiohttp import web

from bireme.apiserver.serving.handler import Handler


class CountingHandler(Handler):
    """A handler that knows whether somebody is being served. A watch is served for as long as it lasts."""

    _open = 0
    _last_seconds: float | None = None

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self._open += 1
        try:
            return await super().__call__(request)
        finally:
            self._open -= 1
            self._last_seconds = asyncio.get_running_loop().time()

    def quiet_seconds(self) -> float:
        """For how long nobody was served, from the first such question on; 0 while somebody is."""
        now = asyncio.get_running_loop().time()
        if self._open or self._last_seconds is None:
            self._last_seconds = now
        return now - self._last_seconds
