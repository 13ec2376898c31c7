"""WebSocket frames, byte by byte: good ones, and such as no client may send."""

import struct
from collections.abc import Callable
from random import Random

from support.hostile import odd
from support.wire import Wire

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
_MASK = b"\1\2\3\4"


def handshake(wire: Wire, path: str, protocol: str = "v5.channel.k8s.io") -> bytes:
    """The request that opens a WebSocket."""
    said = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": protocol,
    }
    return wire.request("GET", path, headers=said)


def frame(payload: bytes, *, opcode: int = BINARY, first: int = 0x80, mask: bytes = _MASK) -> bytes:
    """One frame, masked as a client's must be; `first` is the bits beside the opcode."""
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    else:
        length = struct.pack("!BH", 0xFE, size) if size < 1 << 16 else struct.pack("!BQ", 0xFF, size)
    masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
    return bytes([first | opcode]) + length + mask + masked


def _channel(random: Random) -> bytes:
    """Bytes for some channel, that is there or not."""
    return frame(bytes([random.choice([0, 1, 2, 3, 4, 5, 99, 254, 255])]) + odd.raw_bytes(random))


def _resize(random: Random) -> bytes:
    sizes = (
        b"{}",
        b'{"Width":1,"Height":2}',
        b'{"Width":-1}',
        b'{"Width":1e9}',
        b"[]",
        b"\xff",
        b'{"Width":"x"}',
    )
    return frame(b"\x04" + random.choice(sizes))


def _half_close(random: Random) -> bytes:
    return frame(b"\xff" + random.choice([b"\0", b"\x01", b"\xff", b"", b"\0\0"]))


def _empty(random: Random) -> bytes:
    return frame(b"", opcode=random.choice([TEXT, BINARY, PING]))


def _bad_opcode(random: Random) -> bytes:
    return frame(b"\0x", opcode=random.choice([3, 7, 11, 15]))


def _reserved_bits(random: Random) -> bytes:
    return frame(b"\0x", first=random.choice([0xC0, 0xA0, 0x90, 0xF0]))


def _bad_text(random: Random) -> bytes:
    return frame(b"\xff\xfe", opcode=TEXT)


def _fragments(random: Random) -> bytes:
    """A message in pieces, of which the last may never come, or which none began."""
    begun = frame(b"\0a", first=0)
    return random.choice([begun + frame(b"b", opcode=0), begun, frame(b"b", opcode=0), begun + begun])


def _oversized(random: Random) -> bytes:
    """A frame that promises more than is taken."""
    return b"\x82\xff" + struct.pack("!Q", random.choice([1 << 21, 1 << 40, (1 << 64) - 1])) + _MASK + b"x"


def _long_ping(random: Random) -> bytes:
    return frame(b"x" * 200, opcode=PING)


def _bad_close(random: Random) -> bytes:
    return frame(random.choice([b"", b"\x03", b"\x00\x00", b"\x03\xe8\xff", b"\xff\xff"]), opcode=CLOSE)


def _unmasked(random: Random) -> bytes:
    return b"\x82\x02\0x"


def _noise(random: Random) -> bytes:
    return odd.raw_bytes(random, 500)


GOOD: tuple[Callable[[Random], bytes], ...] = (_channel, _resize, _half_close, _empty)
FRAMES: tuple[Callable[[Random], bytes], ...] = (
    *GOOD,
    _bad_opcode,
    _reserved_bits,
    _bad_text,
    _fragments,
    _oversized,
    _long_ping,
    _bad_close,
    _unmasked,
    _noise,
)
