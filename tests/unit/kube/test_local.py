"""The way to an API server on this machine: HTTP over a Unix socket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from bireme.kube.client import Client
from bireme.kube.errors import Gone, NotFound, TransportError
from bireme.kube.local import LocalTransport
from bireme.kube.resources import PODS
from unit.kube.servers import Handler, Server


@contextlib.asynccontextmanager
async def served(path: Path, answer: Handler | None = None) -> AsyncIterator[tuple[Server, LocalTransport]]:
    server = Server(answer)
    runner = web.ServerRunner(web.Server(server.handle), shutdown_timeout=0)
    await runner.setup()
    await web.UnixSite(runner, str(path)).start()
    transport = LocalTransport(path, "127.0.0.1:1", "secret")
    try:
        yield server, transport
    finally:
        await transport.close()
        await runner.cleanup()


def test_a_request_arrives_as_it_was_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path / "s") as (server, transport):
            params = {"labelSelector": "a=b,c in (d)"}
            response = await transport.request(
                "PATCH", "/apis/x/y", params=params, body=b"{}", content_type="a/b", accept="c/d"
            )
            assert (response.status, response.body) == (200, b'{"a": 1}')
            (request,) = server.requests
            assert (request.method, request.path) == ("PATCH", "/apis/x/y")
            assert request.query["labelSelector"] == params["labelSelector"]
            sent = {
                name: request.headers[name] for name in ("Host", "Authorization", "Content-Type", "Accept")
            }
            assert list(sent.values()) == ["127.0.0.1:1", "Bearer secret", "a/b", "c/d"]
            assert server.bodies == [b"{}"]

    asyncio.run(main())


def test_connections_are_kept_one_for_each_call_at_a_time(tmp_path: Path) -> None:
    opened = 0

    async def answer(request: web.BaseRequest) -> web.Response:
        nonlocal opened
        assert request.transport is not None
        if not request.transport.get_extra_info("seen"):
            opened += 1
            request.transport._extra["seen"] = True  # type: ignore[attr-defined]
        return web.Response(text="x" * 100_000)

    async def main() -> None:
        async with served(tmp_path / "s", answer) as (_server, transport):
            for _ in range(5):
                assert len((await transport.request("GET", "/")).body) == 100_000
            await asyncio.gather(*(transport.request("GET", "/") for _ in range(3)))

    asyncio.run(main())
    assert opened == 3


@pytest.mark.parametrize("size", [1, 70_000, 3_000_000], ids=["small", "middle", "large"])
def test_a_stream_comes_chunk_by_chunk_until_it_ends(tmp_path: Path, size: int) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for letter in b"abc":
            await response.write(bytes([letter]) * size)
        await response.write_eof()
        return response

    async def main() -> bytes:
        async with (
            served(tmp_path / "s", answer) as (_server, transport),
            transport.stream("/", params={}) as chunks,
        ):
            return b"".join([chunk async for chunk in chunks])

    assert asyncio.run(main()) == b"a" * size + b"b" * size + b"c" * size


def test_a_refusal_is_the_exception_that_it_means(tmp_path: Path) -> None:
    async def refuse(request: web.BaseRequest) -> web.Response:
        code = 410 if "watch" in request.query else 404
        return web.json_response({"reason": "Expired"}, status=code, headers={"Retry-After": "1"})

    async def main() -> None:
        async with served(tmp_path / "s", refuse) as (_server, transport):
            with pytest.raises(NotFound) as caught:
                await Client(transport).get(PODS, "default", "a")
            assert caught.value.retry_after == 1
            with pytest.raises(Gone):
                async with transport.stream("/", params={"watch": "1"}):
                    pass

    asyncio.run(main())


def test_a_connection_that_breaks_is_an_error_of_the_transport(tmp_path: Path) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response

    async def main() -> None:
        async with served(tmp_path / "s", answer) as (_server, transport):
            with pytest.raises(TransportError, match="GET /a: the connection ended early") as caught:
                await transport.request("GET", "/a")
            assert caught.value.ambiguous

    asyncio.run(main())


def test_a_server_that_is_not_there_was_not_asked(tmp_path: Path) -> None:
    async def main() -> None:
        transport = LocalTransport(tmp_path / "none", "x", "y")
        with pytest.raises(TransportError, match=r"can't connect to .*none: No such file") as caught:
            await transport.request("GET", "/")
        assert not caught.value.ambiguous

    asyncio.run(main())


def test_an_answer_that_does_not_come_is_not_waited_for_longer_than_asked(tmp_path: Path) -> None:
    async def main() -> None:
        asked_enough = asyncio.Event()

        async def answer(_request: web.BaseRequest) -> web.Response:
            await asked_enough.wait()
            return web.Response()

        async with served(tmp_path / "s", answer) as (_server, transport):
            with pytest.raises(TransportError, match="no answer in time"):
                await transport.request("GET", "/", timeout_seconds=0.05)
            asked_enough.set()

    asyncio.run(main())


def test_a_long_path_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 20) / ("deeper" * 20)
    folder.mkdir(parents=True)

    async def main() -> None:
        async with served(tmp_path / "s") as (_server, _transport):
            (folder / "s").hardlink_to(tmp_path / "s")
            transport = LocalTransport(folder / "s", "x", "y")
            assert (await transport.request("GET", "/")).status == 200
            await transport.close()

    asyncio.run(main())
