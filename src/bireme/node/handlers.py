"""What hooks and probes do: run a command, open a connection, ask over HTTP, sleep."""

import asyncio
import contextlib
import os
import ssl
import tempfile
from collections.abc import AsyncIterator
from typing import Any, Final

from bireme.node import shims
from bireme.node.folders import PodFolder
from bireme.node.seen import Object
from bireme.node.shims import ShimError

_OUTPUT_BYTES: Final = 1024
_LOOPBACK: Final = "127.0.0.1"


async def run_handler(
    folder: PodFolder, container: str, handler: Object, timeout_seconds: float | None
) -> str:
    """Do what a handler says; return what went wrong, empty if nothing did."""
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _run(folder, container, handler)
    except TimeoutError:
        return f"no answer within {timeout_seconds:g} s"
    except ShimError as error:
        return str(error)
    except OSError as error:
        return error.strerror or str(error)


async def _run(folder: PodFolder, container: str, handler: Object) -> str:
    if action := handler.get("exec"):
        return await _exec(folder, container, action.get("command") or [])
    if action := handler.get("httpGet"):
        return await _http(action)
    if action := handler.get("tcpSocket"):
        return await _connect(action.get("host") or _LOOPBACK, action["port"])
    if action := handler.get("sleep"):
        await asyncio.sleep(action["seconds"])
        return ""
    return "this sort of handler is not offered without a cluster"


async def _exec(folder: PodFolder, container: str, command: list[str]) -> str:
    if not command:
        return "there is no command"
    with open(os.devnull, "rb") as nothing, tempfile.TemporaryFile() as said:  # noqa: PTH123
        code = await shims.run_in(
            folder, container, command, (nothing.fileno(), said.fileno(), said.fileno())
        )
        said.seek(0)
        text = said.read(_OUTPUT_BYTES).decode(errors="replace").strip()
    return "" if code == 0 else f"exit code {code}: {text}" if text else f"exit code {code}"


async def _connect(host: str, port: Any) -> str:
    async with _opened(host, int(port), None):
        return ""


async def _http(action: Object) -> str:
    """A GET; anything from 200 to 399 is well."""
    host = action.get("host") or _LOOPBACK
    context = None
    if action.get("scheme") == "HTTPS":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    headers = {"Host": host, "User-Agent": "kube-probe/bireme", "Accept": "*/*", "Connection": "close"}
    headers |= {each["name"]: each["value"] for each in action.get("httpHeaders") or ()}
    lines = [
        f"GET {action.get('path') or '/'} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    async with _opened(host, int(action["port"]), context) as (reader, writer):
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        status = (await reader.readline()).split()
    code = int(status[1]) if len(status) > 1 and status[1].isdigit() else 0
    return "" if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"


@contextlib.asynccontextmanager
async def _opened(
    host: str, port: int, context: ssl.SSLContext | None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()
