"""From a request to the store, and back to what is answered; sockets and headers are for others."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from bireme.apiserver import errors, patches, subresources
from bireme.apiserver.deletion import Decision, DeleteOptions, read_options
from bireme.apiserver.kinds import NAMESPACE, Kind
from bireme.apiserver.lists import Page, Query
from bireme.apiserver.objects import MalformedError, copied
from bireme.apiserver.records import Record
from bireme.apiserver.rules import Object
from bireme.apiserver.store import Store
from bireme.apiserver.terms import Terms, check_terms
from bireme.apiserver.watch import Watcher

_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")
_NAMESPACE_SUBRESOURCES: Final = ("status", "finalize")
_CREATED_BESIDE: Final = {"binding": subresources.bind, "eviction": subresources.evict}
_OPTIONS: Final = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
_JSON: Final = "application/json"
_IS_INTEGER: Final = re.compile("[+-]?[0-9]+")
_LONGEST_INTEGER: Final = 100
_encode: Final = msgspec.json.Encoder().encode


class Request(NamedTuple):
    """What a client asks; `body` is empty where there is none."""

    method: str
    path: str
    params: Mapping[str, str] = {}
    body: bytes = b""
    content_type: str = _JSON
    client: str = ""
    """Who asks, by the name that owns fields."""


class Target(NamedTuple):
    """What a path names: a collection where there is no name."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class Answer(NamedTuple):
    code: int
    body: Object


class Reply(NamedTuple):
    """What is answered: an object or a page of a kind, or a Status."""

    code: int
    obj: Object
    kind: Kind | None = None
    """Of what `obj` or `page` is; None for a Status."""
    page: Page | None = None
    warnings: tuple[str, ...] = ()
    record: Record | None = None
    """Instead of `obj`: an object as it is kept, which need not be decoded."""

    def json(self) -> bytes:
        if self.record is not None:
            return self.record.raw
        if self.kind is None or self.page is None:
            return _encode(self.obj)
        return _list_json(self.kind, self.page)

    def body(self) -> Object:
        """A list is decoded for it."""
        if self.record is not None:
            return self.record.object()
        if self.kind is None or self.page is None:
            return self.obj
        decoded: Object = msgspec.json.decode(self.json())
        return decoded


def answer(store: Store, request: Request, now: datetime) -> Answer:
    """Do what is asked; a refusal is an answer too."""
    reply = handle(store, request, now)
    return Answer(reply.code, reply.body())


def handle(store: Store, request: Request, now: datetime) -> Reply:
    """Do what is asked; a refusal is an answer too."""
    try:
        return serve(store, find_target(store, request.path), request, now)
    except errors.StatusError as error:
        return Reply(error.code, error.status, warnings=error.warnings)


def serve(store: Store, target: Target, request: Request, now: datetime) -> Reply:
    """Do what is asked of a target. Raises StatusError, and has written nothing then."""
    if request.method in ("GET", "HEAD"):
        return _read(store, target, request)
    terms = _terms(request)
    try:
        with store.attempt(dry_run=terms.dry_run):
            before = _version_of(store, target) if terms.dry_run else ""
            reply = _write(store, target, request, now, terms)
    except errors.StatusError as refused:
        refused.warnings = tuple(terms.warnings)
        raise
    if terms.dry_run and reply.kind is not None and reply.page is None:
        reply = reply._replace(obj=_as_before(reply.obj, before), record=None)
    return reply._replace(warnings=tuple(terms.warnings))


def open_watch(store: Store, path: str, params: Mapping[str, str], wake: Callable[[], None]) -> Watcher:
    """Follow what a path names; a single object by its path is no collection. Raises StatusError."""
    target = find_target(store, path)
    if target.name:
        raise errors.method_not_allowed()
    return store.watch(target.kind, read_query(params), namespace=target.namespace, wake=wake)


def find_target(store: Store, path: str) -> Target:
    """Read a path. Raises NotFound for what is not served."""
    segments = path.strip("/").split("/")
    if "%" in path:
        segments = [unquote(segment) for segment in segments]
    match segments:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            raise errors.no_such_path()
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource, *more = [*rest, "", "", ""][:4] if len(rest) < 4 else rest
    kind = store.registry.at(group, version, plural)
    if kind is None or any(more) or (kind.namespaced and not namespace and name):
        raise errors.no_such_path()
    if subresource and not _has_subresource(kind, subresource):
        raise errors.no_such_path()
    return Target(kind, namespace, name, subresource)


