"""From an HTTP request to what answers it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict

from bireme.apiserver import errors, reviews
from bireme.apiserver.backend import Backend
from bireme.apiserver.kinds import POD
from bireme.apiserver.objects import MalformedError, copied
from bireme.apiserver.printing.table import partial, partial_list, table
from bireme.apiserver.protobuf.messages import MEDIA_TYPE as PROTOBUF
from bireme.apiserver.protobuf.messages import read_object
from bireme.apiserver.reviews import User
from bireme.apiserver.routes import Reply, Request, Target, find_target, open_watch, serve, watch_seconds
from bireme.apiserver.rules import Object
from bireme.apiserver.serving import watching
from bireme.apiserver.serving.access import HEALTH, Access
from bireme.apiserver.serving.channels import ChannelSession, open_socket
from bireme.apiserver.serving.connections import Connection
from bireme.apiserver.serving.documents import Documents
from bireme.apiserver.serving.gateway import (
    Gateway,
    NoGateway,
    read_exec_options,
    read_log_options,
)
from bireme.apiserver.serving.negotiation import choose_form
from bireme.apiserver.watch import Watcher

MOST_BODY: Final = 3 * 1024 * 1024
MOST_WATCHES: Final = 2_000
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_STREAMED: Final = ("exec", "attach", "log", "portforward")
_HEADERS: Final = {"Cache-Control": "no-cache, private"}
_JSON: Final = "application/json"
_JSON_HEADERS: Final = _HEADERS | {"Content-Type": _JSON}
_BEGUN: Final = web.RequestKey("begun", bool)
_TRUSTED: Final = web.RequestKey("trusted", bool)
_BODY_SECONDS: Final = 60.0
"""How long a body may take; a kube-apiserver gives a whole request as long."""
_MOST_CLIENT: Final = 128
_MOST_KNOWN: Final = 256
_encode: Final = msgspec.json.Encoder().encode
_log = logging.getLogger(__name__)


class Handler:
    """Answers the requests of clients that have access."""

    def __init__(self, backend: Backend, access: Access, gateway: Gateway | None = None) -> None:
        self._backend, self._access = backend, access
        self._gateway = gateway or NoGateway()
        self._documents = Documents(backend.store.registry)
        self._watches: set[asyncio.Event] = set()
        self._is_closing = False
        self.is_ready = False

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; what is refused, or goes wrong, is answered by a Status."""
        if isinstance(request.protocol, Connection):
            request.protocol.begin_request()
        response = await self._respond(request)
        # After an upgrade nothing is read as HTTP any more: another request would wait without end. A client
        # without the token gets one answer per connection.
        if "Upgrade" in request.headers or not request.get(_TRUSTED):
            response.force_close()
        return response

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            if request.path in HEALTH:
                return self._health(request)
            user = self._access.check(request.headers)
            _trust(request)
            return await self._answer(request, user)
        except errors.StatusError as refused:
            status = _blamed(refused.status)
            headers = _warnings(refused.warnings)
            headers.update(_retry(refused))
            return _json(status["code"], _encode(status), headers)
        except RecursionError:
            return _json(400, _encode(errors.bad_request("the body is nested too deeply").status))
        except OverflowError:
            # An integer that is no float: Go's readers of JSON refuse it, too.
            return _json(400, _encode(errors.bad_request("a number in the body is too large").status))
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            _log.exception("%s %s failed", request.method, request.path)
            if request.get(_BEGUN) and request.transport is not None:
                # Another answer inside of this one would be no end: the client would wait for ever.
                request.transport.close()
                raise ConnectionAbortedError from None
            failed = errors.status(500, "InternalError", "an internal error: the server's log tells more")
            return _json(500, _encode(failed))

    def close(self) -> None:
        """End all watches, and serve no others."""
        self._is_closing = True
        for ready in self._watches:
            ready.set()

    # ---- which way

    def _health(self, request: web.BaseRequest) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        ready = self.is_ready or request.path == "/livez"
        return web.Response(status=200 if ready else 500, text="ok" if ready else "starting")

    async def _answer(self, request: web.BaseRequest, user: User) -> web.StreamResponse:
        path = request.raw_path.partition("?")[0]
        if (document := self._documents.find(path, request.headers.get("Accept", ""))) is not None:
            if request.method not in ("GET", "HEAD"):
                raise errors.method_not_allowed()
            return document.response(request.headers.get("If-None-Match", ""))
        if (review := _find_review(path)) is not None:
            return await self._review(request, *review, user)
        target = await self._find(path)
        if target.subresource in _STREAMED and target.kind.resource == POD.resource:
            return await self._streamed(request, target)
        if request.method == "GET" and not target.name and request.query.get("watch") in _TRUE:
            return await self._watch(request, path)
        return await self._serve(request, path, target)

    async def _find(self, path: str) -> Target:
        """What a path names. A kind of a CRD is there once the CRD is saved, the others always are."""
        store = self._backend.store
        with contextlib.suppress(errors.StatusError):
            target = find_target(store, path)
            if not target.kind.custom:
                return target
        return await self._backend.read(lambda: find_target(store, path))

    async def _review(
        self, request: web.BaseRequest, resource: str, namespace: str, user: User
    ) -> web.Response:
        if request.method != "POST":
            raise errors.method_not_allowed()
        body, _ = await self._read(request)
        try:
            decoded: object = copied(body)
        except MalformedError as error:
            raise errors.bad_request(str(error)) from error
        return _json(201, _encode(reviews.answer(resource, decoded, namespace, user)))

    async def _serve(self, request: web.BaseRequest, path: str, target: Target) -> web.Response:
        registry = self._backend.store.registry
        edition = registry.edition
        form = choose_form(request.headers.get("Accept", ""))
        params = _params(request.query)
        body, content_type = await self._read(request)
        asked = Request(
            request.method,
            path,
            params,
            body,
            content_type,
            client_name(request.headers.get("User-Agent", "")),
        )
        backend = self._backend
        now = backend.now()

        def served() -> Reply:
            # A CRD may have come or gone while the body was read.
            found = target if registry.edition == edition else find_target(backend.store, path)
            return serve(backend.store, found, asked, now)

        reads = request.method in ("GET", "HEAD")
        reply = await (backend.read(served) if reads else backend.write(served))
        return _json(reply.code, self._written(reply, form, params), _warnings(reply.warnings))

    async def _read(self, request: web.BaseRequest) -> tuple[bytes, str]:
        """The body, as JSON where it can be read as such, and its media type."""
        body, content_type = await read_body(request), request.headers.get("Content-Type", _JSON)
        if content_type.partition(";")[0].strip().lower() != PROTOBUF or not body:
            return body, content_type
        try:
            return _encode(read_object(body)), _JSON
        except MalformedError as error:
            raise errors.bad_request(str(error)) from error

    def _written(self, reply: Reply, form: str, params: Mapping[str, str]) -> bytes:
        """The body of an answer, in the form that the client takes."""
        if reply.kind is None or form == "object":
            return reply.json()
        page = reply.page
        items = [reply.body()] if page is None else page.items
        if form == "partial":
            whole = partial(items[0]) if page is None else partial_list(items, page.metadata)
            return _encode(whole)
        include = read_include(params)
        metadata = None if page is None else page.metadata
        return _encode(table(reply.kind, items, self._backend.now(), include=include, metadata=metadata))

    # ---- streams

    async def _watch(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        params = _params(request.query)
        form = choose_form(request.headers.get("Accept", ""))
        include = read_include(params) if form == "table" else ""
        if len(self._watches) >= MOST_WATCHES:
            raise errors.too_many("watches")
        ready = asyncio.Event()
        seconds = min(watch_seconds(params) or watching.LONGEST_SECONDS, watching.LONGEST_SECONDS)
        async with self._opened(path, params, ready) as watcher:
            response = web.StreamResponse(headers=_HEADERS | {"Content-Type": _JSON})
            response.enable_chunked_encoding()
            await _begin(response, request)
            printer = watching.Printer(form, include, self._backend.now)
            await watching.stream(
                response,
                watcher,
                ready,
                printer,
                seconds=seconds,
                bookmarks=params.get("allowWatchBookmarks") in _TRUE,
                is_closing=lambda: self._is_closing,
            )
            await response.write_eof()
        return response

    @contextlib.asynccontextmanager
    async def _opened(
        self, path: str, params: Mapping[str, str], ready: asyncio.Event
    ) -> AsyncIterator[Watcher]:
        """A watcher, closed afterwards: also if its client goes before it hears of it."""
        store = self._backend.store
        with contextlib.ExitStack() as opened:

            def open_one() -> Watcher:
                return opened.enter_context(contextlib.closing(open_watch(store, path, params, ready.set)))

            watcher = await self._backend.read(open_one)
            self._watches.add(ready)
            opened.callback(self._watches.discard, ready)
            yield watcher

    async def _streamed(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        try:
            pod = await self._find_pod(target)
        except errors.StatusError:
            is_log = target.subresource == "log"
            retained = self._gateway.departed(target.namespace or "", target.name) if is_log else None
            if retained is None:
                raise
            # Its client can't look up which containers it had.
            return await self._logs(request, retained, retained["spec"]["containers"][0]["name"])
        if target.subresource == "log":
            return await self._logs(request, pod)
        if target.subresource == "portforward":
            address = pod.get("status", {}).get("podIP") or "127.0.0.1"
            name = pod["metadata"]["name"]
            raise errors.bad_request(
                f"port-forward is not offered here: connect to {address}, where pod {name} listens"
            )
        return await self._exec(request, pod, is_attach=target.subresource == "attach")

    async def _find_pod(self, target: Target) -> Object:
        store = self._backend.store
        return await self._backend.read(lambda: store.get(POD, target.name, namespace=target.namespace))

    async def _logs(self, request: web.BaseRequest, pod: Object, container: str = "") -> web.StreamResponse:
        """Answer with the output of a container, by default of this one."""
        if request.method != "GET":
            raise errors.method_not_allowed()
        options = read_log_options(pod, {"container": container, **_params(request.query)})
        response = web.StreamResponse(headers=_HEADERS | {"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        if not pod["spec"].get("nodeName"):
            await _begin(response, request)
        else:
            async with self._gateway.logs(pod, options) as chunks:
                await _begin(response, request)
                async for chunk in chunks:
                    await response.write(chunk)
        await response.write_eof()
        return response

    async def _exec(self, request: web.BaseRequest, pod: Object, *, is_attach: bool) -> web.StreamResponse:
        command = () if is_attach else tuple(request.query.getall("command", ()))
        options = read_exec_options(pod, _params(request.query), command)
        if not is_attach and not command:
            raise errors.bad_request("you must specify a command")
        if not pod["spec"].get("nodeName"):
            raise errors.bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
        socket = open_socket()
        if not socket.can_prepare(request):
            raise errors.bad_request("exec and attach need a WebSocket: use a newer client")
        await socket.prepare(request)
        session = ChannelSession(socket)
        receiving = asyncio.get_running_loop().create_task(session.receive())
        try:
            await session.finish(await self._gateway.run(pod, options, session))
        except errors.StatusError as refused:
            await session.fail(refused.status)
        finally:
            receiving.cancel()
            await socket.close()
        return socket


def _trust(request: web.BaseRequest) -> None:
    """Keep the connection of a client that has the token."""
    request[_TRUSTED] = True
    if isinstance(request.protocol, Connection):
        request.protocol.trust()


async def _begin(response: web.StreamResponse, request: web.BaseRequest) -> None:
    """Send the head of an answer: from here on only the connection's end can tell of a failure."""
    request[_BEGUN] = True
    await response.prepare(request)


async def read_body(request: web.BaseRequest) -> bytes:
    """Return the whole body. Raises StatusError if it is too large or too slow."""
    length = request.content_length
    if length is not None and length > MOST_BODY:
        raise errors.body_too_large(MOST_BODY)
    if not request.can_read_body:
        return b""
    chunks, size = [], 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while chunk := await request.content.readany():
                size += len(chunk)
                if size > MOST_BODY:
                    raise errors.body_too_large(MOST_BODY)
                chunks.append(chunk)
    except TimeoutError as error:
        raise errors.body_too_slow(_BODY_SECONDS) from error
    except (HttpProcessingError, web.PayloadAccessError, web.RequestPayloadError) as error:
        raise errors.bad_request(f"the body can't be read: {error}") from error
    return b"".join(chunks)


@lru_cache(_MOST_KNOWN)
def client_name(user_agent: str) -> str:
    """Who owns the fields that a client writes: its name, without version and system."""
    name = user_agent.partition("/")[0]
    return "".join(letter for letter in name if letter.isprintable())[:_MOST_CLIENT] or "unknown"


def read_include(params: Mapping[str, str]) -> str:
    """What goes with each row of a Table."""
    include = params.get("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise errors.bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}":'
            " must be 'Metadata', 'Object', 'None', or empty"
        )
    return include


def _params(query: Mapping[str, str]) -> dict[str, str]:
    """The first of each name; of `dryRun` a client may send several that say the same."""
    return {name: query[name] for name in query}


def _find_review(path: str) -> tuple[str, str] | None:
    """The review and the namespace that a path names."""
    if "apis/auth" not in path:
        return None
    match path.strip("/").split("/"):
        case ["apis", "authorization.k8s.io" | "authentication.k8s.io", "v1", resource]:
            return resource, ""
        case ["apis", "authorization.k8s.io", "v1", "namespaces", namespace, resource]:
            return resource, namespace
    return None


def _json(code: int, body: bytes, headers: CIMultiDict[str] | None = None) -> web.Response:
    """`headers` may name one several times."""
    response = web.Response(status=code, body=body, headers=_JSON_HEADERS)
    if headers:
        response.headers.extend(headers)
    return response


def _blamed(status: Object) -> Object:
    """A kube-apiserver answers some malformed requests with 500; a client that did wrong is told so here."""
    if status["code"] != 500:
        return status
    return status | {"code": 400}


def _retry(refused: errors.StatusError) -> dict[str, str]:
    seconds = refused.status.get("details", {}).get("retryAfterSeconds")
    return {"Retry-After": str(seconds)} if seconds and refused.code in (429, 503) else {}


def _warnings(warnings: tuple[str, ...]) -> CIMultiDict[str]:
    return CIMultiDict(("Warning", f"299 - {_quoted(text)}") for text in warnings)


def _quoted(text: str) -> str:
    safe = "".join(letter if letter.isprintable() else " " for letter in text)
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"') + '"'
