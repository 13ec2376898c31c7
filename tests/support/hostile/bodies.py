"""Bodies: valid documents made wrong somewhere, as values and as text."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from support.hostile import odd

Document = Any
Spoiler = Callable[[Random, bytes], bytes]
_KEYS = (
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "kind",
    "apiVersion",
    "items",
    "$patch",
    "$retainKeys",
)


def mutated(random: Random, document: Document) -> Document:
    """A document with a few of its places made odd."""
    made = {"document": json.loads(json.dumps(document))}
    for _ in range(random.choice([1, 1, 1, 2, 3, 6])):
        container, key = random.choice(_places(made))
        if container is made:
            made["document"] = odd.value(random)
        else:
            _change(random, container, key)
    return made["document"]


def encoded(random: Random, document: Document) -> bytes:
    """A document as JSON, most often good JSON."""
    raw = json.dumps(document, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
    return random.choice(_SPOILERS)(random, raw) if random.random() < 0.25 else raw


def _places(document: Document) -> list[tuple[Any, Any]]:
    """Every container with each of its keys."""
    found: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        container = waiting.pop()
        keys = list(container) if isinstance(container, dict) else list(range(len(container)))
        for key in keys:
            found.append((container, key))
            if isinstance(container[key], dict | list):
                waiting.append(container[key])
    return found


def _change(random: Random, container: Any, key: Any) -> None:
    match random.randrange(8):
        case 0:
            del container[key]
        case 1 if isinstance(container, dict):
            container[odd.text(random)] = container.pop(key)
        case 2 if isinstance(container, dict):
            container[random.choice([*_KEYS, odd.text(random)])] = odd.value(random)
        case 3:
            container[key] = [container[key]] * random.choice([1, 2, 30])
        case 4:
            container[key] = {"a": container[key], "": container[key]}
        case 5 if isinstance(container, list):
            container.append(container[key])
        case _:
            container[key] = odd.value(random)


def _truncate(random: Random, raw: bytes) -> bytes:
    return raw[: random.randrange(len(raw) + 1)]


def _append(random: Random, raw: bytes) -> bytes:
    return raw + random.choice([b" ", b"\n", b"\0", b"x", b"{}", b",", b"]", b"\n---\n{}", raw])


def _prepend(random: Random, raw: bytes) -> bytes:
    return random.choice([b"\xef\xbb\xbf", b" ", b"\0", b"// x\n", b"k8s\0", b"\xff\xfe", b"\x1f\x8b"]) + raw


def _flip(random: Random, raw: bytes) -> bytes:
    changed = bytearray(raw or b"0")
    for _ in range(random.choice([1, 1, 4, 30])):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _literal(random: Random, raw: bytes) -> bytes:
    """Put what only looks like JSON in the place of a value."""
    literals = (
        b"NaN", b"-Infinity", b"1e999", b"-", b"01", b"1.", b".5", b"0x1", b"9" * 5000, b"1e-99999",
        b'"\\ud800"', b'"\\udc00\\ud800"', b'"\xff"', b'"\xed\xa0\x80"', b"'a'", b"undefined",
        b'"\\x41"', b'"\n"', b"tru", b'"', b"{,}", b"[,]", b"{1:2}", b'"\\u0000"', b"-0", b"1E5",
        b"123456789012345678901234567890.5",
    )  # fmt: skip
    place = raw.find(b":", random.randrange(len(raw) + 1))
    if place < 0:
        return random.choice(literals)
    end = min((at for at in (raw.find(b",", place), raw.find(b"}", place)) if at > 0), default=len(raw))
    return raw[: place + 1] + random.choice(literals) + raw[end:]


def _duplicate(random: Random, raw: bytes) -> bytes:
    """Say a key twice."""
    place = raw.find(b"{", random.randrange(len(raw) + 1))
    if place < 0:
        return raw + raw
    key = random.choice([*_KEYS, "a"])
    return raw[: place + 1] + f'"{key}":1,"{key}":{{}},'.encode() + raw[place + 1 :]


def _deep(random: Random, raw: bytes) -> bytes:
    depth = random.choice([200, 1000, 5000, 100_000])
    opened, closed = random.choice([(b"[", b"]"), (b'{"a":', b"}"), (b'{"spec":', b"}"), (b"[{", b"}]")])
    inner = opened * depth + b"0" + (closed * depth if random.random() < 0.7 else b"")
    return inner if random.random() < 0.5 else b'{"metadata":{"name":"deep"},"spec":' + inner + b"}"


def _noise(random: Random, raw: bytes) -> bytes:
    return random.choice([b"", b"null", b"[]", b"{}", b'""', b"0", b"true", odd.raw_bytes(random), raw[::-1]])


_SPOILERS: tuple[Spoiler, ...] = (
    _truncate, _append, _prepend, _flip, _literal, _literal, _duplicate, _duplicate, _deep, _noise,
)  # fmt: skip


def large(random: Random) -> bytes:
    """About as much as is taken at most, and more."""
    size = random.choice(
        [1_000_000, 1_500_000, 3 * 1024 * 1024 - 100, 3 * 1024 * 1024, 3 * 1024 * 1024 + 1, 5_000_000]
    )
    shape = random.randrange(4)
    if shape == 0:
        return b'{"metadata":{"name":"large"},"data":{"a":"' + b"x" * size + b'"}}'
    if shape == 1:
        return b"[" + b"0," * (size // 2) + b"0]"
    if shape == 2:
        return (
            b'{"metadata":{"name":"large","labels":{'
            + b",".join(b'"k%d":"v"' % n for n in range(size // 140))
            + b"}}}"
        )
    return b" " * size