def _has_subresource(kind: Kind, subresource: str) -> bool:
    if subresource == "status":
        return kind.has_status
    return subresource in kind.subresources


def _read(store: Store, target: Target, request: Request) -> Reply:
    kind, namespace, name, subresource = target
    if subresource not in ("", "status"):
        raise errors.method_not_allowed()
    if name:
        record = store.record(kind, name, namespace=namespace)
        if record is None:
            raise errors.not_found(kind, name)
        return Reply(200, {}, kind, record=record)
    if request.params.get("watch") in _TRUE:
        raise errors.bad_request("a watch is a stream")
    return Reply(200, {}, kind, store.list(kind, read_query(request.params), namespace=namespace))


def _write(store: Store, target: Target, request: Request, now: datetime, terms: Terms) -> Reply:
    kind, namespace, name, subresource = target
    if subresource in _CREATED_BESIDE:
        return _create_beside(store, target, request, now)
    if subresource == "finalize" and kind.resource == NAMESPACE.resource:
        return _finalize(store, target, request)
    if subresource not in ("", "status"):
        raise errors.method_not_allowed()
    match request.method, bool(name):
        case "POST", False:
            created = store.create(kind, _body(request), now, namespace=namespace, terms=terms)
            return _written(store, target, 201, created)
        case "PUT", True:
            return _replace(store, target, request, now, terms)
        case "PATCH", True:
            return _patch(store, target, request, now, terms)
        case "DELETE", _ if not subresource:
            return _delete(store, target, request, now)
    raise errors.method_not_allowed()


def _create_beside(store: Store, target: Target, request: Request, now: datetime) -> Reply:
    if request.method != "POST":
        raise errors.method_not_allowed()
    create = _CREATED_BESIDE[target.subresource]
    create(store, target.name, _body(request), now, namespace=target.namespace)
    return Reply(201, errors.success(201))


def _finalize(store: Store, target: Target, request: Request) -> Reply:
    if request.method != "PUT":
        raise errors.method_not_allowed()
    written = subresources.refinalize(store, target.name, _body(request))
    return Reply(200, written, target.kind)


def _list_json(kind: Kind, page: Page) -> bytes:
    """A list, joined from what its objects are kept as."""
    head = {
        "kind": f"{kind.kind}List",
        "apiVersion": kind.api_version,
        "metadata": {"continue": "", **page.metadata} if kind.custom else page.metadata,
        "items": [],
    }
    raws = [record.raw for record in page.records]
    if not kind.custom:
        # As a server lists its own kinds: without saying of each what it is.
        typed = len(_encode({"kind": kind.kind, "apiVersion": kind.api_version})) - 1
        raws = [b"{" + raw[typed + 1 :] for raw in raws]
    return b"%b%b]}" % (_encode(head)[:-2], b",".join(raws))


def _replace(store: Store, target: Target, request: Request, now: datetime, terms: Terms) -> Reply:
    kind, namespace, name, subresource = target
    body = _body(request)
    created = store.record(kind, name, namespace=namespace) is None
    written = store.replace(kind, name, body, now, namespace=namespace, subresource=subresource, terms=terms)
    return _written(store, target, 201 if created else 200, written)


def _patch(store: Store, target: Target, request: Request, now: datetime, terms: Terms) -> Reply:
    kind, namespace, name, subresource = target
    media_type = _media_type(request)
    if media_type == patches.APPLY_PATCH:
        created = store.record(kind, name, namespace=namespace) is None
        written = store.apply(
            kind, name, request.body, now, namespace=namespace, subresource=subresource, terms=terms
        )
        return _written(store, target, 201 if created else 200, written)
    written = store.patch(
        kind, name, request.body, media_type, now, namespace=namespace, subresource=subresource, terms=terms
    )
    return _written(store, target, 200, written)


def _written(store: Store, target: Target, code: int, obj: Object) -> Reply:
    """What was written, as it is kept; there is no record of what a write removed."""
    record = store.record(target.kind, obj["metadata"]["name"], namespace=target.namespace)
    return Reply(code, obj, target.kind, record=record)


