"""Clients that do not keep to HTTP, TLS or WebSockets: a real server outlives them, and serves others."""

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from support.custom_kinds import GROUP, build_crd
from support.hostile.frames import FRAMES, frame, handshake
from support.hostile.odd import nested
from support.hostile.salvo import tend
from support.hostile.targets import SPACE
from support.server_process import ServerProcess
from support.wire import Address, HungUpError, Wire

EXEC = f"/api/v1/namespaces/{SPACE}/pods/o0/exec?command=sh&stdin=true&stdout=true"
MANY = 200


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("hostile")
    made = ServerProcess(folder / "data", folder / "log")
    made.start()
    asyncio.run(tend(made.address))
    yield made
    made.stop()


@asynccontextmanager
async def unharmed(server: ServerProcess) -> AsyncIterator[Address]:
    """Whatever happens meanwhile, the server answers afterwards, and has nothing to complain about."""
    yield server.address
    async with await Wire.open(server.address) as wire:
        assert (await wire.ask("GET", "/api/v1/namespaces")).code == 200
    assert "Traceback" not in server.log()


async def half_open(address: Address) -> None:
    """Connections that say half of something, or nothing."""
    halves = (
        b"",
        b"G",
        b"GET /api/v1/pods HTTP/1.1\r\nHost: x",
        b"POST /x HTTP/1.1\r\nContent-Length: 9\r\n\r\nab",
    )
    wires = [await Wire.open(address) for _ in range(MANY)]
    for number, wire in enumerate(wires):
        await wire.send(halves[number % len(halves)])
    async with await Wire.open(address) as other:
        assert (await other.ask("GET", "/readyz")).code == 200, "others are served meanwhile"
    for wire in wires:
        wire.close()


async def no_tls(address: Address) -> None:
    """Plain HTTP, or noise, where TLS is spoken."""
    for said in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\0" * 5000):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(said)
        async with asyncio.timeout(45):
            assert b"200 OK" not in await reader.read()
        writer.transport.abort()


async def pipelined(address: Address) -> None:
    """Many requests before the first answer is read: each is answered, in order."""
    async with await Wire.open(address) as wire:
        paths = [f"/api/v1/namespaces/{name}" for name in ("default", "nowhere") for _ in range(50)]
        await wire.send(b"".join(wire.request("GET", path) for path in paths))
        assert [(await wire.receive()).code for _ in paths] == [200] * 50 + [404] * 50


async def smuggled(address: Address) -> None:
    """What stands behind a body is another request, and needs a token of its own."""
    async with await Wire.open(address) as wire:
        hidden = b"GET /api/v1/secrets HTTP/1.1\r\nHost: " + wire_host(address) + b"\r\n\r\n"
        await wire.send(wire.request("GET", "/api/v1/namespaces/default") + hidden)
        assert [(await wire.receive()).code, (await wire.receive()).code] == [200, 401]


async def contradictory(address: Address) -> None:
    """Two ways to tell the length of a body are one too many."""
    async with await Wire.open(address) as wire:
        said = {"Content-Length": "4", "Transfer-Encoding": "chunked"}
        await wire.send(wire.request("POST", "/api/v1/namespaces", b"0\r\n\r\n", said))
        assert (await wire.receive()).code == 400


async def upgraded(address: Address) -> None:
    """An upgrade that is refused ends the connection: nothing after it would be read."""
    async with await Wire.open(address) as wire:
        answer = await wire.ask("GET", EXEC, headers={"Upgrade": "SPDY/3.1", "Connection": "Upgrade"})
        assert answer.code == 400
        assert answer.headers["connection"] == "close"


async def expected(address: Address) -> None:
    """A client that waits to be told to go on is told."""
    async with await Wire.open(address) as wire:
        path = "/api/v1/namespaces/default/configmaps?dryRun=All"
        body = {"metadata": {"name": "x"}}
        assert (await wire.ask("POST", path, body, {"Expect": "100-continue"})).code == 201


