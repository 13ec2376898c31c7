"""Whom the HTTP transport trusts, and as whom it presents itself, also after that has changed."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bireme.kube.client import Client
from bireme.kube.config import ClusterConfig
from bireme.kube.credentials import Credential, Credentials, StaticCredentials
from bireme.kube.errors import (
    ConfigError,
    CredentialError,
    TransportError,
    Unauthorized,
)
from bireme.kube.resources import PODS
from bireme.kube.transport import HttpTransport
from support.certificates import Authority, Identity
from unit.kube.servers import Server, connected, server_tls


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("test")


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


@pytest.mark.parametrize("how", ["request", "stream"])
def test_what_is_left_in_the_middle_leaves_no_socket(authority: Authority, tmp_path: Path, how: str) -> None:
    async def main() -> None:
        asked, late = asyncio.Event(), asyncio.Event()

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"first")
            asked.set()
            await late.wait()
            return response

        async def read(transport: HttpTransport) -> None:
            if how == "request":
                await transport.request("GET", "/")
            async with transport.stream("/", params={}) as chunks:
                async for _ in chunks:
                    pass

        async with Server(answer).served(server_tls(authority, tmp_path)) as server:
            async with connected(server, ca_data=authority.identity.certificate) as transport:
                reading = asyncio.ensure_future(read(transport))
                await asked.wait()
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            assert all(sock.fileno() == -1 for sock in transport._sockets)
            late.set()

    asyncio.run(main())
    # A socket that was left open complains when it is collected.
    gc.collect()


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


class Broken(Replaced):
    """Has nothing to offer after a refusal."""

    async def renew(self, refused: Credential) -> Credential:
        raise CredentialError(f"nothing but {refused}")


@pytest.mark.parametrize("how", ["request", "stream"])
def test_a_credential_that_can_t_be_renewed_says_so(how: str) -> None:
    async def main() -> None:
        credentials = Broken(Credential("Bearer old"))
        async with (
            Server(only_new).served() as server,
            connected(server, credentials=credentials) as transport,
        ):
            stream = transport.stream("/", params={})
            call = transport.request("GET", "/") if how == "request" else stream.__aenter__()
            with pytest.raises(CredentialError, match="nothing but"):
                await call

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
