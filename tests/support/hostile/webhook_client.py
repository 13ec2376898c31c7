"""A hostile client of the webhooks' port, as a process of its own: `webhook_client.py ATTACK PORT`.

Prints one JSON object when its attack stands, waits for a line on its standard input, and prints another.
"""

import asyncio
import collections
import json
import resource
import ssl
import sys

HEAD = "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
MEBIBYTE = 1024 * 1024
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(port: int) -> Streams:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return await asyncio.open_connection("127.0.0.1", port, ssl=context)


def review(size: int, element: bytes = b"[],") -> bytes:
    """A review of two objects that are lists of lists."""
    list_ = b"[" + (element * (size // 2 // len(element))).rstrip(b",") + b"]"
    obj = b'{"apiVersion":"batch.tensorstack.dev/v1beta1","kind":"GenericJob","spec":' + list_ + b"}"
    request = b'{"uid":"1","operation":"UPDATE","object":' + obj + b',"oldObject":' + obj + b"}"
    return b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":' + request + b"}"


async def post(port: int, path: str, body: bytes, held_back: int = 0) -> tuple[str, Streams]:
    """Send a review, all but its last bytes; return the status if there is an answer."""
    reader, writer = await connect(port)
    writer.write(HEAD.format(path=path, length=len(body)).encode() + b"\r\n")
    try:
        for start in range(0, len(body) - held_back, 65536):
            writer.write(body[start : min(start + 65536, len(body) - held_back)])
            await writer.drain()
        if held_back:
            return "waits", (reader, writer)
        line = await reader.readline()
        return line.decode().split(" ")[1] if line else "closed", (reader, writer)
    except OSError:
        return "closed", (reader, writer)


async def large_reviews(port: int) -> dict[str, int]:
    sizes = [8 * MEBIBYTE] * 8 + [6 * MEBIBYTE] * 8
    paths = ["/validate", "/default", "/queue", "/validate"] * 4
    work = [post(port, path, review(size)) for path, size in zip(paths, sizes, strict=True)]
    return collections.Counter([status for status, _ in await asyncio.gather(*work)])


async def unfinished_bodies(port: int) -> dict[str, int]:
    body = review(6 * MEBIBYTE)
    found = await asyncio.gather(*(post(port, "/validate", body, held_back=1) for _ in range(30)))
    KEPT.extend(streams for _, streams in found)
    return collections.Counter([status for status, _ in found])


async def half_headers(port: int) -> dict[str, int]:
    async def begin() -> str:
        try:
            async with GATE:
                streams = await connect(port)
            streams[1].write(b"POST /validate HTTP/1.1\r\nHost: x\r\nX-Half: ")
        except OSError:
            return "refused"
        KEPT.append(streams)
        return "begun"

    return collections.Counter(await asyncio.gather(*(begin() for _ in range(3000))))


ATTACKS = {each.__name__: each for each in (large_reviews, unfinished_bodies, half_headers)}
KEPT: list[Streams] = []
GATE = asyncio.Semaphore(64)


async def still_open() -> int:
    """How many of the connections the server has left open."""

    async def is_open(reader: asyncio.StreamReader) -> bool:
        try:
            async with asyncio.timeout(1):
                # The answer, if there is one, and then the end.
                await reader.read()
                return False
        except TimeoutError:
            return True
        except OSError:
            return False

    return sum(await asyncio.gather(*(is_open(reader) for reader, _ in KEPT)))


async def main(attack: str, port: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    print(json.dumps(await ATTACKS[attack](port)), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(json.dumps({"open": await still_open()}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
