"""What of an answer is compared: all but what is by chance, which gets a name by when it was first seen."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from support.differential.calls import SETTLE, Call, Object
from support.differential.servers import Reply

_UID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b")
_TIME = re.compile(r"\b(\d{4}-\d\d-\d\d)[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| \+0000 UTC)")
_NUMBER = re.compile(r"(?<![\w'.-])\d+(?![\w'-])")
_GENERATED = re.compile(r"\b(gen-|Bad_)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
"""A name that was made for an object that was refused."""
_AGE = re.compile(r"^\d+[smh]$")
_CONTROLLERS = re.compile(r"^(kube-controller-manager|kube-apiserver|.*-controller)$")


class Eye:
    """Looks at the answers of one server during a play."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._generated: dict[str, str] = {}

    def view(self, call: Call, reply: Reply) -> Object:
        body = reply.body
        self._learn(body)
        if call.method == SETTLE:
            body = _without_versions(body)
        return {
            "code": reply.code,
            "warnings": sorted(self._seen(list(reply.warnings))),
            "body": self._body(body),
        }

    def _body(self, body: Object) -> Any:
        if body.get("kind") == "Status":
            return self._status(body)
        if "events" in body:
            return {"events": [self._event(each) for each in body["events"]]}
        if "items" in body or "rows" in body:
            return self._list(body)
        return self._seen(body)

    def _event(self, event: Object) -> Object:
        seen = {"type": event["type"], "object": self._body(event["object"])}
        if event["type"] == "BOOKMARK":
            seen["object"]["metadata"]["resourceVersion"] = "<any>"
        return seen

    def _list(self, body: Object) -> Object:
        metadata = {key: value for key, value in body["metadata"].items() if key != "resourceVersion"}
        if "continue" in metadata:
            metadata["continue"] = bool(metadata["continue"])
        key = "items" if "items" in body else "rows"
        items = [self._seen(each) for each in body[key]]
        if self._generated:
            items.sort(key=lambda each: json.dumps(each, sort_keys=True))
        return {**body, "metadata": metadata, key: items}

    def _status(self, body: Object) -> Object:
        seen: Object = self._seen(body)
        causes = [
            (each.get("reason"), each.get("field"), each.get("message"))
            for each in seen.get("details", {}).get("causes", ())
        ]
        if causes:
            # A server tells some of them twice.
            causes = sorted(set(causes), key=str)
            seen["details"]["causes"] = [list(each) for each in causes]
        if len(causes) > 1:
            seen["message"] = "see the causes"
        return seen

    # ---- names

    def _learn(self, value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                self._learn(each)
        elif isinstance(value, dict):
            self._learn_object(value.get("metadata"))
            for each in value.values():
                self._learn(each)

    def _learn_object(self, metadata: Any) -> None:
        if not isinstance(metadata, dict):
            return
        prefix, name = metadata.get("generateName"), metadata.get("name", "")
        if prefix and name.startswith(prefix) and len(name) == len(prefix) + 5:
            name = self._generated.setdefault(name, f"{prefix}<{len(self._generated)}>")
        if "uid" in metadata:
            self._name("uid", name, metadata["uid"])
            self._name("version", name, metadata.get("resourceVersion", ""))

    def _name(self, what: str, owner: str, value: str) -> None:
        if value and value not in self._names:
            self._counts[what, owner] += 1
            self._names[value] = f"<{what} {self._counts[what, owner]} of {owner}>"

    def _seen(self, value: Any, key: str = "") -> Any:
        if isinstance(value, str):
            return self._text(value, key)
        if isinstance(value, list):
            return list(self._seen_list(value, key))
        if isinstance(value, dict):
            return {self._text(name): self._seen(each, name) for name, each in value.items()}
        return value

    def _seen_list(self, value: list[Any], key: str) -> Iterator[Any]:
        if key == "managedFields":
            # Their order is that of their times, by the second.
            own = (each for each in value if not _CONTROLLERS.match(each.get("manager", "")))
            value = sorted(
                own, key=lambda each: (each["manager"], each["operation"], each.get("subresource", ""))
            )
        if key == "cells":
            value = ["<age>" if isinstance(each, str) and _AGE.match(each) else each for each in value]
        return (self._seen(each, key) for each in value)

    def _text(self, text: str, key: str = "") -> str:
        if key == "resourceVersion":
            return self._names.get(text, text)
        for name, known in self._generated.items():
            text = text.replace(name, known)
        # Where an object would be kept is told in another way by a dry run.
        text = text.replace("Key: /registry/", "Key: /")
        text = _GENERATED.sub(r"\1<any>", text)
        text = _UID.sub(lambda found: self._names.get(found[0], found[0]), text)
        text = _TIME.sub(_time, text)
        return (
            _NUMBER.sub(lambda found: self._names.get(found[0], found[0]), text) if key == "message" else text
        )


def _time(found: re.Match[str]) -> str:
    """Times of these days are those of the servers; the plays name others."""
    days = (datetime.now(UTC) + timedelta(days=shift) for shift in (-1, 0, 1))
    return "<time>" if found[1] in [f"{day:%Y-%m-%d}" for day in days] else found[0]


def _without_versions(value: Any) -> Any:
    """At rest it does not matter in how many writes it came to this, and who wrote."""
    if isinstance(value, list):
        return [_without_versions(each) for each in value]
    if not isinstance(value, dict):
        return value
    dropped = ("resourceVersion", "managedFields", "generation")
    return {key: _without_versions(each) for key, each in value.items() if key not in dropped}
