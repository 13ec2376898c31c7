"""From JSON to structs: one pass, straight into the type that the caller wants."""

import functools
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, NoReturn, TypeVar

import msgspec

from bireme.api.meta import ListMeta
from bireme.kube.errors import DecodeError
from bireme.kube.nesting import deep_nesting
from bireme.kube.resources import Resource

T = TypeVar("T")

MISFIT: Final = (msgspec.ValidationError, RecursionError)
"""It is JSON, and not of the type that is wanted; or it is nested too deeply to tell."""
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Malformed(NamedTuple):
    """An object that does not fit its type, such as one stored before its CRD had a schema."""

    namespace: str
    name: str
    problem: str


OnMalformed = Callable[[Malformed], None]


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None  # Go writes an empty list as null in places.


class _Name(msgspec.Struct):
    namespace: str = ""
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Name = msgspec.field(default_factory=_Name)


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """The decoder of a type; building one costs more than most decodings, so it is kept."""
    return _decoder(kind)


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def decode(kind: type[T], body: bytes) -> T:
    """An object. Raises DecodeError."""
    try:
        result: T = decoder(kind).decode(body)
    except UNREADABLE as error:
        raise DecodeError(f"{kind.__name__}: {error}") from error
    return result


def decode_page(kind: type[T], body: bytes, on_malformed: OnMalformed | None) -> Page[T]:
    """A page of a list, without what is malformed where somebody takes note of it, else DecodeError."""
    try:
        page: Page[T] = decoder(Page[kind]).decode(body)  # type: ignore[valid-type]
    except MISFIT as error:
        if on_malformed is None:
            raise DecodeError(f"list of {kind.__name__}: {error}") from error
        return _decode_one_by_one(kind, body, on_malformed)
    except UNREADABLE as error:
        raise DecodeError(f"list of {kind.__name__}: {error}") from error
    return page


def _decode_one_by_one(kind: type[T], body: bytes, on_malformed: OnMalformed) -> Page[T]:
    with deep_nesting():
        raw = decode(Page[msgspec.Raw], body)
    items = []
    for each in raw.items or ():
        try:
            items.append(decoder(kind).decode(each))
        except MISFIT as error:
            on_malformed(_describe(each, error))
    return Page(raw.metadata, items)


def report(raw: msgspec.Raw, error: Exception, on_malformed: OnMalformed | None) -> None:
    """Tell of an object that does not fit; nobody to tell is a DecodeError."""
    malformed = _describe(raw, error)
    if on_malformed is None:
        _raise(malformed, error)
    on_malformed(malformed)


def _describe(raw: msgspec.Raw, error: Exception) -> Malformed:
    try:
        with deep_nesting():
            name = msgspec.json.decode(raw, type=_Named).metadata
    except UNREADABLE:
        name = _Name()
    return Malformed(name.namespace, name.name, str(error))


def _raise(malformed: Malformed, error: Exception) -> NoReturn:
    where = f"{malformed.namespace}/{malformed.name}".lstrip("/")
    raise DecodeError(f"{where}: {malformed.problem}") from error


def with_type(resource: Resource, item: T) -> T:
    """The item of a list, told what it is: an API server leaves that out there."""
    if isinstance(item, dict):
        typed: Any = {"apiVersion": resource.api_version, "kind": resource.kind, **item}
        return typed  # type: ignore[no-any-return]
    return item
