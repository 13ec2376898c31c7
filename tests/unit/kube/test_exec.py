"""Commands in containers: output told apart, input that ends, exit codes."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from bireme.kube.client import Client
from bireme.kube.errors import ApiError, Forbidden, KubeError, TransportError
from unit.kube.scripted import InstantClock, ScriptedTransport, calm_client
from unit.kube.servers import Handler, Server, connected

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
    with pytest.raises(KubeError, match="standard input"):
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


def test_a_transport_without_websockets_can_t() -> None:
    client = calm_client(ScriptedTransport(), InstantClock())
    with pytest.raises(KubeError, match="WebSockets"):
        asyncio.run(client.exec("ns", "pod", ["true"]))
