"""A real API server and the store, asked the same: what is asked, and what of the answers is compared.

UIDs and versions are compared by when they were first seen, times only by whether they are there; of pods'
specs only what a writer sets.
"""

import http.client
import itertools
import json
import re
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from hypothesis import strategies as st

from bireme.apiserver.kinds import NAMESPACE
from bireme.apiserver.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from bireme.apiserver.routes import Request, answer, open_watch
from bireme.apiserver.store import Store
from support.control_plane import ControlPlane

SPACE = "store-agrees"
Object = dict[str, Any]


class Kind(NamedTuple):
    plural: str
    collection: str
    head: Object
    content: Object
    changes: dict[str, Object]
    """Merge patches of what is not metadata."""


CONFIG_MAPS = Kind(
    "configmaps", f"/api/v1/namespaces/{SPACE}/configmaps", {"apiVersion": "v1", "kind": "ConfigMap"},
    {"data": {"a": "1"}},
    {"content": {"data": {"a": "2"}}, "other content": {"data": {"b": "3"}}, "no content": {"data": None}},
)  # fmt: skip
PODS = Kind(
    "pods", f"/api/v1/namespaces/{SPACE}/pods", {"apiVersion": "v1", "kind": "Pod"},
    {"spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"}},
    {
        "content": {"spec": {"activeDeadlineSeconds": 50}},
        "other content": {"spec": {"activeDeadlineSeconds": 40}},
        "no content": {"spec": {"activeDeadlineSeconds": None}},
        "forbidden content": {"spec": {"nodeName": "other"}},
        "status": {"status": {"phase": "Running"}},
        "other status": {"status": {"phase": "Failed", "reason": "Evicted"}},
    },
)  # fmt: skip
GENERIC_JOBS = Kind(
    "genericjobs", f"/apis/batch.tensorstack.dev/v1beta1/namespaces/{SPACE}/genericjobs",
    {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "GenericJob"},
    {"spec": {"cleanUpPolicy": "None", "replicaSpecs": [{
        "type": "worker", "replicas": 1, "restartPolicy": {"policy": "Never", "limit": 0},
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
    }]}},
    {
        "content": {"spec": {"cleanUpPolicy": "All"}},
        "other content": {"spec": {"cleanUpPolicy": "Unfinished"}},
        "status": {"status": {"phase": "Running"}},
        "other status": {"status": {"phase": "Failed"}},
        "no status": {"status": None},
    },
)  # fmt: skip
KINDS = (CONFIG_MAPS, PODS, GENERIC_JOBS)

