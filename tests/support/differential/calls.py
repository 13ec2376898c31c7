"""A request as data. What only a server can know stands in it as a placeholder, and is filled in for each
server from what that one has answered:

    <n>                     the number of the play; names that all plays share carry it
    <uid ConfigMap/a>       of the object as it was last seen
    <version ConfigMap/a>   its latest resourceVersion, <first ...> its first, <previous ...> the one before
    <continue>              of the last list
    <start>                 the version of the store when the play began

A body `{"$latest": "ConfigMap/a", "$else": {...}, "$merge": {...}}` is the object as it was last seen, or the
other one if it never was, changed by a merge patch.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

Object = dict[str, Any]
JSON = "application/json"
WATCH = "WATCH"
"""The method of a watch that is read up to an event of the object that `until` names."""
SETTLE = "SETTLE"
"""The method of GETs that are repeated until both servers answer alike, and go on to: `path` names several,
with commas between them."""
NOWHERE = "00000000-0000-4000-8000-aaaaaaaaaaaa"
_PLACEHOLDER = re.compile(r"<(uid|version|first|previous|continue|start)(?: ([^>]+))?>")


class Call(NamedTuple):
    method: str
    path: str
    body: Any = None
    """JSON, or text that is sent as it is."""
    params: Mapping[str, str] = {}
    media_type: str = JSON
    accept: str = JSON
    until: str = ""
    setup: bool = False
    """Not compared: it only prepares."""

    def __str__(self) -> str:
        fields = self._asdict()
        said = [
            f"{key}={fields[key]!r}" for key in self._fields if fields[key] != self._field_defaults.get(key)
        ]
        return f"Call({', '.join(said)})"


class Memory:
    """What one server has shown during a play."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._latest: dict[str, Object] = {}
        self._versions: dict[str, list[str]] = {}
        self.continue_token = ""
        self.start = "1"

    def remember(self, body: Object) -> None:
        metadata = body.get("metadata") or {}
        if "items" in body:
            self.continue_token = metadata.get("continue", "")
        elif metadata.get("uid") and metadata.get("resourceVersion"):
            key = f"{body['kind']}/{metadata['name']}"
            self._latest[key] = body
            seen = self._versions.setdefault(key, [])
            if metadata["resourceVersion"] not in seen:
                seen.append(metadata["resourceVersion"])

    def fill(self, call: Call) -> Call:
        return call._replace(
            path=self._text(call.path),
            body=self._filled(call.body),
            params={key: self._text(value) for key, value in call.params.items()},
            until=self._text(call.until),
        )

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "$latest" in value:
            latest = self._latest.get(self._text(value["$latest"]))
            return merged(latest or self._filled(value["$else"]), self._filled(value["$merge"]))
        return {self._text(key): self._filled(each) for key, each in value.items()}

    def _text(self, text: str) -> str:
        numbered = text.replace("<n>", str(self._number))
        return _PLACEHOLDER.sub(lambda found: self._known(found[1], found[2] or ""), numbered)

    def _known(self, what: str, key: str) -> str:
        versions = self._versions.get(key, ["1"])
        uid: str = self._latest.get(key, {}).get("metadata", {}).get("uid", NOWHERE)
        return {
            "uid": uid,
            "version": versions[-1],
            "first": versions[0],
            "previous": versions[-2] if len(versions) > 1 else "1",
            "continue": self.continue_token,
            "start": self.start,
        }[what]


def merged(document: Any, patch: Any) -> Any:
    """RFC 7386, in the fewest words."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        result[key] = merged(result.get(key), value)
    return {key: value for key, value in result.items() if value is not None}


def text_of(body: Any) -> str | None:
    """A body as it is sent."""
    return body if body is None or isinstance(body, str) else json.dumps(body)
