"""A watch yields typed events, whatever the chunks they come in."""

import asyncio
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.api.core import ConfigMap, Pod
from bireme.kube import codec
from bireme.kube.client import Client
from bireme.kube.codec import Malformed, decode_page
from bireme.kube.errors import ApiError, DecodeError, Gone, KubeError, TransportError
from bireme.kube.resources import PODS
from bireme.kube.watch import EventDecoder, LineBuffer, WatchEvent
from unit.kube.scripted import (
    InstantClock,
    ScriptedTransport,
    Stream,
    bookmark,
    calm_client,
    pod,
    settle,
    status,
)


def line(type_: str, obj: object) -> bytes:
    return json.dumps({"type": type_, "object": obj}).encode()


@given(st.lists(st.binary().map(lambda data: data.replace(b"\n", b"")), max_size=5), st.data())
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    text = b"".join(each + b"\n" for each in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    buffer = LineBuffer()
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert [each for piece in pieces for each in buffer.feed(piece)] == lines


def test_an_error_is_raised_as_what_it_is_whether_or_not_it_fits_the_type() -> None:
    expired = line("ERROR", status(410, "Expired"))
    for decode in (EventDecoder(Pod).decode, EventDecoder(ConfigMap).decode, EventDecoder(dict).decode):
        with pytest.raises(Gone) as caught:
            decode(expired)
        assert caught.value.code == 410
    with pytest.raises(ApiError, match="500 InternalError"):
        EventDecoder(Pod).decode(line("ERROR", status(500, "InternalError")))


def test_a_malformed_object_is_told_of_and_left_out() -> None:
    found: list[Malformed] = []
    decode = EventDecoder(Pod, found.append).decode
    assert decode(line("MODIFIED", pod("a", 3) | {"spec": 1})) is None
    assert found == [Malformed("default", "a", "Expected `object`, got `int` - at `$.object.spec`")]


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize("levels", [1_100, 9_900])
def test_an_object_that_is_nested_too_deeply_is_told_of_and_left_out(levels: int) -> None:
    """Who may create a job could stop the controller with it."""
    found: list[Malformed] = []
    deep = json.dumps(pod("a", 3) | {"deep": "HERE"}).encode().replace(b'"HERE"', nested(levels))
    event = b'{"type":"MODIFIED","object":' + deep + b"}"
    assert EventDecoder(Pod, found.append).decode(event) is None
    listed = (
        b'{"metadata":{"resourceVersion":"9"},"items":['
        + deep
        + b","
        + json.dumps(pod("b", 4)).encode()
        + b"]}"
    )
    page = decode_page(Pod, listed, found.append)
    assert [each.metadata.name for each in page.items or ()] == ["b"]
    assert [(each.namespace, each.name) for each in found] == [("default", "a")] * 2
    with pytest.raises(DecodeError):
        EventDecoder(Pod).decode(event)
    with pytest.raises(DecodeError):
        decode_page(Pod, listed, None)
    with pytest.raises(DecodeError):
        codec.decode(dict, deep)


def test_a_deletion_is_read_though_its_object_is_malformed() -> None:
    found: list[Malformed] = []
    event = EventDecoder(Pod, found.append).decode(line("DELETED", pod("a", 3) | {"spec": 1}))
    assert event is not None
    assert (event.type, event.object.metadata.name, found) == ("DELETED", "a", [])


@pytest.mark.parametrize(
    "text",
    [b'{"type":"ADDED","object":{"spec":1}', b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}'],
    ids=["misfit and cut off", "not UTF-8"],
)
def test_an_event_that_is_broken_in_any_way_is_a_decode_error(text: bytes) -> None:
    with pytest.raises(DecodeError):
        EventDecoder(Pod, lambda _malformed: None).decode(text)


def test_a_bookmark_is_read_for_its_version_alone() -> None:
    """An API server writes `containers: null` in those of pods."""
    found: list[Malformed] = []
    bare = {"metadata": {"resourceVersion": "9"}, "spec": {"containers": None}}
    event = EventDecoder(Pod, found.append).decode(line("BOOKMARK", bare))
    assert event is not None
    assert (event.type, event.object.metadata.resource_version) == ("BOOKMARK", "9")
    assert found == []


@pytest.mark.parametrize(
    "text", [b"{", b"[]", line("BOOKMARK", {"spec": 1}), b'{"type":"ADDED"}', line("MODIFIED", {"spec": 1})]
)
def test_what_is_no_event_is_an_error(text: bytes) -> None:
    with pytest.raises(DecodeError):
        EventDecoder(Pod).decode(text)


def test_an_empty_line_is_no_event() -> None:
    assert EventDecoder(Pod).decode(b"") is None


class Bench:
    def __init__(self) -> None:
        self.transport = ScriptedTransport()
        self.client: Client = calm_client(self.transport, InstantClock())
        self.seen: list[WatchEvent[Pod]] = []

    async def read(self, most: int = 1000) -> None:
        watch = self.client.watch(PODS, "default", resource_version="5", type=Pod, label_selector="a=b")
        async with contextlib.aclosing(watch):
            async for event in watch:
                self.seen.append(event)
                if len(self.seen) == most:
                    break

    async def opened(self) -> Stream:
        await settle()
        return self.transport.streams[0]


def test_a_watch_asks_for_bookmarks_from_its_version_on() -> None:
    async def main() -> dict[str, str]:
        bench = Bench()
        reading = asyncio.ensure_future(bench.read())
        stream = await bench.opened()
        stream.close()
        await reading
        return stream.params

    assert asyncio.run(main()) == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "labelSelector": "a=b",
        "timeoutSeconds": "600",
    }