METADATA: dict[str, Object] = {
    "nothing": {},
    "a label": {"labels": {"s": "1"}},
    "another label": {"labels": {"s": "2"}},
    "no label": {"labels": {"s": None}},
    "no labels": {"labels": None},
    "an annotation": {"annotations": {"note": "x"}},
    "a finalizer": {"finalizers": ["example.com/f"]},
    "two finalizers": {"finalizers": ["example.com/f", "example.com/g"]},
    "no finalizers": {"finalizers": None},
    "empty finalizers": {"finalizers": []},
    "a stale version": {"resourceVersion": "1"},
    "no version": {"resourceVersion": None},
    "another UID": {"uid": "other"},
    "another name": {"name": "other"},
    "another namespace": {"namespace": "other"},
    "a generation": {"generation": 77},
    "another birth": {"creationTimestamp": "2020-01-01T00:00:00Z"},
    "a death": {"deletionTimestamp": "2020-01-01T00:00:00Z"},
    "a bad key": {"labels": {"bad key": "x"}},
    "a bad value": {"labels": {"s": "bad value"}},
    "a bad finalizer": {"finalizers": ["bad finalizer"]},
    "a number for a label": {"labels": {"s": 1}},
    "a bad owner": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": "u"}]},
}
JSON_PATCHES: dict[str, list[Object]] = {
    "nothing": [],
    "sets a label": [{"op": "add", "path": "/metadata/labels/s", "value": "1"}],
    "replaces a label": [{"op": "replace", "path": "/metadata/labels/s", "value": "2"}],
    "removes a label": [{"op": "remove", "path": "/metadata/labels/s"}],
    "adds finalizers": [{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/f"]}],
    "appends a finalizer": [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/g"}],
    "removes the first finalizer": [{"op": "remove", "path": "/metadata/finalizers/0"}],
    "tests, then removes finalizers": [
        {"op": "test", "path": "/metadata/finalizers/0", "value": "example.com/f"},
        {"op": "remove", "path": "/metadata/finalizers"},
    ],
    "copies": [{"op": "copy", "from": "/metadata/labels/example", "path": "/metadata/labels/s"}],
    "moves": [{"op": "move", "from": "/metadata/labels/s", "path": "/metadata/labels/t"}],
    "fails at the end": [
        {"op": "add", "path": "/metadata/labels/s", "value": "7"},
        {"op": "remove", "path": "/metadata/nothing"},
    ],
    "is none": [{"op": "frob", "path": "/metadata"}],
}
STRATEGIC_PATCHES: dict[str, Object] = {
    "a label": {"metadata": {"labels": {"s": "1"}}},
    "adds a finalizer": {"metadata": {"finalizers": ["example.com/g"]}},
    "deletes a finalizer": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/f"]}},
    "orders finalizers": {
        "metadata": {
            "$setElementOrder/finalizers": ["example.com/g", "example.com/f"],
            "finalizers": ["example.com/g"],
        }
    },
    "replaces labels": {"metadata": {"labels": {"$patch": "replace", "example": "gone", "s": "2"}}},
    "the image of a container": {"spec": {"containers": [{"name": "c", "image": "j"}]}},
    "a container": {"spec": {"containers": [{"name": "d", "image": "j"}]}},
    "a container without a name": {"spec": {"containers": [{"image": "j"}]}},
}
SELECTORS = (
    "", "s=1", "s!=1", "s", "!s", "s in (1,2)", "s notin (1)", "s>1", "s in (", "=", "s=bad value", "a b",
)  # fmt: skip
FIELDS = (
    "", "metadata.name={name}", "metadata.name!={name}", "metadata.namespace=other", "spec.nodeName=node",
    "status.phase=Running", "status.phase!=Running,spec.nodeName!=", "spec.other=1", "nonsense",
)  # fmt: skip
DELETIONS = ("", "right uid", "wrong uid", "right version", "stale version")
GRACES = ("", "0", "5", "60", "-1")


class Step(NamedTuple):
    verb: str
    what: str = ""
    name: str = "a"
    how: str = ""


def step(verb: str, what: Iterable[str] = ("",), how: Iterable[str] = ("",)) -> st.SearchStrategy[Step]:
    choices = (st.sampled_from(tuple(each)) for each in (what, ("a", "a", "b"), how))
    return st.builds(Step, st.just(verb), *choices)


def steps_of(kind: Kind) -> st.SearchStrategy[Step]:
    contents = (*METADATA, *kind.changes)
    steps = [
        step("create", [each for each in METADATA if each != "another name"]),
        step("get"),
        step("merge", contents),
        step("json", JSON_PATCHES),
        step("strategic", [each for each in STRATEGIC_PATCHES if kind is PODS or "container" not in each]),
        step("replace", contents, ("", "stale", "unversioned")),
        step("delete", DELETIONS, GRACES),
        step("list", SELECTORS, FIELDS),
    ]
    if kind is not CONFIG_MAPS:
        steps += [step("merge_status", contents), step("replace_status", contents, ("", "stale"))]
    if kind is PODS:
        steps += [step("bind"), step("evict")]
    return st.one_of(steps)


class Call(NamedTuple):
    method: str
    path: str
    body: Any = None
    media_type: str = "application/json"
    params: Mapping[str, str] = {}


class Reply(NamedTuple):
    code: int
    body: Object


class Real:
    """The API server of the control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self._address = plane.url.removeprefix("https://")
        self._tls = ssl.create_default_context(cafile=plane.ca_path)
        self._tls.load_cert_chain(plane.admin_cert, plane.admin_key)
        self._connection = self._connect()

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._address, context=self._tls, timeout=90)

    def call(self, call: Call) -> Reply:
        query = f"?{urlencode(call.params)}" if call.params else ""
        body = None if call.body is None else json.dumps(call.body)
        self._connection.request(call.method, call.path + query, body, {"Content-Type": call.media_type})
        response = self._connection.getresponse()
        text = response.read()
        # What no handler answers is answered by a line of text.
        return Reply(response.status, json.loads(text) if text.startswith(b"{") else {})

    def close(self) -> None:
        self._connection.close()

    def events(self, path: str, params: Mapping[str, str], count: int) -> list[Object]:
        """The first events of a watch; that one more would come shows in the last of them."""
        connection = self._connect()
        connection.request("GET", f"{path}?{urlencode({**params, 'watch': '1'})}")
        lines = itertools.islice(connection.getresponse(), count)
        events = [json.loads(line) for line in lines]
        connection.close()
        return events


class Model:
    """The store."""

    def __init__(self) -> None:
        self.store = Store()
        self.store.create(NAMESPACE, {"metadata": {"name": SPACE}}, self.now())

    def now(self) -> datetime:
        return datetime.fromtimestamp(time.time(), UTC)

    def call(self, call: Call) -> Reply:
        body = b"" if call.body is None else json.dumps(call.body).encode()
        request = Request(call.method, call.path, call.params, body, call.media_type)
        code, answered = answer(self.store, request, self.now())
        return Reply(code, json.loads(json.dumps(answered)))

    def events(self, path: str, params: Mapping[str, str], count: int = 0) -> list[Object]:
        """All events of a watch so far, however many are asked for."""
        watcher = open_watch(self.store, path, params, lambda: None)
        events: list[Object] = [{"type": each.type, "object": each.object} for each in watcher.poll()]
        watcher.close()
        return events[:count] if count else events


class Witness:
    """One side of one example: what was seen, and in which order."""

    def __init__(self, side: Real | Model, kind: Kind, number: int) -> None:
        self.side, self.kind, self.number = side, kind, number
        self._first_seen: dict[str, str] = {}
        self._latest: dict[str, Object] = {}
        self._versions: dict[str, list[str]] = {}
        self.start: str = self.side.call(self._list(Step("list")))[1]["metadata"]["resourceVersion"]

    def take(self, step: Step) -> Object:
        """Take a step, and return what can be compared of the answer."""
        build: Callable[[Step], Call] = getattr(self, f"_{step.verb}")
        return self.see(build(step))

    def see(self, call: Call) -> Object:
        reply = self.side.call(call)
        self._remember(reply.body)
        return {"code": reply.code} | self._comparable(reply.body)

    def events(self, params: Mapping[str, str], count: int = 0) -> list[tuple[str, Object]]:
        """What a watcher of the example's objects is told."""
        labels = self._labels(params.get("labelSelector", ""))
        events = self.side.events(self.kind.collection, {**params, "labelSelector": labels}, count)
        return [(each["type"], self._comparable(each["object"])) for each in events]

    # ---- requests

    def path(self, name: str) -> str:
        return f"{self.kind.collection}/{self.number}-{name}"

    def _create(self, step: Step) -> Call:
        return Call("POST", self.kind.collection, self._manifest(step.name, METADATA[step.what]))

    def _get(self, step: Step) -> Call:
        return Call("GET", self.path(step.name))

    def _list(self, step: Step) -> Call:
        fields = step.how.format(name=f"{self.number}-{step.name}")
        params = {"labelSelector": self._labels(step.what), "fieldSelector": fields}
        return Call("GET", self.kind.collection, params=params)

    def _json(self, step: Step) -> Call:
        return Call("PATCH", self.path(step.name), JSON_PATCHES[step.what], JSON_PATCH)

    def _strategic(self, step: Step) -> Call:
        return Call("PATCH", self.path(step.name), STRATEGIC_PATCHES[step.what], STRATEGIC_MERGE_PATCH)

    def _merge(self, step: Step) -> Call:
        return Call("PATCH", self.path(step.name), self._change(step.what), MERGE_PATCH)

    def _merge_status(self, step: Step) -> Call:
        return Call("PATCH", f"{self.path(step.name)}/status", self._change(step.what), MERGE_PATCH)

    def _replace(self, step: Step) -> Call:
        return Call("PUT", self.path(step.name), self._replacement(step))

    def _replace_status(self, step: Step) -> Call:
        return Call("PUT", f"{self.path(step.name)}/status", self._replacement(step))

    def _delete(self, step: Step) -> Call:
        name = f"{self.number}-{step.name}"
        latest = self._latest.get(name, {}).get("metadata", {})
        preconditions = {
            "right uid": {"uid": latest.get("uid", "u")},
            "wrong uid": {"uid": "other"},
            "right version": {"resourceVersion": latest.get("resourceVersion", "1")},
            "stale version": {"resourceVersion": self._versions.get(name, ["1"])[0]},
        }
        options: Object = {"preconditions": preconditions[step.what]} if step.what else {}
        grace = {"gracePeriodSeconds": int(step.how)} if step.how else {}
        return Call("DELETE", self.path(step.name), options | grace)

    def _bind(self, step: Step) -> Call:
        binding = {
            "metadata": {"name": f"{self.number}-{step.name}"},
            "target": {"kind": "Node", "name": "node"},
        }
        return Call("POST", f"{self.path(step.name)}/binding", binding)

    def _evict(self, step: Step) -> Call:
        head = {"apiVersion": "policy/v1", "kind": "Eviction"}
        eviction = {**head, "metadata": {"name": f"{self.number}-{step.name}"}}
        return Call("POST", f"{self.path(step.name)}/eviction", eviction)

    def _manifest(self, name: str, metadata: Object) -> Object:
        labels = {**(metadata.get("labels") or {}), "example": f"e{self.number}"}
        metadata = {"name": f"{self.number}-{name}", **metadata, "labels": labels}
        return {**self.kind.head, **self.kind.content, "metadata": metadata}

    def _change(self, what: str) -> Object:
        return {"metadata": METADATA[what]} if what in METADATA else self.kind.changes[what]

    def _replacement(self, step: Step) -> Object:
        """The object as this side last showed it, changed."""
        name = f"{self.number}-{step.name}"
        new: Object = merged(self._latest.get(name, self._manifest(step.name, {})), self._change(step.what))
        version = {"stale": self._versions.get(name, ["1"])[0], "unversioned": None}
        patch = {"metadata": {"resourceVersion": version[step.how]}} if step.how else {}
        return merged(new, patch)  # type: ignore[no-any-return]

    def _labels(self, selector: str) -> str:
        return ",".join(filter(None, (f"example=e{self.number}", selector)))

    # ---- answers

    def _remember(self, body: Object) -> None:
        metadata = body["metadata"]
        if "name" in metadata and "uid" in metadata:
            self._latest[metadata["name"]] = body
            self._versions.setdefault(metadata["name"], []).append(metadata["resourceVersion"])

    def _comparable(self, body: Object) -> Object:
        if body["kind"] == "Status":
            return status_view(body)
        if "items" in body:
            about = {key: bool(body["metadata"].get(key)) for key in ("continue", "remainingItemCount")}
            items = [self._object_view(item) for item in body["items"]]
            return {"items": items, "typed": ["kind" in item for item in body["items"]], **about}
        return self._object_view(body)

    def _object_view(self, obj: Object) -> Object:
        metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
        for field in ("uid", "resourceVersion"):
            seen = metadata.get(field, "")
            metadata[field] = self._first_seen.setdefault(seen, f"{field} {len(self._first_seen)}")
        for field in ("creationTimestamp", "deletionTimestamp"):
            metadata[field] = field in metadata
        spec = obj.get("spec") or {}
        if self.kind is PODS:
            images = [container["image"] for container in spec.get("containers", ())]
            spec = {"images": images, **{key: spec.get(key) for key in ("nodeName", "activeDeadlineSeconds")}}
        status = re.sub(r'"\d{4}-[^"]+Z"', '"time"', json.dumps(obj.get("status") or {}))
        return {"metadata": metadata, "data": obj.get("data"), "spec": spec, "status": json.loads(status)}


def status_view(status: Object) -> Object:
    """A Status without what names UIDs and versions, or speaks of Go."""
    message = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", status.get("message", "")).partition("\n")[0]
    # The list of an Invalid has lost its end where the API server adds a diff.
    message = re.sub(r"\d+", "N", message).rstrip("]")
    details = status.get("details", {})
    causes = sorted({(cause["reason"], cause.get("field", "")) for cause in details.get("causes", ())})
    if re.search("json:|cannot be handled|merge key|is invalid: patch|is missing", message):
        message = "it can't be decoded"
    about = {key: details.get(key) for key in ("kind", "group", "name")}
    return {"reason": status.get("reason"), "message": message, "causes": causes, **about}


def merged(document: Any, patch: Any) -> Any:
    """RFC 7386, in the fewest words."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        result[key] = merged(result.get(key), value)
    return {key: value for key, value in result.items() if value is not None}
