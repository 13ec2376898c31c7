"""Whole requests, as they go over the wire, and what their answers must be like."""

import gzip
import json
import zlib
from random import Random
from typing import Any, NamedTuple
from urllib.parse import unquote

from support.hostile import bodies, headers, odd, queries, targets, unframed
from support.hostile.headers import Headers
from support.hostile.targets import Target
from support.wire import Address, Answer

_METHODS = (b"GET", b"GET", b"POST", b"POST", b"PUT", b"PATCH", b"PATCH", b"PATCH", b"DELETE")
_RARE_METHODS = (b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT", b"PROPFIND", b"get", b"X")
_TOO_NEW = "ResourceVersionTooLarge"
_POINTERS = (
    "", "/", "/metadata", "/metadata/labels/a", "/metadata/name", "/spec", "/spec/containers/0",
    "/spec/containers/-", "/spec/containers/-1", "/spec/containers/99", "/spec/containers/0/image/x",
    "/a~0b", "/a~2", "x", "/data/a", "/kind", "/a" * 500, "/a" * 5000, "/metadata/finalizers/0",
    "/status", "/spec/containers/01", "/spec/containers/1e0", "/ü",
)  # fmt: skip

_DIRECTIVES = (
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
)
_DIRECTED: tuple[Any, ...] = ("delete", "replace", "merge", "x", [], [{"name": "c0"}], ["a"], None, 1)


class Shot(NamedTuple):
    """One request."""

    raw: bytes
    is_http: bool = True
    """Whether it is well-formed HTTP: then it is answered, and a refusal is a Status."""
    is_head: bool = False
    code: int = 0
    """The only right one, where there is one."""
    hangs_up: bool = False
    """Whether the client hangs up without waiting for an answer."""


class Gunner:
    """Makes requests; each is made by the seed and its number alone."""

    def __init__(self, seed: int, address: Address) -> None:
        self._seed = seed
        self._host, self._token = f"{address.host}:{address.port}".encode(), address.token.encode()

    def shot(self, number: int) -> Shot:
        random = Random(f"{self._seed}/{number}")
        chance = random.random()
        if chance < 0.03:
            return self._stranger(random)
        if chance < 0.06:
            return self._unframed(random)
        return self._request(random)

    def _request(self, random: Random) -> Shot:
        target = random.choice(targets.TARGETS)
        method = random.choice(_RARE_METHODS if random.random() < 0.03 else _METHODS)
        name = targets.name_of(random, target)
        content_type, body = _content(random, target, method, unquote(name))
        path = _path(random, target, method, name) + _query(random, content_type)
        said = [(b"Host", self._host), (b"Authorization", b"Bearer " + self._token), *headers.extra(random)]
        raw = _composed(random, method, path, [*said, (b"Content-Type", content_type)], body)
        is_http = method not in (b"CONNECT", b"get", b"X") and _is_plain(said, path)
        return Shot(raw, is_http, is_head=method == b"HEAD")

    def _stranger(self, random: Random) -> Shot:
        said, code = headers.strangers(random, self._host, self._token)
        path = targets.path(random, random.choice(targets.TARGETS)).encode()
        raw = _joined(random.choice(_METHODS), path, [*said, (b"Content-Length", b"0")], b"")
        is_health = path.rstrip(b"/") in (b"/readyz", b"/livez", b"/healthz")
        is_http = _is_plain(said, path) and path != b"*"
        return Shot(raw, is_http, code=code if is_http and not is_health else 0)

    def _unframed(self, random: Random) -> Shot:
        """Bytes that are nearly HTTP."""
        good = self._request(random).raw[:20_000]
        return Shot(unframed.broken(random, good), is_http=False, hangs_up=random.random() < 0.7)


def _path(random: Random, target: Target, method: bytes, name: str) -> bytes:
    """Most often one that the method is made for."""
    if random.random() < 0.25:
        path = targets.path(random, target)
    else:
        path = target.collection if method == b"POST" else f"{target.collection}/{name}"
    if method == b"DELETE" and target.is_precious and path.rstrip("/") == target.collection:
        path = f"{target.collection}/o9"
    return path.encode()


def _query(random: Random, content_type: bytes) -> bytes:
    if random.random() < 0.4:
        return queries.query(random).encode()
    if content_type == headers.APPLY:
        return random.choice([b"?fieldManager=me", b"?fieldManager=you&force=true"])
    return b""


def _content(random: Random, target: Target, method: bytes, name: str) -> tuple[bytes, bytes]:
    """The media type and the body of a request."""
    if random.random() < 0.001:
        return headers.JSON, bodies.large(random)
    if random.random() < 0.03:
        return headers.PROTOBUF, random.choice([b"", b"k8s\0"]) + odd.raw_bytes(random)
    media_type = headers.content_type(random) if random.random() < 0.1 else headers.JSON
    if method == b"PATCH":
        if media_type == headers.JSON:
            media_type = random.choice(headers.PATCHES)
        document = _operations(random) if b"json-patch" in media_type else _patch(random, target, name)
    elif method == b"DELETE":
        document = _options(random)
    else:
        document = targets.valid(random, target, name)
    if random.random() < 0.65:
        document = bodies.mutated(random, document)
    has_none = method in (b"GET", b"HEAD", b"DELETE") and random.random() < 0.8
    return media_type, b"" if has_none else bodies.encoded(random, document)


def _operations(random: Random) -> Any:
    names = ("add", "remove", "replace", "move", "copy", "test", "x", "")
    made = [
        {
            "op": random.choice(names),
            "path": random.choice(_POINTERS),
            "from": random.choice(_POINTERS),
            "value": odd.value(random),
        }
        for _ in range(random.choice([0, 1, 1, 2, 5, 60]))
    ]
    if random.random() < 0.05:
        made = [{"op": "copy", "from": "/metadata", "path": "/metadata/labels"}] * random.choice(
            [5, 40, 11_000]
        )
    return made


def _patch(random: Random, target: Target, name: str) -> Any:
    document = targets.valid(random, target, name)
    place = random.choice([document, document.get("spec"), document["metadata"]])
    if random.random() < 0.4 and isinstance(place, dict):
        directed = place | {random.choice(_DIRECTIVES): random.choice(_DIRECTED)}
        document = document | {"spec": directed}
    return document


def _options(random: Random) -> Any:
    return {
        "kind": random.choice(["DeleteOptions", "DeleteOptions", "Status", ""]),
        "apiVersion": random.choice(["v1", "meta.k8s.io/v1", "x", ""]),
        "gracePeriodSeconds": random.choice([0, 1, 30, -1, None, 2**63]),
        "propagationPolicy": random.choice(["Foreground", "Background", "Orphan", None, "x"]),
        "preconditions": random.choice([None, {"uid": "x"}, {"resourceVersion": "1"}, {}]),
        "dryRun": random.choice([None, [], ["All"], ["x"], ["All", "All"]]),
    }


def _composed(random: Random, method: bytes, path: bytes, said: Headers, body: bytes) -> bytes:
    encoding = next((value for name, value in said if name == b"Content-Encoding"), b"")
    packed = _packed(random, encoding, body)
    if random.random() < 0.1:
        return _joined(method, path, [*said, (b"Transfer-Encoding", b"chunked")], _chunked(random, packed))
    return _joined(method, path, [*said, (b"Content-Length", str(len(packed)).encode())], packed)


def _packed(random: Random, encoding: bytes, body: bytes) -> bytes:
    """A body as its encoding promises, or not."""
    if random.random() < 0.3 or encoding not in (b"gzip", b"deflate"):
        return body
    if random.random() < 0.05:
        body = b" " * 20_000_000
    made = gzip.compress(body, 1) if encoding == b"gzip" else zlib.compress(body)
    return made[: random.randrange(len(made))] if random.random() < 0.3 else made


def _chunked(random: Random, body: bytes) -> bytes:
    size = random.choice([1, 7, 1000]) if len(body) < 5000 else 65536
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def _joined(method: bytes, path: bytes, said: Headers, body: bytes) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (method, path), *(b"%b: %b" % pair for pair in said)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _is_plain(said: Headers, path: bytes) -> bool:
    """Whether no line is so long or so odd that HTTP itself forbids it."""
    sizes = [len(path), *(len(value) for _, value in said)]
    is_odd = any(value == b"h2c" or (name == b"Expect" and value == b"x") for name, value in said)
    return max(sizes) < 30_000 and not is_odd and path.startswith(b"/")


def complaint(shot: Shot, answer: Answer) -> str:
    """What is wrong with an answer; empty if nothing is."""
    if shot.code and answer.code != shot.code:
        return f"answered with {answer.code}, not {shot.code}"
    if answer.code == 504 and _TOO_NEW.encode() in answer.body:
        return ""
    if answer.code >= 500 or answer.code < 100:
        return f"answered with {answer.code}"
    if answer.code < 400 or not shot.is_http or shot.is_head:
        return ""
    return _status_complaint(answer)


def _status_complaint(answer: Answer) -> str:
    try:
        status = json.loads(answer.body)
    except ValueError:
        return "a refusal whose body is no JSON"
    if not isinstance(status, dict) or status.get("kind") != "Status" or status.get("status") != "Failure":
        return "a refusal that is no Status"
    if status.get("code") != answer.code or not status.get("message"):
        return "a Status without its code, or without a message"
    return ""
