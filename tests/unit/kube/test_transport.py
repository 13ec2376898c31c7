"""The HTTP transport: requests, streams, proxies, and what goes wrong on the way."""

import asyncio
import socket

import pytest
from aiohttp import web

from bireme.kube.client import Client
from bireme.kube.config import ClusterConfig
from bireme.kube.errors import Gone, NotFound, TransportError
from bireme.kube.resources import PODS
from bireme.kube.transport import HttpTransport
from unit.kube.servers import Server, connected

# ---- requests


def test_a_request_arrives_as_it_was_sent() -> None:
    async def main() -> None:
        async with Server().served() as server, connected(server) as transport:
            response = await transport.request(
                "PATCH",
                "/apis/x/y",
                params={"labelSelector": "a=b,c in (d)"},
                body=b"{}",
                content_type="application/json-patch+json",
            )
            assert (response.status, response.body) == (200, b'{"a": 1}')
            (request,) = server.requests
            assert (request.method, request.path) == ("PATCH", "/apis/x/y")
            assert request.query["labelSelector"] == "a=b,c in (d)"
            assert request.headers["Content-Type"] == "application/json-patch+json"
            assert request.headers["User-Agent"].startswith("bireme/")
            assert server.bodies == [b"{}"]

    asyncio.run(main())


def test_connections_are_kept() -> None:
    async def main() -> None:
        async with Server().served() as server, connected(server) as transport:
            for _ in range(5):
                await transport.request("GET", "/")
            assert len(server.peers) == 1

    asyncio.run(main())


def test_calls_beyond_the_limit_wait_for_their_turn() -> None:
    async def main() -> None:
        busy, most = 0, 0

        async def answer(_request: web.BaseRequest) -> web.Response:
            nonlocal busy, most
            busy += 1
            most = max(most, busy)
            await asyncio.sleep(0)
            busy -= 1
            return web.Response()

        async with Server(answer).served() as server:
            transport = HttpTransport(ClusterConfig(server=server.url), most_calls=2)
            await asyncio.gather(*(transport.request("GET", "/") for _ in range(20)))
            await transport.close()
            assert len(server.requests) == 20
            assert len(server.peers) == most == 2

    asyncio.run(main())


def test_an_answer_of_any_status_is_an_answer() -> None:
    async def refuse(_request: web.BaseRequest) -> web.Response:
        return web.json_response({"reason": "NotFound"}, status=404, headers={"Retry-After": "1"})

    async def main() -> None:
        async with Server(refuse).served() as server, connected(server) as transport:
            response = await transport.request("GET", "/")
            assert response.status == 404
            with pytest.raises(NotFound) as caught:
                await Client(transport).get(PODS, "default", "a")
            assert caught.value.retry_after == 1

    asyncio.run(main())


