"""From a request to the store, and back to what is answered; sockets and headers are for others."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from bireme.apiserver import errors, subresources
from bireme.apiserver.deletion import Decision, DeleteOptions, read_options
from bireme.apiserver.kinds import POD, Kind
from bireme.apiserver.lists import Page, Query
from bireme.apiserver.rules import Object
from bireme.apiserver.store import Store
from bireme.apiserver.watch import Watcher

_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_NAMESPACE_SUBRESOURCES: Final = ("status", "finalize")
_CREATED_BESIDE: Final = {"binding": subresources.bind, "eviction": subresources.evict}


class Request(NamedTuple):
    """What a client asks; `body` is empty where there is none."""

    method: str
    path: str
    params: Mapping[str, str] = {}
    body: bytes = b""
    content_type: str = "application/json"


class Target(NamedTuple):
    """What a path names: a collection where there is no name."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class Answer(NamedTuple):
    code: int
    body: Object


def answer(store: Store, request: Request, now: datetime) -> Answer:
    """Do what is asked; a refusal is an answer too."""
    try:
        if request.params.get("dryRun"):
            raise errors.no_dry_run()
        target = find_target(store, request.path)
        return _dispatch(store, target, request, now)
    except errors.StatusError as error:
        return Answer(error.code, error.status)


def open_watch(store: Store, path: str, params: Mapping[str, str], wake: Callable[[], None]) -> Watcher:
    """Follow what a path names; a single object by its path is no collection. Raises StatusError."""
    target = find_target(store, path)
    if target.name:
        raise errors.method_not_allowed()
    return store.watch(target.kind, read_query(params), namespace=target.namespace, wake=wake)


def find_target(store: Store, path: str) -> Target:
    """Read a path. Raises NotFound for what is not served."""
    segments = [unquote(segment) for segment in path.strip("/").split("/")]
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
    kind = next((k for k in store.kinds if (k.group, k.version, k.plural) == (group, version, plural)), None)
    if kind is None or any(more) or (kind.namespaced and not namespace and name):
        raise errors.no_such_path()
    if subresource and not _has_subresource(kind, subresource):
        raise errors.no_such_path()
    return Target(kind, namespace, name, subresource)


def _has_subresource(kind: Kind, subresource: str) -> bool:
    if subresource == "status":
        return kind.has_status
    return kind.resource == POD.resource and subresource in _CREATED_BESIDE


def _dispatch(store: Store, target: Target, request: Request, now: datetime) -> Answer:
    if target.subresource in _CREATED_BESIDE:
        return _create_beside(store, target, request, now)
    place = "item" if target.name else "collection"
    match request.method, place:
        case "GET", "item":
            return Answer(200, store.get(target.kind, target.name, namespace=target.namespace))
        case "GET", "collection":
            return _list(store, target, request)
        case "POST", "collection":
            body = _body(request)
            return Answer(201, store.create(target.kind, body, now, namespace=target.namespace))
        case "PUT", "item":
            return _replace(store, target, request, now)
        case "PATCH", "item":
            return _patch(store, target, request)
        case "DELETE", _ if not target.subresource:
            return _delete(store, target, request, now)
    raise errors.method_not_allowed()


def _create_beside(store: Store, target: Target, request: Request, now: datetime) -> Answer:
    if request.method != "POST":
        raise errors.method_not_allowed()
    create = _CREATED_BESIDE[target.subresource]
    create(store, target.name, _body(request), now, namespace=target.namespace)
    return Answer(201, errors.success(201))


def _list(store: Store, target: Target, request: Request) -> Answer:
    if request.params.get("watch") in _TRUE:
        raise errors.bad_request("a watch is a stream")
    page = store.list(target.kind, read_query(request.params), namespace=target.namespace)
    return Answer(200, _list_object(target.kind, page))


def _list_object(kind: Kind, page: Page) -> Object:
    metadata: Object = {"resourceVersion": str(page.version)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    items = page.items if kind.custom else [_untyped(item) for item in page.items]
    return {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata, "items": items}


def _untyped(item: Object) -> Object:
    """As a server lists its own kinds: without saying of each what it is."""
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


def _replace(store: Store, target: Target, request: Request, now: datetime) -> Answer:
    kind, namespace, name, subresource = target
    body = _body(request)
    created = store.find(kind, name, namespace=namespace) is None
    written = store.replace(kind, name, body, now, namespace=namespace, subresource=subresource)
    return Answer(201 if created else 200, written)


def _patch(store: Store, target: Target, request: Request) -> Answer:
    kind, namespace, name, subresource = target
    media_type = request.content_type.partition(";")[0].strip()
    written = store.patch(kind, name, request.body, media_type, namespace=namespace, subresource=subresource)
    return Answer(200, written)


def _delete(store: Store, target: Target, request: Request, now: datetime) -> Answer:
    options = _delete_options(request)
    if not target.name:
        query = read_query(request.params)
        page = store.delete_collection(target.kind, now, options, query, namespace=target.namespace)
        return Answer(200, _list_object(target.kind, page))
    decision = store.delete(target.kind, target.name, now, options, namespace=target.namespace)
    accepted = not decision.goes and options.orphan_dependents is False
    return Answer(202 if accepted else 200, _deleted(target.kind, decision))


def _deleted(kind: Kind, decision: Decision) -> Object:
    if not decision.goes or kind.returns_deleted:
        return decision.obj
    metadata = decision.obj["metadata"]
    details = {"name": metadata["name"], "group": kind.group, "kind": kind.plural, "uid": metadata["uid"]}
    return errors.success(details={key: value for key, value in details.items() if value})


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
    try:
        return int(text)
    except ValueError as error:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def _body(request: Request) -> bytes:
    if request.content_type.partition(";")[0].strip() != "application/json":
        raise errors.unknown_format(["application/json"])
    return request.body


def _delete_body(request: Request) -> object:
    try:
        decoded: object = msgspec.json.decode(request.body)
    except msgspec.DecodeError as error:
        raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    return decoded
