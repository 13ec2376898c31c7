"""The `paths` of an OpenAPI document: what can be asked of each resource."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from bireme.apiserver.discovery import Resource
from bireme.apiserver.openapi.definitions import META, reference

Object = dict[str, Any]

_LIST: Final = (
    "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch",
    "sendInitialEvents", "timeoutSeconds",
)  # fmt: skip
_WRITE: Final = ("dryRun", "fieldManager", "fieldValidation")
_DELETE: Final = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_STREAMS: Final = ("container", "stderr", "stdin", "stdout", "tty")
_OF_SUBRESOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "attach": _STREAMS,
    "exec": ("command", *_STREAMS),
    "log": ("container", "follow", "limitBytes", "previous", "sinceSeconds", "stream", "tailLines",
            "timestamps"),
    "portforward": ("ports",),
}  # fmt: skip
_INTEGERS: Final = {"gracePeriodSeconds", "limit", "limitBytes", "ports", "sinceSeconds", "tailLines",
                    "timeoutSeconds"}  # fmt: skip
_BOOLEANS: Final = {"allowWatchBookmarks", "follow", "force", "orphanDependents", "previous",
                    "sendInitialEvents", "stderr", "stdin", "stdout", "timestamps", "tty",
                    "watch"}  # fmt: skip
_DESCRIPTIONS: Final = {200: "OK", 201: "Created", 202: "Accepted"}
_JSON: Final = "application/json"
_PATCHES: Final = ("application/apply-patch+yaml", "application/json-patch+json",
                   "application/merge-patch+json")  # fmt: skip
_STRATEGIC: Final = "application/strategic-merge-patch+json"


class Verb(NamedTuple):
    """How a verb of a resource goes over HTTP; `word` is what it is called in names and sentences."""

    method: str
    action: str
    word: str
    parameters: tuple[str, ...] = ()
    codes: tuple[int, ...] = (200,)


_COLLECTION: Final = {
    "list": Verb("get", "list", "list", tuple(sorted(("allowWatchBookmarks", *_LIST, "watch")))),
    "create": Verb("post", "post", "create", _WRITE, (200, 201, 202)),
    "deletecollection": Verb(
        "delete", "deletecollection", "delete", tuple(sorted({*_LIST, *_DELETE}))
    ),
}  # fmt: skip
_ITEM: Final = {
    "get": Verb("get", "get", "read"),
    "update": Verb("put", "put", "replace", _WRITE, (200, 201)),
    "delete": Verb("delete", "delete", "delete", _DELETE, (200, 202)),
    "patch": Verb("patch", "patch", "patch", (*_WRITE, "force"), (200, 201)),
}
_CREATED_BESIDE: Final = {"create": _COLLECTION["create"]}
_CONNECTED: Final = {"get": Verb("get", "connect", "connect"), "create": Verb("post", "connect", "connect")}


class Served(NamedTuple):
    """A resource, with the definition of what it takes and gives, and of what a deletion answers."""

    resource: Resource
    definition: str
    deleted: str


def paths(served: Iterable[Served]) -> Object:
    """The paths of the resources, sorted."""
    return dict(sorted(item for each in served for item in _items(each)))


def _items(served: Served) -> Iterator[tuple[str, Object]]:
    resource = served.resource
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    place = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    if resource.subresource:
        yield f"{place}/{resource.plural}/{{name}}/{resource.subresource}", _beside(served)
        return
    if resource.namespaced and "list" in resource.verbs:
        listed = {"get": _operation(served, _COLLECTION["list"], everywhere=True)}
        yield f"{root}/{resource.plural}", listed | _parameters(["pretty"])
    yield f"{place}/{resource.plural}", _item(served, _COLLECTION) | _path_parameters(resource, named=False)
    if "get" in resource.verbs:
        yield f"{place}/{resource.plural}/{{name}}", _item(served, _ITEM) | _path_parameters(resource)


def _beside(served: Served) -> Object:
    """The item of a subresource: written like an object, created, or a stream."""
    resource = served.resource
    table: Mapping[str, Verb] = _CREATED_BESIDE if resource.type else _ITEM
    return _item(served, _CONNECTED if _is_stream(resource) else table) | _path_parameters(resource)


def _is_stream(resource: Resource) -> bool:
    return resource.type is not None and not resource.type.definition


def _item(served: Served, table: Mapping[str, Verb]) -> Object:
    return {
        verb.method: _operation(served, verb) for name, verb in table.items() if name in served.resource.verbs
    }


def _operation(served: Served, verb: Verb, *, everywhere: bool = False) -> Object:
    resource = served.resource
    group, version = (resource.group, resource.version)
    identity = {"group": group, "version": version, "kind": resource.kind}
    if resource.type:
        identity = dict(zip(identity, resource.type, strict=False))
    made: Object = {
        "tags": [f"{_lower_first(_group_word(group))}_{version}"],
        "description": _description(resource, verb),
        "operationId": _operation_id(resource, verb, everywhere=everywhere),
        **_parameters(verb.parameters),
    }
    if body := _body(served, verb):
        made["requestBody"] = body
    made["responses"] = _responses(served, verb)
    return made | {"x-kubernetes-action": verb.action, "x-kubernetes-group-version-kind": identity}


def _operation_id(resource: Resource, verb: Verb, *, everywhere: bool) -> str:
    detail = {"deletecollection": "Collection", "connect": verb.method.title()}.get(verb.action, "")
    namespaced = "Namespaced" if resource.namespaced and not everywhere else ""
    return (
        f"{verb.word}{_group_word(resource.group)}{resource.version.title()[:1]}{resource.version[1:]}"
        f"{detail}{namespaced}{resource.kind}{resource.subresource.title()}"
        f"{'ForAllNamespaces' if everywhere else ''}"
    )


def _group_word(group: str) -> str:
    words = (group.removesuffix(".k8s.io") or "core").split(".")
    return "".join(word[:1].upper() + word[1:] for word in words)


def _lower_first(word: str) -> str:
    return word[:1].lower() + word[1:]


def _description(resource: Resource, verb: Verb) -> str:
    kind, below = resource.kind, f"{resource.subresource} of " if resource.subresource else ""
    article = "an" if kind[0] in "AEIOU" else "a"
    match verb.action:
        case "list":
            return f"list or watch objects of kind {kind}"
        case "deletecollection":
            return f"delete collection of {kind}"
        case "connect":
            return f"connect {verb.method.upper()} requests to {resource.subresource} of {kind}"
        case "post" | "delete":
            return f"{verb.word} {below}{article} {kind}"
    word = "partially update" if verb.action == "patch" else verb.word
    return f"{word} {below}the specified {kind}"


def _path_parameters(resource: Resource, *, named: bool = True) -> Object:
    """The parameters of all operations of a path."""
    described = {}
    if named:
        described["name"] = f"name of the {resource.type.kind if resource.type else resource.kind}"
    if resource.namespaced:
        described["namespace"] = "object name and auth scope, such as for teams and projects"
    found = [
        {"name": name, "in": "path", "description": text, "required": True, "schema": _string()}
        for name, text in described.items()
    ]
    query = [*_OF_SUBRESOURCES.get(resource.subresource, ()), *([] if _is_stream(resource) else ["pretty"])]
    return {"parameters": found + _parameters(query)["parameters"]}


def _parameters(names: Iterable[str]) -> Object:
    found = [{"name": name, "in": "query", "schema": _type_of(name)} for name in names]
    return {"parameters": found} if found else {}


def _type_of(name: str) -> Object:
    if name in _BOOLEANS:
        return {"type": "boolean", "uniqueItems": True}
    return {"type": "integer", "uniqueItems": True} if name in _INTEGERS else _string()


def _string() -> Object:
    return {"type": "string", "uniqueItems": True}


def _body(served: Served, verb: Verb) -> Object:
    match verb.action:
        case "post" | "put":
            return {"content": _content([_JSON], served.definition), "required": True}
        case "delete" | "deletecollection":
            return {"content": _content([_JSON], f"{META}DeleteOptions")}
        case "patch":
            types = _PATCHES if served.resource.custom else (*_PATCHES, _STRATEGIC)
            return {"content": _content(types, f"{META}Patch"), "required": True}
    return {}


def _content(media_types: Iterable[str], definition: str) -> Object:
    return {media_type: {"schema": reference(definition)} for media_type in media_types}


def _responses(served: Served, verb: Verb) -> Object:
    content = _answer(served, verb)
    # As servers document it, though applying what is not there yet creates it.
    codes = (200,) if served.resource.custom and verb.action == "patch" else verb.codes
    found = {str(code): {"description": _DESCRIPTIONS[code], "content": content} for code in codes}
    return found | {"401": {"description": "Unauthorized"}}


def _answer(served: Served, verb: Verb) -> Object:
    if verb.action == "connect":
        return {"*/*": {"schema": {"type": "string"}}}
    if served.resource.subresource == "log":
        return {"text/plain": {"schema": {"type": "string"}}}
    name = {
        "list": f"{served.definition}List",
        "delete": served.deleted,
        "deletecollection": f"{META}Status",
    }
    return _content([_JSON], name.get(verb.action, served.definition))