def test_redirects_are_not_followed() -> None:
    async def redirect(_request: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://elsewhere.example"})

    async def main() -> None:
        async with Server(redirect).served() as server, connected(server) as transport:
            assert (await transport.request("GET", "/")).status == 302

    asyncio.run(main())


def test_a_prefix_of_the_server_s_address_is_kept() -> None:
    async def main() -> None:
        async with (
            Server().served() as server,
            connected(server, server=f"{server.url}/k8s/c-1") as transport,
        ):
            await transport.request("GET", "/api/v1/pods")
            assert server.requests[0].path == "/k8s/c-1/api/v1/pods"

    asyncio.run(main())


# ---- what goes wrong on the way


def test_a_refused_connection_has_certainly_done_nothing() -> None:
    async def main() -> None:
        server = Server()
        async with server.served():
            pass
        async with connected(server) as transport:
            with pytest.raises(TransportError, match=r"GET /x: .*Connect call failed") as caught:
                await transport.request("GET", "/x")
            assert not caught.value.ambiguous

    asyncio.run(main())


def test_a_connection_that_is_lost_may_have_done_something() -> None:
    async def hang_up(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async def main() -> None:
        async with Server(hang_up).served() as server, connected(server) as transport:
            with pytest.raises(TransportError) as caught:
                await transport.request("POST", "/x", body=b"{}")
            assert caught.value.ambiguous

    asyncio.run(main())


def test_an_answer_that_does_not_come_in_time_is_an_error() -> None:
    async def main() -> None:
        late = asyncio.Event()

        async def answer(_request: web.BaseRequest) -> web.Response:
            await late.wait()
            return web.Response()

        async with Server(answer).served() as server, connected(server) as transport:
            with pytest.raises(TransportError, match="no answer in time") as caught:
                await transport.request("GET", "/x", timeout_seconds=0.05)
            assert caught.value.ambiguous
            late.set()

    asyncio.run(main())


def test_a_cancellation_that_comes_with_the_end_of_patience_is_not_lost() -> None:
    async def main() -> list[str]:
        asked, late = asyncio.Event(), asyncio.Event()

        async def answer(_request: web.BaseRequest) -> web.Response:
            asked.set()
            await late.wait()
            return web.Response()

        async def ask(transport: HttpTransport) -> str:
            try:
                await transport.request("GET", "/x", timeout_seconds=0.2)
            except TransportError:
                task = asyncio.current_task()
                return "cancelled" if task is not None and task.cancelling() else "lost"
            except asyncio.CancelledError:
                return "cancelled"
            return "answered"

        def cancel(task: "asyncio.Task[str]", done: "asyncio.Future[bool]") -> None:
            done.set_result(task.cancel())

        loop, ends = asyncio.get_running_loop(), list[str]()
        async with Server(answer).served() as server, connected(server) as transport:
            for _ in range(5):
                task = asyncio.create_task(ask(transport))
                cancelled: asyncio.Future[bool] = loop.create_future()
                begun = loop.time()
                loop.call_at(begun + 0.2, cancel, task, cancelled)
                await asked.wait()
                asked.clear()
                # Both are due when the loop comes back to its timers.
                while loop.time() < begun + 0.25:
                    pass
                if await cancelled:
                    ends.append(await task)
            late.set()
        return ends

    assert "lost" not in asyncio.run(main())


def test_a_peer_that_vanishes_is_noticed() -> None:
    async def main() -> None:
        async with Server().served() as server, connected(server) as transport:
            await transport.request("GET", "/x")
            (sock,) = transport._sockets
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 60

    asyncio.run(main())


# ---- streams


def test_a_stream_hands_on_chunks_as_they_come() -> None:
    async def main() -> None:
        more = asyncio.Event()

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"first\n")
            await more.wait()
            await response.write(b"second\n")
            return response

        async with (
            Server(answer).served() as server,
            connected(server) as transport,
            transport.stream("/", params={"watch": "1"}) as chunks,
        ):
            assert await anext(chunks) == b"first\n"
            more.set()
            assert [chunk async for chunk in chunks] == [b"second\n"]

    asyncio.run(main())


def test_a_stream_that_is_refused_raises_on_entering() -> None:
    async def gone(_request: web.BaseRequest) -> web.Response:
        return web.json_response({"reason": "Expired", "message": "too old"}, status=410)

    async def main() -> None:
        async with Server(gone).served() as server, connected(server) as transport:
            with pytest.raises(Gone, match="too old"):
                async with transport.stream("/", params={}):
                    pass

    asyncio.run(main())


def test_a_stream_that_breaks_raises_where_it_is_read() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first\n")
        assert request.transport is not None
        request.transport.close()
        return response

    async def main() -> None:
        async with (
            Server(answer).served() as server,
            connected(server) as transport,
            transport.stream("/", params={}) as chunks,
        ):
            assert await anext(chunks) == b"first\n"
            with pytest.raises(TransportError):
                await anext(chunks)

    asyncio.run(main())


def test_an_error_of_the_reader_s_own_is_not_taken_for_the_stream_s() -> None:
    async def main() -> None:
        async with Server().served() as server, connected(server) as transport:
            with pytest.raises(TimeoutError):
                async with transport.stream("/", params={}):
                    raise TimeoutError

    asyncio.run(main())
