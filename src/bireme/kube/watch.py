"""The stream of a watch: chunks to lines, lines to events."""

from typing import Generic, Literal, TypeVar

import msgspec

from bireme.kube.codec import MISFIT, UNREADABLE, OnMalformed, decoder, report
from bireme.kube.errors import DecodeError, error_from
from bireme.kube.nesting import deep_nesting

T = TypeVar("T")


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """Something has happened to an object.

    `object` is as it is now; of a DELETED one as it last was; of a BOOKMARK only the resource version counts.
    """

    # ERROR never leaves this module.
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: T


class LineBuffer:
    """Cuts a stream of chunks into lines; what has no end yet waits."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are whole now, without their ends."""
        *lines, rest = chunk.split(b"\n")
        if lines and self._parts:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
        if rest:
            self._parts.append(rest)
        return lines


class _Envelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bare(msgspec.Struct):
    metadata: msgspec.Raw


class EventDecoder(Generic[T]):
    """Decodes the lines of one watch; every field of `kind` must have a default, as bookmarks are bare."""

    def __init__(self, kind: type[T], on_malformed: OnMalformed | None = None) -> None:
        self._decode = decoder(WatchEvent[kind]).decode  # type: ignore[valid-type]
        self._on_malformed = on_malformed

    def decode(self, line: bytes) -> WatchEvent[T] | None:
        """The event; None for a line that holds none.

        Raises the ApiError that the server reports in the stream, and DecodeError.
        """
        try:
            event: WatchEvent[T] = self._decode(line)
        except MISFIT as error:
            return self._take_misfit(line, error)
        except UNREADABLE as error:
            if not line.strip():
                return None
            raise DecodeError(f"watch event: {error}") from error
        if event.type == "ERROR":
            self._raise_reported(line)
        return event

    def _take_misfit(self, line: bytes, error: Exception) -> WatchEvent[T] | None:
        try:
            with deep_nesting():
                envelope = msgspec.json.decode(line, type=_Envelope)
        except UNREADABLE:
            raise DecodeError(f"watch event: {error}") from error
        if envelope.type == "ERROR":
            self._raise_reported(line)
        if envelope.type in ("BOOKMARK", "DELETED"):
            return self._read_bare(envelope)
        report(envelope.object, error, self._on_malformed)
        return None

    def _read_bare(self, envelope: _Envelope) -> WatchEvent[T]:
        """An event without its object: a pod's bookmark says `containers: null`, and what is gone is gone."""
        try:
            with deep_nesting():
                bare = msgspec.json.decode(envelope.object, type=_Bare)
            event: WatchEvent[T] = self._decode(msgspec.json.encode({"type": envelope.type, "object": bare}))
        except UNREADABLE as error:
            raise DecodeError(f"watch event: {error}") from error
        return event

    def _raise_reported(self, line: bytes) -> None:
        with deep_nesting():
            status = msgspec.json.decode(line, type=_Envelope).object
        raise error_from(0, {}, bytes(status))
