"""Bytes that are nearly HTTP: cut, contradictory, smuggled."""

from collections.abc import Callable
from random import Random

from support.hostile import odd

_LENGTHS = (b"-1", b"x", b"99999999999999999999", b"+5", b"0x5", b"", b"1e3", b"5,5")
_CHUNKS = (
    b"x\r\n", b"-1\r\n\r\n", b"fffffffffffffffff\r\n", b"5\r\nab", b"0\r\nA: b\r\n", b"5;x\nabcde\r\n",
    b"\r\n", b"5\r\nabcdeXX", b"0" * 5000,
)  # fmt: skip
_ENCODINGS = (b"chunked, chunked", b"xchunked", b"gzip", b"\x0bchunked", b"chunked\r\n folded", b"identity")
_VERSIONS = (b"HTTP/9.9", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"", b"HTTP/1.1 x", b"http/1.1")
_LINES = (
    b"No colon", b": no name", b"a b: c", b"X: \0", b"\xff: x", b" folded", b"X:" + b"y" * 70_000,
    b"X: a\rb", b"Host: example.com", b"Content-Length: 1\r\nContent-Length: 2",
)  # fmt: skip
_SMUGGLED = b"0\r\n\r\nGET /api/v1/secrets HTTP/1.1\r\nHost: x\r\n\r\n"


def broken(random: Random, good: bytes) -> bytes:
    """A good request made bad."""
    return random.choice(_WAYS)(random, good)


def _noise(random: Random, good: bytes) -> bytes:
    return odd.raw_bytes(random, len(good))


def _cut(random: Random, good: bytes) -> bytes:
    return good[: random.randrange(len(good))]


def _both_lengths(random: Random, good: bytes) -> bytes:
    return _with(good, b"Content-Length: 5", b"Transfer-Encoding: chunked")


def _two_lengths(random: Random, good: bytes) -> bytes:
    return _with(good, b"Content-Length: 5", b"Content-Length: 6")


def _odd_length(random: Random, good: bytes) -> bytes:
    return _with(good, b"Content-Length: " + random.choice(_LENGTHS))


def _odd_chunks(random: Random, good: bytes) -> bytes:
    head, _, _ = good.partition(b"\r\n\r\n")
    return _with(head + b"\r\n\r\n" + random.choice(_CHUNKS), b"Transfer-Encoding: chunked")


def _odd_encoding(random: Random, good: bytes) -> bytes:
    return _with(good, b"Transfer-Encoding: " + random.choice(_ENCODINGS))


def _odd_version(random: Random, good: bytes) -> bytes:
    return good.replace(b"HTTP/1.1", random.choice(_VERSIONS), 1)


def _odd_line(random: Random, good: bytes) -> bytes:
    first, _, rest = good.partition(b"\r\n")
    return b"\r\n".join([first, random.choice(_LINES), rest])


def _many_lines(random: Random, good: bytes) -> bytes:
    first, _, rest = good.partition(b"\r\n")
    many = [b"X-%d: y" % number for number in range(random.choice([200, 3000]))]
    return b"\r\n".join([first, *many, rest])


def _bare_newlines(random: Random, good: bytes) -> bytes:
    return good.replace(b"\r\n", b"\n")


def _smuggled(random: Random, good: bytes) -> bytes:
    return good[:-1] + _SMUGGLED + good


_WAYS: tuple[Callable[[Random, bytes], bytes], ...] = (
    _noise, _cut, _both_lengths, _two_lengths, _odd_length, _odd_chunks, _odd_encoding, _odd_version,
    _odd_line, _many_lines, _bare_newlines, _smuggled,
)  # fmt: skip


def _with(good: bytes, *lines: bytes) -> bytes:
    """A request framed by other headers than its own."""
    head, _, body = good.partition(b"\r\n\r\n")
    framing = (b"content-length", b"transfer-encoding")
    kept = [line for line in head.split(b"\r\n") if not line.lower().startswith(framing)]
    return b"\r\n".join([*kept, *lines]) + b"\r\n\r\n" + body