async def late_body(address: Address) -> None:
    """A request whose kind goes while its body is on the way."""
    crds, path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", f"/apis/{GROUP}/v1/late/x"
    async with await Wire.open(address) as late, await Wire.open(address) as wire:
        crd = build_crd("late", {"type": "object"})
        assert (await wire.ask("POST", crds, crd)).code == 201
        whole = late.request("GET", path, b"{}")
        await late.send(whole[:-1])
        assert (await wire.ask("DELETE", f"{crds}/late.{GROUP}")).code == 200
        await late.send(whole[-1:])
        assert (await late.receive()).code == 404


async def beyond_python(address: Address) -> None:
    """Bodies that are JSON, but deeper and larger than Python goes."""
    path = f"/apis/{GROUP}/v1/preserved"
    head = {"apiVersion": f"{GROUP}/v1", "kind": "Preserved", "metadata": {"name": "beyond"}}
    async with await Wire.open(address) as wire:
        deep = await wire.ask("POST", path, head | {"spec": {"free": nested(900, "object")}})
        assert (deep.code, deep.json()["message"]) == (400, "the body is nested too deeply")
        number = head | {"kind": "Scalars", "spec": {"count": 10**400}}
        large = await wire.ask("POST", f"/apis/{GROUP}/v1/scalars", number)
        assert (large.code, large.json()["kind"]) == (400, "Status")


async def unread_watch(address: Address) -> None:
    """A watcher that reads nothing while much happens."""
    space = f"/api/v1/namespaces/{SPACE}/configmaps"
    async with await Wire.open(address) as watch, await Wire.open(address) as wire:
        await watch.send(watch.request("GET", f"{space}?watch=true"))
        for number in range(100):
            body = {"metadata": {"name": f"much-{number}"}, "data": {"a": "x" * 50_000}}
            assert (await wire.ask("POST", space, body)).code == 201
        assert (await wire.ask("DELETE", space)).code == 200


CLIENTS: dict[str, Callable[[Address], Coroutine[Any, Any, None]]] = {
    each.__name__: each
    for each in (
        half_open,
        no_tls,
        pipelined,
        smuggled,
        contradictory,
        upgraded,
        expected,
        late_body,
        beyond_python,
        unread_watch,
    )
}


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_a_client_does_no_harm(
    server: ServerProcess, client: Callable[[Address], Coroutine[Any, Any, None]]
) -> None:
    async def main() -> None:
        async with unharmed(server) as address:
            await client(address)

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(20))
def test_frames_that_are_none_do_no_harm(server: ServerProcess, seed: int) -> None:
    async def main() -> None:
        random = Random(seed)
        async with unharmed(server) as address, await Wire.open(address) as wire:
            await wire.send(handshake(wire, EXEC))
            assert (await wire.receive_head()).code == 101
            for _ in range(10):
                await wire.send(random.choice(FRAMES)(random))
            await wire.rest()

    asyncio.run(main())


def test_tls_below_1_2_is_refused(server: ServerProcess) -> None:
    context = ssl.create_default_context(cafile=str(server.address.authority))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT:@SECLEVEL=0")

    async def main() -> None:
        async with unharmed(server) as address:
            with pytest.raises(HungUpError):
                await Wire.open(address, context)

    asyncio.run(main())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_from_1_2_on_is_spoken(server: ServerProcess, version: ssl.TLSVersion) -> None:
    context = ssl.create_default_context(cafile=str(server.address.authority))
    context.minimum_version = context.maximum_version = version

    async def main() -> None:
        async with await Wire.open(server.address, context) as wire:
            assert (await wire.ask("GET", "/readyz")).code == 200

    asyncio.run(main())


def wire_host(address: Address) -> bytes:
    return address.headers["Host"].encode()


def test_a_frame_is_as_the_standard_says() -> None:
    assert frame(b"\0hi", opcode=2, mask=b"\1\2\3\4") == b"\x82\x83\1\2\3\4\1jj"
