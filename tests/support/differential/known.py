"""Where our server answers differently on purpose. docs/reference/apiserver.md tells users of each."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from support.differential.calls import SETTLE, WATCH, Call, Object

_DECODER = re.compile(
    r"cannot be handled as|cannot unmarshal|error decoding|couldn't get version/kind|to proper version"
    r"|metadata: Expected|parsing time|typed patch object|Object 'Kind' is missing"
    r"|unknown patch type|associative list with keys|strconv.ParseUint"
)
_PATCHED = re.compile(r"^.*Invalid value: .*?(strict decoding error: .*|)$", re.DOTALL)


class Known(NamedTuple):
    """A difference: which answers it concerns, and what makes them alike."""

    name: str
    concerns: Callable[[Call, Object, Object], bool]
    level: Callable[[Any], Any]


def _path(pattern: str) -> Callable[[Call, Object, Object], bool]:
    compiled = re.compile(pattern)
    return lambda call, _real, _ours: bool(compiled.search(call.path))


def _fields(*levellers: Callable[[str, Any], Any]) -> Callable[[Any], Any]:
    """Change every field of an answer, wherever it stands; `_GONE` leaves it out."""

    def level(value: Any) -> Any:
        if isinstance(value, list):
            return [level(each) for each in value]
        if not isinstance(value, dict):
            return value
        made = {}
        for key, each in value.items():
            for leveller in levellers:
                each = leveller(key, each)
            if each is not _GONE:
                made[key] = level(each)
        return made

    return level


_GONE = object()


def _without(*keys: str) -> Callable[[str, Any], Any]:
    return lambda key, value: _GONE if key in keys else value


def _blamed(real: Object, ours: Object) -> bool:
    return (real["code"], ours["code"]) == (500, 400)


def _as_blamed(view: Object) -> Object:
    body = {**view["body"], "code": 400, "reason": "BadRequest"}
    return {**view, "code": 400, "body": body}


def _is_about_decoding(_call: Call, real: Object, ours: Object) -> bool:
    return all(_DECODER.search(each["body"].get("message", "")) for each in (real, ours))


def _without_wording(view: Object) -> Object:
    body = {key: value for key, value in view["body"].items() if key not in ("message", "details")}
    return {**view, "body": body}


def _is_bad_patch(call: Call, real: Object, ours: Object) -> bool:
    return call.method == "PATCH" and all("is invalid: patch: " in str(each["body"]) for each in (real, ours))


def _unpatched(key: str, value: Any) -> Any:
    """Without the document that a patch made, which the server shows as Go prints it."""
    if key == "causes":
        return [[reason, field, _complaints(text)] for reason, field, text in value]
    return _complaints(value) if key == "message" and isinstance(value, str) else value


def _complaints(text: str) -> str:
    """What a strict reader says; the document is sorted there."""
    return ", ".join(sorted(_PATCHED.sub(r"\1", text).removeprefix("strict decoding error: ").split(", ")))


def _without_diff(key: str, value: Any) -> Any:
    """Without the lines below the first, where a server shows how Go structs differ."""
    if key == "causes":
        return [[reason, field, text.partition("\n")[0]] for reason, field, text in value]
    return value.partition("\n")[0] if key == "message" and isinstance(value, str) else value


def _has_own_warnings(_call: Call, real: Object, ours: Object) -> bool:
    return len(real["warnings"]) > len(ours["warnings"])


def _without_own_warnings(view: Object) -> Object:
    kept = [each for each in view["warnings"] if re.match("(unknown|duplicate) field", each)]
    return {**view, "warnings": kept}


def _address(key: str, value: Any) -> Any:
    """The columns that show addresses and ports of Services."""
    if key != "cells":
        return value
    return [
        re.sub(r"^(10\.\d+\.\d+\.\d+|<none>)$|(?<=\d):\d+(?=/)", "", each) if isinstance(each, str) else each
        for each in value
    ]


def _bookmarks(value: Any) -> Any:
    events = value["body"].get("events", ())
    told = [
        {**each, "object": {"metadata": each["object"].get("metadata")}}
        if each["type"] == "BOOKMARK"
        else each
        for each in events
    ]
    return {**value, "body": {"events": told}}


KNOWN: tuple[Known, ...] = (
    Known("a client's fault is not the server's", lambda _, real, ours: _blamed(real, ours), _as_blamed),
    Known("a body that can't be decoded", _is_about_decoding, _without_wording),
    Known("the document that a patch made", _is_bad_patch, _fields(_unpatched)),
    Known(
        "how an immutable spec was changed",
        lambda _, real, ours: real["code"] == ours["code"] == 422,
        _fields(_without_diff),
    ),
    Known("advice about fields", _has_own_warnings, _without_own_warnings),
    Known(
        "addresses of Services",
        _path("/services"),
        _fields(_without("clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"), _address),
    ),
    Known("bookmarks", lambda call, real, _: call.method == WATCH and real["code"] == 200, _bookmarks),
    Known(
        "a path of a group that is not served",
        lambda _, real, ours: real["code"] == ours["code"] == 404 and "text" in real["body"],
        lambda view: {**view, "body": {}},
    ),
    Known("YAML", lambda call, _real, _ours: call.accept.startswith("application/yaml"), lambda _: {}),
    Known(
        "CRDs are established at once",
        lambda call, _real, _ours: (
            bool(re.search("/customresourcedefinitions", call.path)) and call.method != SETTLE
        ),
        _fields(_without("status", "resourceVersion")),
    ),
    Known(
        "versions of claims and nodes",
        _path("/persistentvolumeclaims|/nodes"),
        _fields(_without("resourceVersion")),
    ),
    Known(
        "preconditions of namespaces",
        lambda call, real, ours: (
            bool(re.search(r"/v1/namespaces/[^/]+$", call.path)) and real["code"] == ours["code"] == 409
        ),
        _without_wording,
    ),
    Known(
        "conditions of namespaces",
        _path("/namespaces/[^/]+(,|$)"),
        _fields(_without("conditions", "resourceVersion")),
    ),
)
