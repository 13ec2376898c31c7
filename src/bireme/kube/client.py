"""Typed calls of the Kubernetes API."""

import contextlib
import copy
import random as random_module
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, overload

import msgspec

from bireme.kube.calls import Caller, Request
from bireme.kube.clock import Clock, SystemClock
from bireme.kube.codec import OnMalformed, decode, decode_page, with_type
from bireme.kube.errors import ApiError, Conflict, Gone, KubeError, NotFound
from bireme.kube.exec import ExecResult, run_command
from bireme.kube.protocol import Transport
from bireme.kube.resources import PODS, Resource
from bireme.kube.retry import is_refused, is_transient
from bireme.kube.watch import EventDecoder, LineBuffer, WatchEvent

T = TypeVar("T")
Object = dict[str, Any]
PatchKind = Literal["merge", "json", "strategic", "apply"]

_CONTENT_TYPES: Final[dict[str, str]] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_SYSTEM_CLOCK: Final = SystemClock()
_RESTARTED_LISTS: Final = 2
_FIRST_PAGE: Final = 16
_PAGE_BYTES: Final = 8 << 20
"""How large a page of a list may be, by the mean size of the objects of the page before it."""
_WATCH_SECONDS: Final = 300
_NO_CONTENT: Final = 204
_BAD_REQUEST: Final = 400
"""The server closes a watch after once to twice this: so watchers spread over its replicas again."""


class Listing(NamedTuple, Generic[T]):
    """All objects of a list, and the version from which a watch goes on."""

    items: list[T]
    resource_version: str


