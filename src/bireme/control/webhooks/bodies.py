"""Reads the bodies of reviews within a budget of bytes and time.

Bytes are counted as they arrive, not by Content-Length: who announces much and sends nothing takes no
place. They are given back when the review has been answered, so bodies that wait to be judged count, too.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

MEBIBYTE: Final = 1024 * 1024
LARGEST_BODY: Final = 6 * MEBIBYTE + 256 * 1024
"""An object and what it was before, each as large as an API server takes it, and what stands around them."""
MOST_IN_FLIGHT: Final = 32 * MEBIBYTE
BODY_SECONDS: Final = 10.0


class BodyTooLargeError(Exception):
    """One body is larger than any review."""


class OverloadedError(Exception):
    """All bytes are taken, or all places: the client may try again."""


class BrokenBodyError(Exception):
    """The client went away, or took too long, before the end of the body."""


class BodyBudget:
    """The bytes of all bodies that are being read or judged."""

    def __init__(
        self,
        largest: int = LARGEST_BODY,
        most: int = MOST_IN_FLIGHT,
        seconds: float = BODY_SECONDS,
    ) -> None:
        self._largest = largest
        self._most = self._free = most
        self._seconds = seconds

    @property
    def in_flight(self) -> int:
        """Bytes of bodies that are being read or judged."""
        return self._most - self._free

    @contextlib.asynccontextmanager
    async def read(self, request: web.Request) -> AsyncIterator[bytearray]:
        """The body of a request, which counts until the block ends.

        Raises BodyTooLargeError, OverloadedError and BrokenBodyError.
        """
        body = bytearray()
        try:
            await self._fill(body, request)
            yield body
        finally:
            self._free += len(body)

    async def _fill(self, body: bytearray, request: web.Request) -> None:
        if (request.content_length or 0) > self._largest:
            raise BodyTooLargeError(f"a review has at most {self._largest} bytes")
        try:
            async with asyncio.timeout(self._seconds):
                while chunk := await request.content.readany():
                    if len(body) + len(chunk) > self._largest:
                        raise BodyTooLargeError(f"a review has at most {self._largest} bytes")
                    if len(chunk) > self._free:
                        raise OverloadedError("too many bytes of reviews at once")
                    self._free -= len(chunk)
                    body += chunk
        except TimeoutError:
            raise BrokenBodyError(f"no whole body within {self._seconds:g} s") from None
        except (OSError, web.RequestPayloadError) as error:
            raise BrokenBodyError(str(error) or "the connection was lost") from None
