"""Logs, exec and attach by a real kubectl; who runs the pods is a stand-in that starts local processes."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bireme.apiserver import errors
from bireme.apiserver.rules import Object
from bireme.apiserver.serving.gateway import ExecOptions, LogOptions, Session
from bireme.run.apiserver import Options, Running, serving
from support.clients import find_client
from support.control_plane import BinariesMissingError, find_kubectl
from support.fixtures import unavailable

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "nodeName": "here",
        "containers": [{"name": "main", "image": "i"}, {"name": "side", "image": "i"}],
    },
}


class LocalProcesses:
    """A Gateway whose containers are processes of this machine."""

    def __init__(self) -> None:
        self.asked: list[LogOptions | ExecOptions] = []
        self.sizes: list[tuple[int, int]] = []

    def departed(self, namespace: str, name: str) -> Object | None:  # noqa: ARG002 - a protocol
        return None

    @contextlib.asynccontextmanager
    async def logs(self, pod: Object, options: LogOptions) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(options)
        if options.previous:
            name = pod["metadata"]["name"]
            raise errors.bad_request(f'previous terminated container "main" in pod "{name}" not found')

        async def lines() -> AsyncIterator[bytes]:
            for number in range(3):
                yield f"line {number}\n".encode()
                await asyncio.sleep(0)
                if options.tail_lines == 1:
                    raise OSError("the disk is broken")

        yield lines()

    async def run(self, pod: Object, options: ExecOptions, session: Session) -> int:
        assert pod["spec"]["nodeName"] == "here"
        self.asked.append(options)
        process = await asyncio.create_subprocess_exec(
            *(options.command or ("cat",)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        async with asyncio.TaskGroup() as group:
            feeding = group.create_task(self._feed(session, process.stdin, options))
            group.create_task(self._pump(process.stdout, session, 1))
            group.create_task(self._pump(process.stderr, session, 2))
            code = await process.wait()
            feeding.cancel()
        return code

    async def _feed(self, session: Session, stdin: asyncio.StreamWriter, options: ExecOptions) -> None:
        if options.tty:
            size = await session.resized()
            self.sizes.append((size.width, size.height))
        while options.stdin and (data := await session.read()):
            stdin.write(data)
            await stdin.drain()
        stdin.close()

    async def _pump(self, stream: asyncio.StreamReader, session: Session, number: int) -> None:
        while data := await stream.read(65536):
            await session.write(number, data)


class Outcome:
    def __init__(self, code: int, stdout: bytes, stderr: bytes) -> None:
        self.code, self.stdout, self.stderr = code, stdout, stderr


Kubectl = Callable[..., Awaitable[Outcome]]
Scene = Callable[[Kubectl, LocalProcesses], Awaitable[None]]


@pytest.fixture(params=["pinned", "old"])
def binary(request: pytest.FixtureRequest) -> Path:
    try:
        return find_kubectl() if request.param == "pinned" else find_client("kubectl-old")
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None


def play(folder: Path, binary: Path, scene: Scene) -> None:
    async def main() -> None:
        gateway = LocalProcesses()
        async with serving(Options(folder / "data"), gateway) as running:
            kubectl = _kubectl(running, binary, folder)
            created = await kubectl("create", "-f", "-", stdin=_json(POD))
            assert created.code == 0, created.stderr
            await scene(kubectl, gateway)

    asyncio.run(main())


def _kubectl(running: Running, binary: Path, folder: Path) -> Kubectl:
    environment = os.environ | {"KUBECONFIG": str(running.kubeconfig), "HOME": str(folder)}

    async def run(*arguments: str, stdin: bytes = b"") -> Outcome:
        process = await asyncio.create_subprocess_exec(
            str(binary),
            *arguments,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(120):
            stdout, stderr = await process.communicate(stdin)
        assert process.returncode is not None
        return Outcome(process.returncode, stdout, stderr)

    return run


def _json(obj: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(obj)


def test_output_that_breaks_off_ends_the_answer_with_an_error(tmp_path: Path, binary: Path) -> None:
    async def scene(kubectl: Kubectl, _gateway: LocalProcesses) -> None:
        result = await kubectl("logs", "p", "-c", "main", "--tail=1")
        assert (result.code, result.stdout) == (1, b"line 0\n")
        assert b"EOF" in result.stderr
        assert (await kubectl("logs", "p", "-c", "main")).code == 0

    play(tmp_path, binary, scene)


def test_logs_are_read(tmp_path: Path, binary: Path) -> None:
    async def scene(kubectl: Kubectl, gateway: LocalProcesses) -> None:
        read = await kubectl("logs", "p", "-c", "side", "--tail=5", "--timestamps", "-f", "--since=10s")
        assert (read.code, read.stdout) == (0, b"line 0\nline 1\nline 2\n")
        expected = LogOptions(container="side", follow=True, timestamps=True, tail_lines=5, since_seconds=10)
        assert gateway.asked == [expected]
        before = await kubectl("logs", "p", "-c", "main", "--previous")
        assert b'previous terminated container "main" in pod "p" not found' in before.stderr
        other = await kubectl("logs", "p", "-c", "nobody")
        assert b"container nobody is not valid for pod p" in other.stderr

    play(tmp_path, binary, scene)


def test_a_command_is_run_and_its_exit_code_comes_back(tmp_path: Path, binary: Path) -> None:
    async def scene(kubectl: Kubectl, gateway: LocalProcesses) -> None:
        script = "read x; echo out $x; echo err >&2; exit 7"
        done = await kubectl("exec", "-i", "p", "-c", "main", "--", "sh", "-c", script, stdin=b"hello\n")
        assert (done.code, done.stdout) == (7, b"out hello\n")
        assert done.stderr.startswith(b"err\n")
        asked = gateway.asked[-1]
        assert isinstance(asked, ExecOptions)
        assert (asked.container, asked.command) == ("main", ("sh", "-c", script))

    play(tmp_path, binary, scene)


def test_stdin_ends_where_the_client_ends_it(tmp_path: Path, binary: Path) -> None:
    async def scene(kubectl: Kubectl, _gateway: LocalProcesses) -> None:
        body = bytes(range(256)) * 4096
        done = await kubectl("exec", "-i", "p", "-c", "main", "--", "cat", stdin=body)
        assert (done.code, done.stdout == body, done.stderr) == (0, True, b"")
        attached = await kubectl("attach", "-i", "p", "-c", "main", stdin=b"to cat\n")
        assert attached.stdout == b"to cat\n"

    play(tmp_path, binary, scene)


def test_a_pod_without_a_node_has_no_output_and_no_way_in(tmp_path: Path, binary: Path) -> None:
    async def scene(kubectl: Kubectl, _gateway: LocalProcesses) -> None:
        pod = {**POD, "metadata": {"name": "waits"}, "spec": {"containers": [{"name": "m", "image": "i"}]}}
        assert (await kubectl("create", "-f", "-", stdin=_json(pod))).code == 0
        assert (await kubectl("logs", "waits")).stdout == b""
        refused = await kubectl("exec", "waits", "--", "true")
        assert b"pod waits does not have a host assigned" in refused.stderr
        forward = await kubectl("port-forward", "pod/p", "8080")
        assert forward.code != 0

    play(tmp_path, binary, scene)