class Client:
    """Calls over a transport. Where a call may be made twice, passing failures are tried again.

    get, list, delete of a UID, and apply: after no answer, 429 and 5xx. All other calls: only where it is
    certain that nothing was done. What is left is raised as the KubeError that it is.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock = _SYSTEM_CLOCK,
        random: Callable[[], float] = random_module.random,
        field_manager: str = "bireme",
        page_size: int = 500,
    ) -> None:
        self.clock = clock
        self.random = random
        self._transport = transport
        self._field_manager = field_manager
        self._page_size = page_size
        self._caller = Caller(transport, clock, random)

    def guarded(self, may_write: Callable[[], bool]) -> "Client":
        """The same client, which asks before each try of a write, and raises NotAllowedError if it may not.

        A call may be tried again half a minute later, when a lease that was held is another's.
        """
        other = copy.copy(self)
        other._caller = self._caller.guarded(may_write)
        return other

    async def close(self) -> None:
        await self._transport.close()

    def statistics(self) -> dict[tuple[str, str, str], int]:
        """How many calls were made, by verb, resource and code; the code is `error` without an answer."""
        return self._caller.statistics()

    # ---- reading

    @overload
    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object: ...
    @overload
    async def get(self, resource: Resource, namespace: str | None, name: str, *, type: type[T]) -> T: ...
    async def get(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        type: Any = dict,  # noqa: A002 - what the object is decoded into
    ) -> Any:
        """The object; NotFound if there is none."""
        path = resource.path(namespace, name)
        return decode(type, await self._caller.call(Request("get", resource, "GET", path, is_transient)))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        type: type[T],  # noqa: A002
        label_selector: str = "",
        field_selector: str = "",
        page_size: int | None = None,
        on_malformed: OnMalformed | None = None,
    ) -> Listing[T]:
        """All objects, as they were at one moment.

        Begins again when its pages are compacted away under its hands, in the end without pages. An object
        that does not fit `type` is left out where `on_malformed` takes note of it, else DecodeError.
        """
        selectors, size = _selectors(label_selector, field_selector), page_size or self._page_size
        for _ in range(_RESTARTED_LISTS):
            with contextlib.suppress(Gone):
                return await self._pages(resource, namespace, type, selectors, size, on_malformed)
        return await self._pages(resource, namespace, type, selectors, 0, on_malformed)

    async def _pages(
        self,
        resource: Resource,
        namespace: str | None,
        type_: type[T],
        selectors: Mapping[str, str],
        page_size: int,
        on_malformed: OnMalformed | None,
    ) -> Listing[T]:
        limit = min(_FIRST_PAGE, page_size)
        params = {**selectors, "limit": str(limit)} if page_size else dict(selectors)
        request = Request("list", resource, "GET", resource.path(namespace), is_transient, params)
        listing: Listing[T] = Listing([], "")
        while True:
            body = await self._caller.call(request)
            page = decode_page(type_, body, on_malformed)
            items = page.items or ()
            listing.items.extend(with_type(resource, item) for item in items)
            if not page.metadata.continue_:
                return listing._replace(resource_version=page.metadata.resource_version)
            # Others decide how large objects are: 500 pods of 1 MB do not fit into a controller's memory.
            limit = max(1, min(page_size, _PAGE_BYTES * len(items) // len(body)))
            more = {"limit": str(limit), "continue": page.metadata.continue_}
            request = request._replace(params={**params, **more})

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        type: type[T],  # noqa: A002
        label_selector: str = "",
        field_selector: str = "",
        on_malformed: OnMalformed | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """What happens after this version, with bookmarks, until the server closes the watch.

        Close the iterator (contextlib.aclosing) when leaving early. Nothing is tried again. Raises Gone if
        the version is no longer kept, now or later, and any other KubeError.
        """
        params = {
            **_selectors(label_selector, field_selector),
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(int(_WATCH_SECONDS * (1 + self.random()))),
        }
        decoder, lines = EventDecoder(type, on_malformed), LineBuffer()
        async with contextlib.AsyncExitStack() as stack:
            with self._counted("watch", resource):
                stream = self._transport.stream(resource.path(namespace), params=params)
                chunks = await stack.enter_async_context(stream)
            async for chunk in chunks:
                for line in lines.feed(chunk):
                    event = decoder.decode(line)
                    if event is not None:
                        yield event

    # ---- writing

    @overload
    async def create(
        self, resource: Resource, namespace: str | None, body: object, *, dry_run: bool = False
    ) -> Object: ...
    @overload
    async def create(
        self, resource: Resource, namespace: str | None, body: object, *, type: type[T], dry_run: bool = False
    ) -> T: ...
    async def create(
        self,
        resource: Resource,
        namespace: str | None,
        body: object,
        *,
        type: Any = dict,  # noqa: A002
        dry_run: bool = False,
    ) -> Any:
        """The object as created; AlreadyExists may mean that the answer to an earlier call was lost."""
        params = {"fieldManager": self._field_manager} | ({"dryRun": "All"} if dry_run else {})
        data = msgspec.json.encode(body)
        path = resource.path(namespace)
        request = Request("create", resource, "POST", path, is_refused, params, data)
        return decode(type, await self._caller.call(request))

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
    ) -> bool:
        """Delete the object; False if it was gone already, or has another UID than this."""
        options = {
            "gracePeriodSeconds": grace_seconds,
            "propagationPolicy": propagation,
            "preconditions": {"uid": uid} if uid is not None else None,
        }
        body = msgspec.json.encode({key: value for key, value in options.items() if value is not None})
        # Without its UID, a second try might hit the object's successor.
        again = is_refused if uid is None else is_transient
        path = resource.path(namespace, name)
        try:
            await self._caller.call(Request("delete", resource, "DELETE", path, again, {}, body))
        except NotFound:
            return False
        except Conflict:
            if uid is None:
                raise
            return False
        return True

    @overload
    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: object,
        *,
        kind: PatchKind = "merge",
        subresource: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> Object: ...
    @overload
    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: object,
        *,
        type: type[T],
        kind: PatchKind = "merge",
        subresource: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> T: ...
    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: object,
        *,
        kind: PatchKind = "merge",
        subresource: str | None = None,
        force: bool = False,
        dry_run: bool = False,
        type: Any = dict,  # noqa: A002
    ) -> Any:
        """Change the object and return it. `force` takes fields from other managers, for apply only."""
        params = {"fieldManager": self._field_manager} | ({"force": "true"} if force else {})
        params |= {"dryRun": "All"} if dry_run else {}
        request = Request(
            "apply" if kind == "apply" else "patch",
            resource,
            "PATCH",
            resource.path(namespace, name, subresource),
            is_transient if kind == "apply" else is_refused,
            params,
            msgspec.json.encode(body),
            _CONTENT_TYPES[kind],
        )
        return decode(type, await self._caller.call(request))

    @overload
    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: object,
        *,
        subresource: str | None = None,
    ) -> Object: ...
    @overload
    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: object,
        *,
        type: type[T],
        subresource: str | None = None,
    ) -> T: ...
    async def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: object,
        *,
        subresource: str | None = None,
        type: Any = dict,  # noqa: A002
    ) -> Any:
        """Put this in the object's place; Conflict if it has changed since the version in `body`."""
        params = {"fieldManager": self._field_manager}
        path = resource.path(namespace, name, subresource)
        data = msgspec.json.encode(body)
        request = Request("update", resource, "PUT", path, is_refused, params, data)
        return decode(type, await self._caller.call(request))

    # ---- pods

    async def evict(self, namespace: str, pod: str) -> None:
        """Ask for an eviction, as `kubectl drain` does; TooManyRequests if a disruption budget forbids it."""
        metadata = {"name": pod, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        path, data = PODS.path(namespace, pod, "eviction"), msgspec.json.encode(body)
        await self._caller.call(Request("evict", PODS, "POST", path, is_refused, body=data))

    async def bind(
        self,
        namespace: str,
        pod: str,
        node: str,
        *,
        uid: str | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Put a pod on a node, and annotate it; Conflict if it is on one, or has another UID than this."""
        metadata: dict[str, Any] = {"name": pod, "namespace": namespace}
        metadata |= {"uid": uid} if uid is not None else {}
        metadata |= {"annotations": dict(annotations)} if annotations else {}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        path = PODS.path(namespace, pod, "binding")
        data = msgspec.json.encode(body)
        await self._caller.call(Request("bind", PODS, "POST", path, is_refused, {}, data))

    async def log(
        self,
        namespace: str,
        pod: str,
        *,
        container: str | None = None,
        follow: bool = False,
        previous: bool = False,
        timestamps: bool = False,
        tail_lines: int | None = None,
        since_seconds: int | None = None,
        limit_bytes: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """A container's output in chunks, which end anywhere; close the iterator when leaving early.

        Raises ApiError 400 where there is no output yet, also for a pod that is not on a node: the API server
        answers 204 then, with no word of why.
        """
        options = {
            "container": container,
            "follow": follow or None,
            "previous": previous or None,
            "timestamps": timestamps or None,
            "tailLines": tail_lines,
            "sinceSeconds": since_seconds,
            "limitBytes": limit_bytes,
        }
        params = {key: _word(value) for key, value in options.items() if value is not None}
        async with contextlib.AsyncExitStack() as stack:
            with self._counted("log", PODS):
                stream = self._transport.stream(PODS.path(namespace, pod, "log"), params=params)
                try:
                    chunks = await stack.enter_async_context(stream)
                except ApiError as error:
                    if error.code != _NO_CONTENT:
                        raise
                    message = f"the pod {pod} has not been scheduled to a node yet"
                    raise ApiError(_BAD_REQUEST, "BadRequest", message) from error
            async for chunk in chunks:
                yield chunk

    async def exec(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str | None = None,
        stdin: bytes | None = None,
    ) -> ExecResult:
        """Run a command in a container to its end; over a transport with WebSockets only."""
        with self._counted("exec", PODS):
            return await run_command(
                self._transport, namespace, pod, command, container=container, stdin=stdin
            )

    @contextlib.contextmanager
    def _counted(self, verb: str, resource: Resource) -> Iterator[None]:
        try:
            yield
        except KubeError as error:
            self._caller.count(verb, resource, error)
            raise
        self._caller.count(verb, resource, None)


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in selectors.items() if value}


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