def test_events_come_as_they_are_sent_and_end_when_the_server_closes() -> None:
    async def main() -> list[tuple[str, str, str]]:
        bench = Bench()
        reading = asyncio.ensure_future(bench.read())
        stream = await bench.opened()
        stream.send("ADDED", pod("a", 6))
        stream.send("MODIFIED", pod("a", 7))
        stream.send("DELETED", pod("a", 8))
        stream.send("BOOKMARK", bookmark(9))
        stream.close()
        await reading
        return [
            (event.type, event.object.metadata.name, event.object.metadata.resource_version)
            for event in bench.seen
        ]

    assert asyncio.run(main()) == [
        ("ADDED", "a", "6"),
        ("MODIFIED", "a", "7"),
        ("DELETED", "a", "8"),
        ("BOOKMARK", "", "9"),
    ]


def test_leaving_a_watch_closes_its_stream() -> None:
    async def main() -> bool:
        bench = Bench()
        reading = asyncio.ensure_future(bench.read(most=1))
        stream = await bench.opened()
        stream.send("ADDED", pod("a", 6))
        await reading
        return stream.is_open

    assert asyncio.run(main()) is False


@pytest.mark.parametrize("error", [Gone(410, "Expired"), TransportError("reset")], ids=["gone", "reset"])
def test_a_watch_that_is_refused_or_breaks_says_so(error: KubeError) -> None:
    async def refused() -> None:
        bench = Bench()
        bench.transport.refuse_stream(error)
        await bench.read()

    async def broken() -> None:
        bench = Bench()
        reading = asyncio.ensure_future(bench.read())
        (await bench.opened()).fail(error)
        await reading

    for main in (refused, broken):
        with pytest.raises(type(error)):
            asyncio.run(main())


def test_watches_are_counted() -> None:
    async def main() -> dict[tuple[str, str, str], int]:
        bench = Bench()
        bench.transport.refuse_stream(Gone(410))
        with pytest.raises(Gone):
            await bench.read()
        reading = asyncio.ensure_future(bench.read())
        (await bench.opened()).close()
        await reading
        return bench.client.statistics()

    assert asyncio.run(main()) == {("watch", "pods", "410"): 1, ("watch", "pods", "200"): 1}


def test_a_log_is_handed_on_as_it_comes() -> None:
    async def main() -> tuple[bytes, dict[str, str]]:
        bench = Bench()
        chunks = bench.client.log("ns", "a", container="main", follow=True, tail_lines=0)
        first = asyncio.ensure_future(anext(chunks))
        stream = await bench.opened()
        stream.send_bytes(b"half a li")
        data = await first
        await chunks.aclose()
        return data, stream.params

    assert asyncio.run(main()) == (b"half a li", {"container": "main", "follow": "true", "tailLines": "0"})


def test_an_untyped_watch_yields_plain_data() -> None:
    event = EventDecoder(dict).decode(line("ADDED", {"metadata": {"name": "a"}, "data": {"x": "y"}}))
    assert event is not None
    assert event.object == {"metadata": {"name": "a"}, "data": {"x": "y"}}
