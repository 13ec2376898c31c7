"""When the owner last asked for anything."""

import asyncio

from aiohttp import web

from bireme.apiserver.reviews import User
from bireme.apiserver.serving.handler import Handler


class CountingHandler(Handler):
    """A handler that knows whether a request of the owner is being served.

    A watch is served for as long as it lasts. Health checks and requests without the token do not count:
    every user of the machine can send them, and they must not keep an idle daemon alive.
    """

    _open = 0
    _last_seconds: float | None = None

    async def _answer(self, request: web.BaseRequest, user: User) -> web.StreamResponse:
        self._open += 1
        try:
            return await super()._answer(request, user)
        finally:
            self._open -= 1
            self._last_seconds = asyncio.get_running_loop().time()

    def quiet_seconds(self) -> float:
        """For how long no request was served, counted from the first call; 0 while one is."""
        now = asyncio.get_running_loop().time()
        if self._open or self._last_seconds is None:
            self._last_seconds = now
        return now - self._last_seconds
