"""A cache follows the API server through everything that happens to a watch."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bireme.api.core import Pod
from bireme.kube.cache import Cache
from bireme.kube.errors import Forbidden, Gone, ServerError, TooManyRequests, TransportError
from bireme.kube.resources import PODS
from unit.kube.scripted import (
    FakeClock,
    ScriptedTransport,
    Stream,
    bookmark,
    calm_client,
    page,
    pod,
    running,
    settle,
    status,
)

Seen = tuple[str | None, str | None]


class Bench:
    """A cache that runs, the server's end of its watch, and what it told of changes."""

    def __init__(self, **options: Any) -> None:
        self.clock = FakeClock()
        self.transport = ScriptedTransport()
        self.changes: list[Seen] = []
        self.cache = Cache(
            calm_client(self.transport, self.clock), PODS, Pod, on_change=self._changed, **options
        )

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        self.changes.append((words(old), words(new)))

    @property
    def stream(self) -> Stream:
        return self.transport.streams[-1]

    def taken(self) -> list[Seen]:
        """The changes since the last time."""
        changes, self.changes = self.changes, []
        return changes


def words(obj: Pod | None) -> str | None:
    return f"{obj.metadata.name}:{obj.metadata.resource_version}" if obj is not None else None


def run(test: Callable[[Bench], Awaitable[None]], *items: dict[str, Any], **options: Any) -> None:
    """Run a test with a cache that has listed `items` at version 10 and watches."""

    async def main() -> None:
        bench = Bench(**options)
        bench.transport.answer(200, page(10, *items))
        async with running(bench.cache.run()):
            await test(bench)

    asyncio.run(main())


def test_it_lists_in_pages_then_watches_from_that_version_on() -> None:
    async def main() -> None:
        bench = Bench(namespace="default", label_selector="a=b", page_size=1)
        bench.transport.answer(200, page(10, pod("a", 1), more="next"))
        bench.transport.answer(200, page(10, pod("b", 2)))
        assert not bench.cache.is_synced
        async with running(bench.cache.run()):
            await bench.cache.wait_synced()
            assert bench.cache.is_synced
            assert bench.taken() == [(None, "a:1"), (None, "b:2")]
            assert bench.stream.path == "/api/v1/namespaces/default/pods"
            assert bench.stream.params["resourceVersion"] == "10"
            assert bench.stream.params["labelSelector"] == "a=b"
            assert bench.cache.resource_version == "10"
        assert not bench.stream.is_open

    asyncio.run(main())


def test_it_shows_a_change_before_it_tells_of_it() -> None:
    async def main() -> None:
        bench = Bench()
        lengths: list[int] = []
        cache = Cache(
            calm_client(bench.transport, bench.clock),
            PODS,
            Pod,
            on_change=lambda _old, _new: lengths.append(len(cache)),
        )
        bench.transport.answer(200, page(10, pod("a", 1), pod("b", 2)))
        async with running(cache.run()):
            bench.stream.send("DELETED", pod("a", 11))
            await settle()
        assert lengths == [2, 2, 1]

    asyncio.run(main())


def test_events_change_it() -> None:
    async def test(bench: Bench) -> None:
        bench.stream.send("ADDED", pod("b", 11))
        bench.stream.send("MODIFIED", pod("a", 12, phase="Running"))
        bench.stream.send("DELETED", pod("b", 13))
        await settle()
        assert bench.taken() == [(None, "a:1"), (None, "b:11"), ("a:1", "a:12"), ("b:13", None)]
        found = bench.cache.get("default", "a")
        assert found is not None
        assert found.status.phase == "Running"
        assert bench.cache.get("default", "b") is None
        assert [words(each) for each in bench.cache.all()] == ["a:12"]
        assert bench.cache.resource_version == "13"

    run(test, pod("a", 1))


def test_the_same_version_again_is_no_change() -> None:
    async def test(bench: Bench) -> None:
        bench.stream.send("ADDED", pod("a", 1))
        bench.stream.send("MODIFIED", pod("a", 1))
        bench.stream.send("DELETED", pod("never there", 11))
        await settle()
        assert bench.taken() == [(None, "a:1")]

    run(test, pod("a", 1))


def test_children_are_found_by_owner() -> None:
    async def test(bench: Bench) -> None:
        bench.stream.send("ADDED", pod("b", 11, owner="job"))
        bench.stream.send("MODIFIED", pod("a", 12, owner="other"))
        await settle()
        assert [words(each) for each in bench.cache.by_owner("job")] == ["b:11"]
        assert [words(each) for each in bench.cache.by_owner("other")] == ["a:12"]
        bench.stream.send("DELETED", pod("b", 13, owner="job"))
        await settle()
        assert bench.cache.by_owner("job") == []

    run(test, pod("a", 1, owner="job"))


def test_a_closed_watch_resumes_where_a_bookmark_left_it() -> None:
    async def test(bench: Bench) -> None:
        bench.stream.send("BOOKMARK", bookmark(50))
        bench.stream.close()
        await settle()
        assert len(bench.transport.streams) == 1
        await bench.clock.advance(0.1)
        assert len(bench.transport.streams) == 2
        assert bench.stream.params["resourceVersion"] == "50"
        assert bench.taken() == [(None, "a:1")]
        assert len(bench.transport.sent) == 1

    run(test, pod("a", 1))


def test_a_broken_watch_resumes_from_its_last_event() -> None:
    async def test(bench: Bench) -> None:
        bench.stream.send("ADDED", pod("b", 12))
        bench.stream.fail(TransportError("reset by peer"))
        await settle()
        assert str(bench.cache.last_error) == "reset by peer"
        await bench.clock.advance(0.1)
        assert bench.stream.params["resourceVersion"] == "12"
        bench.stream.send("BOOKMARK", bookmark(13))
        await settle()
        assert bench.cache.last_error is None

    run(test)


