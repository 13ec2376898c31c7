"""The HTTP transport: TLS, credentials that are renewed, proxies, streams, and what goes wrong on the way."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bireme.kube.client import Client
from bireme.kube.config import ClusterConfig
from bireme.kube.credentials import Credential, Credentials, StaticCredentials
from bireme.kube.errors import ApiError, ConfigError, Forbidden, Gone, NotFound, TransportError, Unauthorized
from bireme.kube.resources import PODS
from bireme.kube.transport import HttpTransport
from support.certificates import Authority, Identity

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("test")


class Server:
    """An API server that remembers what it was asked, and answers as told."""

    def __init__(self, answer: Handler | None = None) -> None:
        self.requests: list[web.BaseRequest] = []
        self.bodies: list[bytes] = []
        self.peers: set[Any] = set()
        self._answer = answer
        self.url = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        self.peers.add(request.transport.get_extra_info("peername") if request.transport else None)
        if request.headers.get("Upgrade") != "websocket":
            self.bodies.append(await request.read())
        return await self._answer(request) if self._answer is not None else web.json_response({"a": 1})

    @contextlib.asynccontextmanager
    async def served(self, tls: ssl.SSLContext | None = None) -> AsyncIterator["Server"]:
        runner = web.ServerRunner(web.Server(self.handle), shutdown_timeout=0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
            await site.start()
            port = runner.addresses[0][1]
            self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
            yield self
        finally:
            await runner.cleanup()


@contextlib.asynccontextmanager
async def connected(server: Server, /, **config: Any) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(ClusterConfig(**{"server": server.url, **config}))
    try:
        yield transport
    finally:
        await transport.close()


def server_tls(authority: Authority, folder: Path, *hosts: str, clients: bool = False) -> ssl.SSLContext:
    certificate, key = authority.issue("server", hosts=hosts or ("127.0.0.1",)).write(folder, "server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    if clients:
        context.load_verify_locations(cadata=authority.identity.certificate.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context


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


# ---- TLS


def test_a_server_is_trusted_by_its_authority(authority: Authority, tmp_path: Path) -> None:
    async def main() -> None:
        async with Server().served(server_tls(authority, tmp_path)) as server:
            async with connected(server, ca_data=authority.identity.certificate) as transport:
                assert (await transport.request("GET", "/")).status == 200
            for trust in ({}, {"ca_data": Authority("another").identity.certificate}):
                async with connected(server, **trust) as transport:
                    with pytest.raises(TransportError, match="certificate verify failed") as caught:
                        await transport.request("GET", "/")
                    assert "certificate-authority" in caught.value.hint
            async with connected(server, insecure=True) as transport:
                assert (await transport.request("GET", "/")).status == 200

    asyncio.run(main())


def test_a_server_must_have_the_name_that_is_expected(authority: Authority, tmp_path: Path) -> None:
    async def main() -> None:
        ca_data = authority.identity.certificate
        async with Server().served(server_tls(authority, tmp_path, "kubernetes")) as server:
            async with connected(server, ca_data=ca_data) as transport:
                with pytest.raises(TransportError, match="certificate verify failed"):
                    await transport.request("GET", "/")
            async with connected(server, ca_data=ca_data, tls_server_name="kubernetes") as transport:
                assert (await transport.request("GET", "/")).status == 200

    asyncio.run(main())


class Replaced(Credentials):
    """Gives another credential for each refusal."""

    def __init__(self, *credentials: Credential) -> None:
        self._credentials = list(credentials)

    async def current(self) -> Credential:
        return self._credentials[0]

    async def renew(self, refused: Credential) -> Credential:
        if len(self._credentials) > 1 and refused == self._credentials[0]:
            self._credentials.pop(0)
        return self._credentials[0]


def by_certificate(identity: Identity) -> Credential:
    return Credential("", identity.certificate, identity.key)


def test_a_client_certificate_is_shown_and_replaced_after_a_401(authority: Authority, tmp_path: Path) -> None:
    names: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        certificate = request.get_extra_info("peercert")
        names.append(dict(pair for part in certificate["subject"] for pair in part)["commonName"])
        return web.json_response({}, status=401 if names[-1] == "old" else 200)

    async def main() -> None:
        credentials = Replaced(by_certificate(authority.issue("old")), by_certificate(authority.issue("new")))
        async with (
            Server(answer).served(server_tls(authority, tmp_path, clients=True)) as server,
            connected(server, ca_data=authority.identity.certificate, credentials=credentials) as transport,
        ):
            assert (await transport.request("GET", "/")).status == 200

    asyncio.run(main())
    assert names == ["old", "new"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"ca_data": b"no certificate"}, "certificate-authority: no PEM"),
        ({"credentials": StaticCredentials(Credential("", b"x", b"y"))}, "no matching pair"),
    ],
)
def test_certificates_that_are_none_are_named(config: dict[str, Any], message: str) -> None:
    async def main() -> None:
        transport = HttpTransport(ClusterConfig(server="https://127.0.0.1:1", source="the file", **config))
        with pytest.raises(ConfigError, match=f"the file: .*{message}"):
            await transport.request("GET", "/")
        await transport.close()

    asyncio.run(main())


# ---- credentials


async def only_new(request: web.BaseRequest) -> web.StreamResponse:
    if request.headers.get("Authorization") != "Bearer new":
        return web.json_response({"reason": "Unauthorized"}, status=401)
    return web.Response(body=b"line\n")


@pytest.mark.parametrize("how", ["request", "stream"])
def test_after_a_401_a_new_token_is_tried_once(how: str) -> None:
    async def main() -> list[str]:
        credentials = Replaced(Credential("Bearer old"), Credential("Bearer new"))
        async with (
            Server(only_new).served() as server,
            connected(server, credentials=credentials) as transport,
        ):
            if how == "request":
                assert (await transport.request("GET", "/")).status == 200
            else:
                async with transport.stream("/", params={}) as chunks:
                    assert [chunk async for chunk in chunks] == [b"line\n"]
            return [request.headers["Authorization"] for request in server.requests]

    assert asyncio.run(main()) == ["Bearer old", "Bearer new"]


def test_without_a_new_token_a_401_is_what_it_is() -> None:
    async def main() -> None:
        credentials = StaticCredentials(Credential("Bearer old"))
        async with (
            Server(only_new).served() as server,
            connected(server, credentials=credentials) as transport,
        ):
            with pytest.raises(Unauthorized):
                await Client(transport).get(PODS, "default", "a")
            assert len(server.requests) == 1

    asyncio.run(main())


def test_headers_that_come_more_than_once_all_arrive() -> None:
    async def main() -> list[str]:
        headers = (("Impersonate-User", "u"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
        async with Server().served() as server, connected(server, headers=headers) as transport:
            await transport.request("POST", "/", body=b"{}")
            return server.requests[0].headers.getall("Impersonate-Group")

    assert asyncio.run(main()) == ["a", "b"]


def test_a_proxy_is_asked_for_the_server() -> None:
    async def main() -> None:
        async with (
            Server().served() as proxy,
            connected(proxy, server="http://cluster.example", proxy_url=proxy.url) as transport,
        ):
            await transport.request("GET", "/api")
            assert str(proxy.requests[0].url) == "http://cluster.example/api"

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


# ---- exec

SUCCESS = b'\x03{"status":"Success"}'
EXIT_7 = (
    b'\x03{"status":"Failure","reason":"NonZeroExitCode","message":"exit code 7",'
    b'"details":{"causes":[{"reason":"ExitCode","message":"7"}]}}'
)


def shell(*messages: bytes, protocol: str = "v5.channel.k8s.io", echo: bool = False) -> Handler:
    """A container that says this; with `echo` what it hears first, until its input ends."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(protocol,))
        await socket.prepare(request)
        while echo and (heard := await socket.receive_bytes()) != b"\xff\x00":
            await socket.send_bytes(b"\x01" + heard[1:])
        for message in messages:
            await socket.send_bytes(message)
        await socket.close()
        return socket

    return answer


