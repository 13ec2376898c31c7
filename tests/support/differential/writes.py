"""Writes of one object, by chance: right ones and wrong ones."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from support.differential.calls import Call, Object, merged
from support.differential.subjects import Subject

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
LETTERS = "aaab"

METADATA: tuple[Object, ...] = (
    {},
    {"labels": {"s": "1"}},
    {"labels": {"s": "2"}},
    {"labels": {"s": None}},
    {"labels": None},
    {"labels": {}},
    {"annotations": {"note": "x"}},
    {"annotations": {"note": None}},
    {"finalizers": ["example.com/f"]},
    {"finalizers": ["example.com/f", "example.com/g"]},
    {"finalizers": None},
    {"finalizers": []},
    {"managedFields": []},
    {"managedFields": [{}]},
    {"generation": 77},
    {"creationTimestamp": "2020-01-01T00:00:00Z"},
    {"creationTimestamp": None},
    {"deletionTimestamp": "2020-01-01T00:00:00Z"},
    {
        "ownerReferences": [
            {"apiVersion": "no.example.com/v1", "kind": "Thing", "name": "n", "uid": "u", "controller": True}
        ]
    },
    {"ownerReferences": []},
)
WRONG_METADATA: tuple[Object, ...] = (
    {"resourceVersion": "1"},
    {"resourceVersion": "x"},
    {"uid": "other"},
    {"name": "other"},
    {"namespace": "other"},
    {"labels": {"bad key": "x"}},
    {"labels": {"s": "bad value"}},
    {"annotations": {"bad key": ""}},
    {"finalizers": ["bad finalizer"]},
    {"finalizers": ["unqualified"]},
    {"finalizers": ["orphan", "foregroundDeletion"]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": "u"}]},
    {"labels": {"s": 1}},
    {"labels": []},
    {"finalizers": "x"},
    {"generateName": "Bad_"},
    {"creationTimestamp": "yesterday"},
)
JSON_PATCHES: tuple[Any, ...] = (
    [],
    [{"op": "add", "path": "/metadata/labels", "value": {"s": "1"}}],
    [{"op": "add", "path": "/metadata/labels/s", "value": "1"}],
    [{"op": "replace", "path": "/metadata/labels/s", "value": "2"}],
    [{"op": "remove", "path": "/metadata/labels/s"}],
    [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/f"]}],
    [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/g"}],
    [{"op": "remove", "path": "/metadata/finalizers/0"}],
    [{"op": "remove", "path": "/metadata/finalizers"}],
    [
        {"op": "test", "path": "/metadata/finalizers/0", "value": "example.com/f"},
        {"op": "remove", "path": "/metadata/finalizers"},
    ],
    [{"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations"}],
    [{"op": "move", "from": "/metadata/labels/s", "path": "/metadata/labels/t"}],
    [{"op": "test", "path": "/metadata/name", "value": "nobody"}],
    [{"op": "frob", "path": "/metadata"}],
    [{"op": "add", "path": "/unknown", "value": 1}],
    [{"op": "replace", "path": "/kind", "value": "Other"}],
    [{"op": "remove", "path": "/metadata/name"}],
    {"op": "add"},
    [1],
)
STRATEGIC_PATCHES: tuple[Object, ...] = (
    {"metadata": {"finalizers": ["example.com/g"]}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/f"]}},
    {
        "metadata": {
            "$setElementOrder/finalizers": ["example.com/g", "example.com/f"],
            "finalizers": ["example.com/g"],
        }
    },
    {"metadata": {"labels": {"$patch": "replace", "s": "2"}}},
    {"metadata": {"ownerReferences": [{"uid": "u", "name": "other"}]}},
    {"metadata": {"$patch": "delete"}},
    {"$patch": "unheard of"},
)
UNKNOWN: tuple[Object, ...] = (
    {"unknown": 1},
    {"metadata": {"unknown": {}}},
    {"Spec": {}, "Data": "x"},
    {"unknown": [], "other": {"a": 1}},
)
GRACES: tuple[Object, ...] = (
    {},
    {},
    {"gracePeriodSeconds": 0},
    {"gracePeriodSeconds": 5},
    {"gracePeriodSeconds": -1},
)


class Writes:
    """Makes calls that write one kind."""

    def __init__(self, random: Random, subject: Subject) -> None:
        self._random, self._subject = random, subject
        # Writes that change nothing make a version of these kinds there.
        rewritten = subject.kind.kind in ("PersistentVolumeClaim", "Node")
        self._stale = () if rewritten else ("first", "previous")

    def any(self) -> Call:
        """A call of any sort; writes more often than others."""
        makers: list[Callable[[], Call]] = [
            self.create,
            self.get,
            self.replace,
            self.replace,
            self.merge,
            self.merge,
            self.json_patch,
            self.apply,
            self.apply,
        ]
        if self._subject.kind.kind != "Namespace":
            # A controller goes on from there.
            makers.append(self.delete)
        if not self._subject.kind.custom:
            makers.append(self.strategic)
        if self._subject.kind.has_status:
            makers.append(self.merge_status)
            # A status that is not there is created with the rest of such a kind.
            makers += [] if self._subject.kind.create_on_update else [self.replace_status, self.apply_status]
        return self._random.choice(makers)()

    def create(self, letter: str = "", metadata: Object | None = None) -> Call:
        given = self._metadata() if metadata is None else metadata
        named = {"name": self._subject.name(letter or self._letter()), **given}
        if metadata is None and self._chance(0.1):
            named = {**given, "generateName": self._subject.name("gen-")}
        body = merged(self._subject.manifest(self._random, {}), {"metadata": named})
        if metadata is None and self._chance(0.15):
            body = self._spoiled(body)
        if metadata is None and self._chance(0.1):
            body = {key: value for key, value in body.items() if key not in ("kind", "apiVersion")}
        if metadata is not None:
            return Call("POST", self._subject.collection, body)
        written, params = self._written(body)
        if named.get("resourceVersion") == "x":
            return self.get()
        if "resourceVersion" in named:
            # Nobody looks at it in a dry run.
            params.pop("dryRun", None)
        return Call("POST", self._subject.collection, written, params)

    def get(self) -> Call:
        subresource = "status" if self._chance(0.2) and self._subject.kind.has_status else ""
        return Call("GET", self._subject.path(self._letter(), subresource))

    def replace(self, subresource: str = "") -> Call:
        letter = self._letter()
        change = self._change() if not subresource else self._status_change()
        stale = [{"resourceVersion": f"<{which} {self._subject.key(letter)}>"} for which in self._stale]
        version: Object = self._random.choice(
            [{}, {}, {}, {"resourceVersion": None}, {"resourceVersion": "0"}, *stale]
        )
        body = {
            "$latest": self._subject.key(letter),
            "$else": self._subject.manifest(self._random, {"name": self._subject.name(letter)}),
            "$merge": merged({"metadata": version}, change) if version else change,
        }
        if not version.get("resourceVersion", True):
            body["$merge"] = {**change, "metadata": {**change.get("metadata", {}), "resourceVersion": None}}
        params = self._params()
        if version.get("resourceVersion"):
            # An object that a dry run would create keeps it.
            params.pop("dryRun", None)
        return Call("PUT", self._subject.path(letter, subresource), body, params)

    def merge(self, subresource: str = "") -> Call:
        change = self._change() if not subresource else self._status_change()
        if self._chance(0.1):
            change = self._spoiled(change)
        if self._chance(0.2):
            versions = [f"<{which} {self._subject.key('a')}>" for which in ("version", *self._stale)]
            change = merged(change, {"metadata": {"resourceVersion": self._random.choice(versions)}})
        body, params = self._written(change)
        return Call("PATCH", self._subject.path(self._letter(), subresource), body, params, MERGE)

    def strategic(self) -> Call:
        change = self._random.choice([*STRATEGIC_PATCHES, self._change()])
        return Call("PATCH", self._subject.path(self._letter()), change, self._params(), STRATEGIC)

    def json_patch(self) -> Call:
        patch = self._random.choice(JSON_PATCHES)
        return Call("PATCH", self._subject.path(self._letter()), patch, self._params(), JSON_PATCH)

    def apply(self, subresource: str = "") -> Call:
        letter = self._letter()
        content = _without_nulls(self._change() if not subresource else self._status_change())
        if self._chance(0.3):
            # Two pods in one would have volumes of several types.
            letter = self._random.choice("cdefgh") if self._subject.kind.kind == "Pod" else letter
            content = _without_nulls({**self._subject.make(self._random), **content})
        if content.get("spec") == {}:
            # A custom kind's spec that goes that way is null, and refused.
            del content["spec"]
        if not _is_readable(content.get("metadata", {})):
            del content["metadata"]
        elif self._subject.kind.custom and "metadata" in content:
            # What is empty is written there, and gone when it is read.
            content["metadata"] = {key: each for key, each in content["metadata"].items() if each}
        if subresource and not content["status"]:
            # A custom kind's status that goes that way is null, and refused.
            content["status"] = self._subject.statuses[0]
        name = {"name": self._subject.name(letter)}
        body = merged({**self._subject.head, "metadata": name}, content)
        if self._chance(0.1) and body["metadata"]["name"] == name["name"]:
            # Of several unknown fields a server names any.
            body = merged(body, {"unknown": 1})
        params = {**self._params(), "fieldManager": self._random.choice(["one", "two"])}
        if self._chance(0.4):
            params["force"] = self._random.choice(["true", "false"])
        return Call("PATCH", self._subject.path(letter, subresource), body, params, APPLY)

    def replace_status(self) -> Call:
        return self.replace("status")

    def merge_status(self) -> Call:
        return self.merge("status")

    def apply_status(self) -> Call:
        return self.apply("status")

    def delete(self) -> Call:
        letter = self._letter()
        key = self._subject.key(letter)
        versions = [{"resourceVersion": f"<{which} {key}>"} for which in ("version", *self._stale)]
        preconditions: list[Object] = [{}, {}, {}, {"uid": f"<uid {key}>"}, {"uid": "other"}, *versions]
        chosen = self._random.choice(preconditions)
        options = self._random.choice(GRACES) | ({"preconditions": chosen} if chosen else {})
        if self._chance(0.2):
            options = options | {"propagationPolicy": self._random.choice(["Background", "Sideways"])}
        params = {"dryRun": "All"} if self._chance(0.1) else {}
        return Call("DELETE", self._subject.path(letter), options or None, params)

    # ---- parts

    def _letter(self) -> str:
        return self._random.choice(LETTERS)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _metadata(self) -> Object:
        return self._random.choice(WRONG_METADATA if self._chance(0.15) else METADATA)

    def _change(self) -> Object:
        if self._subject.wrong and self._chance(0.1):
            return self._random.choice(self._subject.wrong)
        metadata = {"metadata": self._metadata()} if self._chance(0.6) else {}
        if {"generateName", "deletionTimestamp"}.intersection(metadata.get("metadata", ())):
            # Which kinds look at them again is a matter of each.
            metadata = {}
        content = (
            self._random.choice(self._subject.changes) if self._subject.changes and self._chance(0.6) else {}
        )
        return {**content, **metadata}

    def _status_change(self) -> Object:
        change = self._change() if self._chance(0.4) else {}
        return {**change, "status": self._random.choice(self._subject.statuses)}

    def _spoiled(self, body: Object) -> Object:
        spoiled: Object = merged(body, self._random.choice(UNKNOWN))
        return spoiled

    def _params(self) -> dict[str, str]:
        params = {}
        if self._chance(0.12):
            params["dryRun"] = "All"
        if self._chance(0.35):
            params["fieldValidation"] = self._random.choice(["Strict", "Warn", "Ignore"])
        if self._chance(0.25):
            params["fieldManager"] = self._random.choice(["one", "two"])
        if self._chance(0.02):
            params |= self._random.choice(
                [{"dryRun": "Some"}, {"fieldValidation": "Odd"}, {"fieldManager": "x" * 129}]
            )
        return params

    def _written(self, body: Object) -> tuple[Any, dict[str, str]]:
        """A body and its parameters; at times as text that names a field twice."""
        if self._chance(0.08):
            text = json.dumps(body)
            twice = json.dumps({"metadata": body.get("metadata", {})})[1:-1]
            return f"{text[:-1]}{', ' if body else ''}{twice}}}", self._params()
        return body, self._params()


def _is_readable(metadata: Object) -> bool:
    """Whether metadata can be applied. What can't be read is looked at at different moments, or never."""
    odd = ("yesterday", "2020-01-01T00:00:00Z")
    return metadata.get("resourceVersion") != "x" and not {*odd}.intersection(map(str, metadata.values()))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return value
