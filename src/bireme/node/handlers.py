"""What hooks and probes do: run a command, open a connection, ask over HTTP, sleep."""

import asyncio
import contextlib
import os
import ssl
import tempfile
from collections.abc import AsyncIterator
from typing import Final

from bireme.node import shims
from bireme.node.folders import PodFolder
from bireme.node.seen import Object
from bireme.node.shims import ShimError

_OUTPUT_BYTES: Final = 1024


async def run_handler(
    folder: PodFolder, container: Object, address: str, handler: Object, timeout_seconds: float | None
) -> str:
    """Do what a handler says; return what went wrong, empty if nothing did. `address` is the pod's."""
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _run(folder, container, address, handler)
    except TimeoutError:
        return f"no answer within {timeout_seconds:g} s"
    except ShimError as error:
        return str(error)
    except OSError as error:
        # asyncio tells of the call that failed, not of the reason.
        number = error.errno or 0
        return os.strerror(number) if number > 0 else error.strerror or str(error)
    except (LookupError, ValueError) as error:
        return str(error)


async def _run(folder: PodFolder, container: Object, address: str, handler: Object) -> str:
    if action := handler.get("exec"):
        return await _exec(folder, container["name"], action.get("command") or [])
    if action := handler.get("httpGet"):
        return await _http(folder, container, address, action)
    if action := handler.get("tcpSocket"):
        async with _opened(folder, action.get("host") or address, _port(container, action), None):
            return ""
    if action := handler.get("sleep"):
        await asyncio.sleep(action["seconds"])
        return ""
    # A probe that can't be made must not end a container: the pod says that it counts for nothing.
    return "" if "grpc" in handler else "this sort of handler is not offered without a cluster"


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


def _port(container: Object, action: Object) -> int:
    """A number, or the name of one of the container's ports. Raises LookupError."""
    wanted: int | str = action["port"]
    if isinstance(wanted, int) or wanted.isdigit():
        return int(wanted)
    for port in container.get("ports") or ():
        if port.get("name") == wanted:
            number: int = port["containerPort"]
            return number
    raise LookupError(f"container {container['name']} has no port {wanted}")


async def _http(folder: PodFolder, container: Object, address: str, action: Object) -> str:
    """A GET; anything from 200 to 399 is well."""
    host = action.get("host") or address
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
    async with _opened(folder, host, _port(container, action), context) as (reader, writer):
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        status = (await reader.readline()).split()
    code = int(status[1]) if len(status) > 1 and status[1].isdigit() else 0
    return "" if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"


@contextlib.asynccontextmanager
async def _opened(
    folder: PodFolder, host: str, port: int, context: ssl.SSLContext | None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection in the pod's own network, where it has one."""
    if shims.read_orders(folder).get("network"):
        made = await asyncio.to_thread(shims.open_socket, folder)
        try:
            made.setblocking(False)
            await asyncio.get_running_loop().sock_connect(made, (host, port))
            name = host if context else None
            reader, writer = await asyncio.open_connection(sock=made, ssl=context, server_hostname=name)
        except BaseException:
            made.close()
            raise
    else:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()