def run_exec(handler: Handler, **options: Any) -> tuple[Any, list[web.BaseRequest]]:
    async def main() -> tuple[Any, list[web.BaseRequest]]:
        async with Server(handler).served() as server, connected(server) as transport:
            result = await Client(transport).exec("ns", "pod", ["sh", "-c", "true"], **options)
            return result, server.requests

    return asyncio.run(main())


def test_a_command_s_output_is_told_apart() -> None:
    result, (request,) = run_exec(shell(b"\x01out", b"\x02err", b"\x01put", SUCCESS), container="main")
    assert result == (0, b"output", b"err")
    assert request.path == "/api/v1/namespaces/ns/pods/pod/exec"
    assert request.query.getall("command") == ["sh", "-c", "true"]
    assert request.query["container"] == "main"
    assert "stdin" not in request.query


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
def test_a_command_s_exit_code_is_found(protocol: str) -> None:
    assert run_exec(shell(EXIT_7, protocol=protocol))[0].exit_code == 7


def test_a_command_gets_its_input_and_the_end_of_it() -> None:
    data = b"x" * 200_000
    result, _ = run_exec(shell(SUCCESS, echo=True), stdin=data)
    assert result.stdout == data


def test_input_for_a_server_that_can_t_end_it_is_refused() -> None:
    with pytest.raises(Exception, match="standard input"):
        run_exec(shell(SUCCESS, protocol="v4.channel.k8s.io"), stdin=b"x")


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ((b"\x01half",), TransportError),
        ((b'\x03{"status":"Failure","code":500,"message":"no such file"}',), ApiError),
    ],
    ids=["cut off", "not run"],
)
def test_a_command_that_did_not_run_to_its_end_is_an_error(
    messages: tuple[bytes, ...], error: type[Exception]
) -> None:
    with pytest.raises(error):
        run_exec(shell(*messages))


def test_exec_that_is_forbidden_says_so() -> None:
    async def refuse(_request: web.BaseRequest) -> web.Response:
        return web.json_response({}, status=403)

    with pytest.raises(Forbidden):
        run_exec(refuse)
