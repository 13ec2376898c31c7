"""Headers: who sends what, and what is taken; as bytes, for nobody promised that they are text."""

from random import Random

from support.hostile import odd

Headers = list[tuple[bytes, bytes]]
JSON = b"application/json"
PROTOBUF = b"application/vnd.kubernetes.protobuf"
APPLY = b"application/apply-patch+yaml"
PATCHES = (
    b"application/json-patch+json", b"application/merge-patch+json",
    b"application/strategic-merge-patch+json", APPLY,
)  # fmt: skip
_TYPES = (
    JSON, JSON, b"application/json; charset=utf-8", b"APPLICATION/JSON", b"application/yaml", PROTOBUF,
    b"text/plain", b"", b"/", b";", b"application/json;", b"application/json, text/plain",
    b"multipart/form-data; boundary=x", b"application/cbor", b"application/apply-patch+cbor", b"\xff",
    b"application/json; charset=utf-16", b"x" * 9000, *PATCHES,
)  # fmt: skip
_TABLE = b"application/json;as=Table;v=v1;g=meta.k8s.io"
_GOOD_ACCEPTS = (
    JSON, b"*/*", _TABLE,
    b"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json", PROTOBUF,
)  # fmt: skip
_ACCEPTS = (
    JSON, b"*/*", b"application/*", _TABLE, _TABLE + b",application/json",
    b"application/json;as=Table;v=v2;g=x",
    b"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", PROTOBUF,
    PROTOBUF + b",application/json", b"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    b"text/html", b"image/png", b"", b",", b";", b"application/json;q=nan",
    b"application/json;q=-1,*/*;q=inf", b"application/json;q=1e999", b"a;b=c;d", b"\xff\xfe",
    b"application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", b"application/yaml",
    b"x," * 4000, b"application/json;stream=watch", b"application/json;" + b"a=b;" * 3000,
    b"application/cbor",
)  # fmt: skip
_AGENTS = (
    b"kubectl/v1.36",
    b"",
    b"\xff\xfe",
    b"/",
    b"a b\tc",
    "ü/1".encode(),
    b"x" * 20_000,
    b"\xed\xa0\x80",
    b"{}",
)
_OTHERS: tuple[tuple[bytes, tuple[bytes, ...]], ...] = (
    (b"Accept-Encoding", (b"gzip", b"br", b"identity;q=0", b"*")),
    (b"Content-Encoding", (b"gzip", b"deflate", b"br", b"zstd", b"identity", b"x", b"gzip, gzip")),
    (b"If-None-Match", (b"*", b'"x"', b'W/"', b"\xff")),
    (b"If-Match", (b"*", b"x")),
    (b"Range", (b"bytes=0-1", b"bytes=-", b"x")),
    (b"Impersonate-User", (b"system:admin", b"")),
    (b"X-Forwarded-For", (b"127.0.0.1",)),
    (b"X-HTTP-Method-Override", (b"DELETE",)),
    (b"Cookie", (b"a=b", b"\xff", b"x" * 5000, b"a=b;" * 500, b'$Version=1; a="')),
    (b"Expect", (b"100-continue", b"x")),
    (b"Upgrade", (b"websocket", b"SPDY/3.1", b"h2c", b"")),
    (b"Sec-WebSocket-Key", (b"x", b"dGhlIHNhbXBsZSBub25jZQ==")),
    (b"Sec-WebSocket-Version", (b"13", b"8", b"x")),
    (b"Sec-WebSocket-Protocol", (b"v5.channel.k8s.io", b"x", b"")),
    (b"X-Stream-Protocol-Version", (b"v4.channel.k8s.io",)),
    (b"Date", (b"x",)),
)


def content_type(random: Random) -> bytes:
    return random.choice(_TYPES)


def extra(random: Random) -> Headers:
    """What a request says beside where it goes and what it brings."""
    made: Headers = []
    if random.random() < 0.3:
        made.append((b"Accept", random.choice(_ACCEPTS if random.random() < 0.3 else _GOOD_ACCEPTS)))
    if random.random() < 0.3:
        made.append((b"User-Agent", random.choice(_AGENTS)))
    while random.random() < 0.1:
        name, values = random.choice(_OTHERS)
        made.append((name, random.choice(values)))
    while random.random() < 0.02:
        made.append((b"X-Odd", odd.text(random).encode().translate(None, b"\0\r\n\x1b\x7f")))
    return made


def strangers(random: Random, host: bytes, token: bytes) -> tuple[Headers, int]:
    """The headers of one who may not ask, and the code that he gets."""
    bearer = b"Bearer " + token
    wrong_hosts = (
        b"example.com",
        host + b".example.com",
        b"localhost",
        host.split(b":")[0] + b":1",
        b"\xff",
        b"",
    )
    origins = (
        b"https://example.com",
        b"null",
        b"",
        b"http://" + host,
        b"file://",
        b"https://" + host + b".x",
    )
    credentials = (
        b"", b"Bearer", b"Bearer ", b"Bearer x", b"Basic " + token, bearer[:-1], bearer + b"x",
        b"Bearer \xff", b"Bearer " + b"x" * 9000, token, b"Bearer  x  ",
    )  # fmt: skip
    match random.randrange(3):
        case 0:
            return [(b"Host", random.choice(wrong_hosts)), (b"Authorization", bearer)], 403
        case 1:
            return [(b"Host", host), (b"Authorization", bearer), (b"Origin", random.choice(origins))], 403
    return [(b"Host", host), (b"Authorization", random.choice(credentials))], 401
