"""What an API server reads of a connection before a request on it has shown the token."""

import asyncio

import pytest
from aiohttp import web

from bireme.apiserver.serving.connections import MOST_HEAD_BYTES, Connection

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n"
BODY = b"x" * 300_000


async def answer(_request: web.BaseRequest) -> web.StreamResponse:
    return web.Response()


async def is_closed_after(*pieces: bytes) -> bool:
    """Whether a connection that receives these pieces, before its handler runs, is given up."""
    connection = Connection(web.Server(answer), asyncio.get_running_loop())
    for piece in pieces:
        connection.data_received(piece)
    return connection.settled.done()


@pytest.mark.parametrize(
    "pieces",
    [
        (HEAD + BODY,),
        (HEAD, BODY),
        (HEAD[:-1], HEAD[-1:] + BODY),
        (HEAD[:-3], HEAD[-3:-2], HEAD[-2:] + BODY, BODY),
    ],
    ids=["in one piece", "in two", "end of the head cut", "end of the head cut twice"],
)
def test_a_large_body_that_comes_with_its_head_is_read(pieces: tuple[bytes, ...]) -> None:
    assert not asyncio.run(is_closed_after(*pieces))


@pytest.mark.parametrize("size", [1, 1000, 2 * MOST_HEAD_BYTES], ids=["bytes", "pieces", "one piece"])
def test_a_head_without_an_end_closes_its_connection(size: int) -> None:
    head = b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * (2 * MOST_HEAD_BYTES // 6)
    pieces = [head[start : start + size] for start in range(0, len(head), size)]
    assert asyncio.run(is_closed_after(*pieces))
