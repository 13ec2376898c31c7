"""What a server tells of itself: its version, its kinds, and their schemas."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from bireme.apiserver import discovery, errors
from bireme.apiserver.kinds import Kind
from bireme.apiserver.openapi import documents as openapi
from bireme.apiserver.registry import Registry
from bireme.apiserver.rules import Object
from bireme.apiserver.serving.negotiation import JSON, read_accept

_V2_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# The second version's document, empty, in Protobuf: swagger "2.0", info {title, version}, paths {}. Clients
# ask for it to check the shape of what the server checks anyway, and give up if it is not there.
_V2: Final = b"\x0a\x032.0\x12\x0f\x0a\x06bireme\x12\x05v1.36\x42\x00"
_DEEPEST: Final = 3
_AGGREGATED: Final = ("v2", "v2beta1")
_encode: Final = msgspec.json.Encoder().encode


class Document(NamedTuple):
    body: bytes
    etag: str
    content_type: str = JSON

    def response(self, known: str) -> web.Response:
        """Answer with the document, or that the client has it already."""
        headers = {"Content-Type": self.content_type, "Vary": "Accept", "ETag": f'"{self.etag}"'}
        if known.strip('"') == self.etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=self.body, headers=headers)


class Documents:
    """Each is made when it is asked for, and again when the kinds have changed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._edition = -1
        self._made: dict[tuple[str, str], Document] = {}

    def find(self, path: str, accept: str) -> Document | None:
        """The document at a path; None where something else is. Raises NotFound for what should be one."""
        if self._edition != self._registry.edition:
            self._edition = self._registry.edition
            self._made.clear()
        path = f"/{path.strip('/')}"
        if path.count("/") > _DEEPEST and not path.startswith("/openapi/"):
            return None
        if path == "/openapi/v2":
            return Document(_V2, "V2", _V2_TYPE)
        form = _aggregated(accept) if path in ("/api", "/apis") else ""
        key = (path, form)
        if key not in self._made:
            build = self._builder(path, form)
            if build is None:
                return None
            self._made[key] = _document(build(), form)
        return self._made[key]

    def _builder(self, path: str, form: str) -> Callable[[], Object | None] | None:
        kinds = self._registry.kinds
        match path.strip("/").split("/"):
            case [""]:
                return lambda: {"paths": ["/api", "/apis", "/openapi/v3", "/readyz", "/version"]}
            case ["version"]:
                return discovery.version
            case ["openapi", "v3", *rest]:
                return _openapi(kinds, rest)
            case ["api" | "apis" as root] if form:
                return lambda: discovery.aggregated(kinds, core=root == "api", version=form)
            case ["api", *rest] if len(rest) < 2:
                return lambda: discovery.resources(kinds, "", rest[0]) if rest else discovery.api_versions()
            case ["apis", *rest] if len(rest) < 3:
                return _groups(kinds, rest)
        return None


def _groups(kinds: Sequence[Kind], rest: list[str]) -> Callable[[], Object | None]:
    match rest:
        case [group, version]:
            return lambda: discovery.resources(kinds, group, version)
        case [group]:
            return lambda: discovery.group(kinds, group)
    return lambda: discovery.groups(kinds)


def _openapi(kinds: Sequence[Kind], rest: list[str]) -> Callable[[], Object | None]:
    match rest:
        case []:
            return lambda: openapi.index(kinds)
        case ["api", version]:
            return lambda: openapi.document(kinds, "", version)
        case ["apis", group, version]:
            return lambda: openapi.document(kinds, group, version)
    return lambda: None


def _aggregated(accept: str) -> str:
    """The version in which a client takes aggregated discovery; empty if it takes none."""
    for media_type, params in read_accept(accept):
        if media_type == JSON and params.get("as") == "APIGroupDiscoveryList":
            if params.get("v") in _AGGREGATED:
                return params["v"]
        elif media_type == JSON and "as" not in params:
            return ""
    return ""


def _document(made: Object | None, form: str) -> Document:
    if made is None:
        raise errors.no_such_path()
    body = _encode(made)
    content_type = f"{JSON};g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList" if form else JSON
    return Document(body, hashlib.sha256(body).hexdigest().upper(), content_type)