@pytest.mark.parametrize("how", ["status", "event", "too large"])
def test_a_lost_version_means_a_list_that_tells_what_was_missed(how: str) -> None:
    async def test(bench: Bench) -> None:
        bench.taken()
        bench.transport.answer(200, page(99, pod("kept", 3), pod("changed", 40), pod("came", 41)))
        if how == "status":
            bench.transport.refuse_stream(Gone(410, "Expired"))
            bench.stream.close()
        elif how == "event":
            bench.stream.send("ERROR", status(410, "Expired"))
        else:
            causes = [{"reason": "ResourceVersionTooLarge"}]
            bench.transport.refuse_stream(ServerError(504, "Timeout", "", {"causes": causes}))
            bench.stream.close()
        await bench.clock.advance(1)
        assert bench.taken() == [("vanished:1", None), ("changed:2", "changed:40"), (None, "came:41")]
        assert bench.stream.params["resourceVersion"] == "99"
        assert bench.cache.statistics()["lists"] == 2

    run(test, pod("vanished", 1), pod("changed", 2), pod("kept", 3))


def test_an_object_replaced_while_we_looked_away_went_and_came() -> None:
    async def test(bench: Bench) -> None:
        bench.taken()
        bench.transport.answer(200, page(99, pod("a", 40, uid="another")))
        bench.stream.send("ERROR", status(410, "Expired"))
        await bench.clock.advance(1)
        assert bench.taken() == [("a:1", None), (None, "a:40")]

    run(test, pod("a", 1))


def test_versions_that_are_lost_again_and_again_slow_it_down() -> None:
    async def test(bench: Bench) -> None:
        for _ in range(4):
            bench.transport.answer(200, page(10))
            bench.transport.refuse_stream(Gone(410, "Expired"))
        bench.stream.close()
        lists = []
        for _ in range(8):
            await bench.clock.advance(0.1)
            lists.append(bench.cache.statistics()["lists"])
        assert lists == [1, 1, 2, 2, 2, 2, 3, 3]

    run(test)


def test_a_silent_watch_is_closed_and_resumed() -> None:
    async def test(bench: Bench) -> None:
        silent = bench.stream
        await bench.clock.advance(60)
        silent.send("BOOKMARK", bookmark(20))
        await bench.clock.advance(89)
        assert silent.is_open
        await bench.clock.advance(2)
        assert not silent.is_open
        assert "silent for 90 s" in str(bench.cache.last_error)
        assert bench.cache.statistics()["silences"] == 1
        assert bench.stream is not silent
        assert bench.stream.params["resourceVersion"] == "20"

    run(test)


def test_what_it_may_not_do_it_tries_again_ever_more_slowly() -> None:
    async def main() -> None:
        bench = Bench()
        for _ in range(20):
            bench.transport.answer(403, status(403, "Forbidden"))
        async with running(bench.cache.run()):
            await bench.clock.advance(0.1 + 0.2 + 0.4 + 0.8)
            assert len(bench.transport.sent) == 5
            assert isinstance(bench.cache.last_error, Forbidden)
            assert not bench.cache.is_synced
            await bench.clock.advance(60)
            tried = len(bench.transport.sent)
            await bench.clock.advance(60)
            assert len(bench.transport.sent) - tried == 2

    asyncio.run(main())


def test_patience_that_the_server_asks_for_is_had() -> None:
    async def test(bench: Bench) -> None:
        bench.transport.refuse_stream(TooManyRequests(429, retry_after=5))
        bench.stream.close()
        await bench.clock.advance(5)
        assert len(bench.transport.streams) == 1
        await bench.clock.advance(1)
        assert len(bench.transport.streams) == 2

    run(test)


def test_a_malformed_object_does_not_stop_it_and_its_last_good_version_stays() -> None:
    async def test(bench: Bench) -> None:
        bench.taken()
        bench.stream.send("MODIFIED", pod("a", 11) | {"spec": 1})
        bench.stream.send("ADDED", pod("b", 12))
        await settle()
        assert bench.taken() == [(None, "b:12")]
        assert list(bench.cache.malformed) == [("default", "a")]
        bench.transport.answer(200, page(20, pod("a", 11) | {"spec": 1}, pod("b", 12)))
        bench.stream.send("ERROR", status(410, "Expired"))
        await bench.clock.advance(1)
        assert bench.taken() == []
        assert words(bench.cache.get("default", "a")) == "a:1"
        bench.stream.send("MODIFIED", pod("a", 21))
        await settle()
        assert bench.taken() == [("a:1", "a:21")]
        assert bench.cache.malformed == {}

    run(test, pod("a", 1))


def test_a_stream_of_nonsense_means_a_new_list() -> None:
    async def test(bench: Bench) -> None:
        bench.transport.answer(200, page(20, pod("b", 11)))
        bench.stream.send_bytes(b"{nonsense\n")
        await bench.clock.advance(1)
        assert bench.taken() == [(None, "a:1"), ("a:1", None), (None, "b:11")]
        assert bench.stream.params["resourceVersion"] == "20"

    run(test, pod("a", 1))


def test_an_exception_of_the_callback_ends_it() -> None:
    def fail(_old: Pod | None, _new: Pod | None) -> None:
        raise RuntimeError("a bug")

    async def main() -> None:
        bench = Bench()
        cache = Cache(calm_client(bench.transport, bench.clock), PODS, Pod, on_change=fail)
        bench.transport.answer(200, page(10))
        task = asyncio.ensure_future(cache.run())
        await settle()
        bench.stream.send("ADDED", pod("a", 11))
        with pytest.raises(RuntimeError, match="a bug"):
            await task
        assert not bench.stream.is_open

    asyncio.run(main())