def _delete(store: Store, target: Target, request: Request, now: datetime) -> Reply:
    options = _delete_options(request)
    if not target.name and target.kind.resource == NAMESPACE.resource:
        raise errors.method_not_allowed()
    if not target.name:
        query = read_query(request.params)
        page = store.delete_collection(target.kind, now, options, query, namespace=target.namespace)
        return Reply(200, {}, target.kind, page)
    decision = store.delete(target.kind, target.name, now, options, namespace=target.namespace)
    accepted = not decision.goes and options.orphan_dependents is False
    return _deleted(target.kind, decision, 202 if accepted else 200)


def _deleted(kind: Kind, decision: Decision, code: int) -> Reply:
    if not decision.goes or kind.returns_deleted:
        return Reply(code, decision.obj, kind)
    metadata = decision.obj["metadata"]
    details = {"name": metadata["name"], "group": kind.group, "kind": kind.plural, "uid": metadata["uid"]}
    return Reply(code, errors.success(details={key: value for key, value in details.items() if value}))


def _terms(request: Request) -> Terms:
    """How a write is to be done, by the parameters and the client of the request."""
    params, is_apply = request.params, _media_type(request) == patches.APPLY_PATCH
    dry_run = params.get("dryRun", "")
    if request.method == "DELETE" and request.body:
        # Options in a body are all that is looked at.
        dry_run = ",".join(_delete_options(request).dry_run)
    options = _OPTIONS.get(request.method, "DeleteOptions")
    if dry_run not in ("", "All"):
        problem = errors.not_supported("dryRun", [dry_run], ("All",))
        raise errors.invalid_options(options, problem)
    manager, validation = params.get("fieldManager", ""), params.get("fieldValidation", "")
    force = params.get("force", "")
    check_terms(options, manager=manager, field_validation=validation, force=force, is_apply=is_apply)
    return Terms(
        manager=manager or request.client,
        force=_boolean(force, "force"),
        field_validation=validation or "Warn",
        dry_run=bool(dry_run),
    )


def _version_of(store: Store, target: Target) -> str:
    record = store.record(target.kind, target.name, namespace=target.namespace) if target.name else None
    return str(record.version) if record is not None else ""


def _as_before(obj: Object, version: str) -> Object:
    """An object that was not written: under the version that it still has, or under none."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    if version:
        metadata = obj["metadata"] | {"resourceVersion": version}
    return obj | {"metadata": metadata}


def _delete_options(request: Request) -> DeleteOptions:
    if request.body:
        return read_options(_delete_body(request))
    params = request.params
    fields: dict[str, Any] = {}
    if "gracePeriodSeconds" in params:
        fields["gracePeriodSeconds"] = _integer(params["gracePeriodSeconds"])
    if "propagationPolicy" in params:
        fields["propagationPolicy"] = params["propagationPolicy"]
    if "orphanDependents" in params:
        fields["orphanDependents"] = params["orphanDependents"] in _TRUE
    return read_options(fields)


def read_query(params: Mapping[str, str]) -> Query:
    """What the parameters of a list or a watch ask for."""
    initial = params.get("sendInitialEvents")
    return Query(
        label_selector=params.get("labelSelector", ""),
        field_selector=params.get("fieldSelector", ""),
        limit=_integer(params.get("limit", "0")),
        continue_token=params.get("continue", ""),
        resource_version=params.get("resourceVersion", ""),
        resource_version_match=params.get("resourceVersionMatch", ""),
        send_initial_events=None if initial is None else initial in _TRUE,
        allow_bookmarks=params.get("allowWatchBookmarks") in _TRUE,
    )


def watch_seconds(params: Mapping[str, str]) -> float | None:
    """After how long a watch ends by itself; None if it does not."""
    return _integer(params.get("timeoutSeconds", "0")) or None


def _integer(text: str) -> int:
    why = "invalid syntax"
    if _IS_INTEGER.fullmatch(text):
        if len(text) <= _LONGEST_INTEGER and -(1 << 63) <= int(text) < 1 << 63:
            return int(text)
        why = "value out of range"
    raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": {why}')


def _boolean(text: str, name: str) -> bool:
    if text not in ("", *_TRUE, *_FALSE):
        raise errors.bad_request(f'{name}: strconv.ParseBool: parsing "{text}": invalid syntax')
    return text in _TRUE


def _media_type(request: Request) -> str:
    return request.content_type.partition(";")[0].strip().lower()


def _body(request: Request) -> bytes:
    if _media_type(request) != _JSON:
        raise errors.unknown_format([_JSON])
    return request.body


def _delete_body(request: Request) -> object:
    try:
        decoded: object = copied(request.body)
    except MalformedError as error:
        raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    return decoded
