"""Writes that a real API server and our functions both answer, and how the answers are compared."""

import http.client
import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from bireme.api.quantity import QuantityError, parse_quantity
from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import Kind
from bireme.apiserver.managed.apply import apply, check_type
from bireme.apiserver.managed.entries import keep_times
from bireme.apiserver.managed.resets import reset_fields
from bireme.apiserver.managed.track import track
from bireme.apiserver.openapi.definitions import schema_of
from bireme.apiserver.times import read_time
from support.control_plane import ControlPlane

Object = dict[str, Any]
SPACE = "managed-agrees"
NEVER = datetime(2001, 1, 1, tzinfo=UTC)
AGER, AGED = "ager", "2020-01-01T00:00:"
JSON, MERGE, STRATEGIC, APPLY = (
    "application/json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)  # fmt: skip
JSON_PATCH = "application/json-patch+json"

ADMITTED = {
    "Pod": ("serviceAccountName", "serviceAccount", "tolerations", "priority", "preemptionPolicy"),
    "Service": ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"),
    "Namespace": ("finalizers",),
    "Node": ("taints",),
}
"""What the server fills into the spec, beside finalizers, after it has noted who owns what."""
DEFAULTED = {
    "protocol", "targetPort", "imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy",
    "resources", "requests", "dnsPolicy", "restartPolicy", "schedulerName", "securityContext",
    "sessionAffinity", "terminationGracePeriodSeconds", "enableServiceLinks", "type", "internalTrafficPolicy",
    "status", "lastProbeTime", "lastTransitionTime", "spec", "apiVersion",
}  # fmt: skip


DECIDED = {"sessionAffinityConfig", "externalTrafficPolicy", "podIP", "podIPs", "qosClass"}
"""What the server derives from other fields, and drops with these."""


class Step(NamedTuple):
    """One write. `how` is a media type of a patch, `create` or `replace`; a replacement may be a function of
    the object that it replaces."""

    how: str
    body: Any
    manager: str = "one"
    force: bool = False
    subresource: str = ""


class Answers(NamedTuple):
    """The server's code, and what is to be equal; nothing where our functions have no say."""

    code: int
    ours: object = None
    theirs: object = None


class Wire:
    """The server."""

    def __init__(self, plane: ControlPlane) -> None:
        tls = ssl.create_default_context(cafile=plane.ca_path)
        tls.load_cert_chain(plane.admin_cert, plane.admin_key)
        address = plane.url.removeprefix("https://")
        self._connection = http.client.HTTPSConnection(address, context=tls, timeout=90)

    def call(self, method: str, path: str, body: object = None, media_type: str = JSON) -> tuple[int, Object]:
        text = None if body is None else json.dumps(body)
        self._connection.request(method, path, text, {"Content-Type": media_type})
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())

    def close(self) -> None:
        self._connection.close()


class Play:
    """One object, and all that is done to it."""

    def __init__(self, wire: Wire, kind: Kind, name: str) -> None:
        self._wire, self._kind, self._name = wire, kind, name
        root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
        place = f"{root}/namespaces/{SPACE}" if kind.namespaced else root
        self._collection = f"{place}/{kind.plural}"
        self._path = f"{self._collection}/{name}"
        self._age = 0

    def find(self) -> Object | None:
        code, found = self._wire.call("GET", self._path)
        return found if code == 200 else None

    def take(self, step: Step) -> Answers:
        """Take a step, and answer it too."""
        before = self._aged()
        if callable(step.body):
            step = step._replace(body=step.body(before))
        code, answer = self._send(step)
        if step.how == APPLY:
            return self._answer_apply(step, before, code, answer)
        if code >= 300:
            return Answers(code)
        return Answers(code, self._answer_write(step, before, answer), _owners(answer))

    def _aged(self) -> Object | None:
        """The object, its owners' times set back: what a step stamps is told from what it leaves.

        A change goes with that, or the server would leave the times alone.
        """
        found = self.find()
        entries = [] if found is None else found["metadata"].get("managedFields", [])
        if not entries:
            return found
        self._age += 1
        aged = [
            each | {"time": f"{AGED}{59 - number:02}Z"} if "time" in each else each
            for number, each in enumerate(entries)
        ]
        metadata = {"managedFields": aged, "annotations": {"age": str(self._age)}}
        path = f"{self._path}?fieldManager={AGER}"
        return self._wire.call("PATCH", path, {"metadata": metadata}, MERGE)[1]

    def _send(self, step: Step) -> tuple[int, Object]:
        query = {"fieldManager": step.manager}
        if step.how == "create":
            body = self.headed(step.body)
            return self._wire.call("POST", f"{self._collection}?{urlencode(query)}", body)
        path = f"{self._path}/{step.subresource}" if step.subresource else self._path
        if step.how == "replace":
            return self._wire.call("PUT", f"{path}?{urlencode(query)}", step.body)
        body = step.body
        if step.how == APPLY:
            query["force"], body = str(step.force).lower(), self.headed(step.body)
        return self._wire.call("PATCH", f"{path}?{urlencode(query)}", body, step.how)

    def headed(self, body: Object) -> Object:
        head = {"apiVersion": self._kind.api_version, "kind": self._kind.kind}
        return head | body | {"metadata": {"name": self._name} | body.get("metadata", {})}

    def _answer_write(self, step: Step, before: Object | None, after: Object) -> list[Object]:
        new = after if before is not None else _as_written(self._kind, step.body, after)
        metadata = {key: value for key, value in new["metadata"].items() if key != "managedFields"}
        if (sent := _sent(step, before)) is not None:
            metadata["managedFields"] = sent
        ours = track(
            schema_of(self._kind), before, new | {"metadata": metadata}, manager=step.manager,
            api_version=self._kind.api_version, now=_moment(after), subresource=step.subresource,
            ignored=reset_fields(self._kind, step.subresource), custom=self._kind.custom,
        )  # fmt: skip
        return _settled(before, after, ours)

    def _answer_apply(self, step: Step, before: Object | None, code: int, answer: Object) -> Answers:
        refusal, ours = self._apply(step, before, answer)
        if code in (400, 409, 500) or refusal is not None:
            return Answers(code, refusal, _refusal(answer))
        if code >= 300:
            return Answers(code)
        owners = _settled(before, answer, _owners(ours))
        return Answers(code, (owners, differences(self._kind, step, ours, answer)), (_owners(answer), []))

    def _apply(self, step: Step, before: Object | None, answer: Object) -> tuple[Object | None, Object]:
        """Our refusal, or our object."""
        config = self.headed(step.body)
        try:
            check_type(self._kind.group, self._kind.version, self._kind.kind, config)
            ours = apply(
                schema_of(self._kind), before, config, manager=step.manager, force=step.force,
                api_version=self._kind.api_version, now=_moment(answer),
                subresource=step.subresource, ignored=reset_fields(self._kind, step.subresource),
                custom=self._kind.custom,
            )  # fmt: skip
        except StatusError as error:
            return _refusal(error.status), {}
        return None, ours


def _owners(obj: Object) -> list[Object]:
    return obj["metadata"].get("managedFields") or []


def _as_written(kind: Kind, sent: Object, stored: Object) -> Object:
    """A created object as its creator meant it."""
    admitted = {"spec": ADMITTED.get(kind.kind, ()), "metadata": ("finalizers",)}
    return stored | {
        part: {
            key: value for key, value in stored[part].items() if key not in names or key in sent.get(part, {})
        }
        for part, names in admitted.items()
        if part in stored
    }


def _sent(step: Step, before: Object | None) -> list[Object] | None:
    """The managedFields that the server found in what was written."""
    sent: list[Object] | None
    if step.how in ("create", "replace", MERGE) and "managedFields" in step.body.get("metadata", {}):
        sent = step.body["metadata"]["managedFields"]
        return sent
    if step.how == JSON_PATCH and (values := [
        each["value"] for each in step.body if each["path"] == "/metadata/managedFields"
    ]):  # fmt: skip
        sent = values[-1]
        return sent
    if before is None or step.how == "replace":
        return None
    sent = before["metadata"].get("managedFields")
    return sent


def _moment(answer: Object) -> datetime:
    """When the server wrote, if it says so."""
    times = [
        each["time"]
        for each in answer.get("metadata", {}).get("managedFields", [])
        if each.get("manager") != AGER and not each.get("time", AGED).startswith(AGED)
    ]
    return read_time(max(times)) if times else NEVER


def _settled(before: Object | None, after: Object, owners: list[Object]) -> list[Object]:
    """Our managedFields as they are once the write was stored."""
    if before is None:
        return owners
    same = {"resourceVersion": before["metadata"]["resourceVersion"], "managedFields": owners}
    stored = keep_times(before, after | {"metadata": after["metadata"] | same})
    settled: list[Object] = stored["metadata"]["managedFields"]
    return settled


def _refusal(status: Object) -> Object:
    causes = status.get("details", {}).get("causes", [])
    listed = sorted((each["field"], each["message"], each["reason"]) for each in causes)
    # The server finds several errors in any order.
    return {"code": status["code"], "message": sorted(status["message"].splitlines()), "causes": listed}


def differences(kind: Kind, step: Step, ours: Object, theirs: Object) -> list[str]:
    """What is different in the part of an object that a step writes to."""
    if step.subresource:
        return list(_differences(".status", ours.get("status"), theirs.get("status")))
    return list(_differences("", _written_part(kind, ours), _written_part(kind, theirs)))


def _written_part(kind: Kind, obj: Object) -> Object:
    names = ("labels", "annotations", "finalizers", "ownerReferences")
    metadata = {key: value for key, value in obj["metadata"].items() if key in names}
    left_out = ("metadata", "status") if kind.has_status else ("metadata",)
    return {key: value for key, value in obj.items() if key not in left_out} | {"metadata": metadata}


def _differences(path: str, ours: Any, theirs: Any) -> Iterator[str]:
    """Where two objects differ, but for what the server fills in and for empty values."""
    if _is_empty(ours) and _is_empty(theirs):
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours | theirs):
            one, other = ours.get(key), theirs.get(key)
            filled_in = key in DEFAULTED or (path == ".spec" and key in _all_admitted())
            if key not in DECIDED and (key in ours or not filled_in):
                yield from _differences(f"{path}.{key}", one, other)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _differences(f"{path}[{place}]", one, other)
    elif ours != theirs and not _same_amount(ours, theirs):
        yield f"{path}: ours {ours!r}, theirs {theirs!r}"


def _is_empty(value: Any) -> bool:
    return all(map(_is_empty, value.values())) if isinstance(value, dict) else not value


def _same_amount(one: Any, other: Any) -> bool:
    try:
        return parse_quantity(one).nanos == parse_quantity(other).nanos
    except (QuantityError, TypeError, AttributeError):
        return False


def _all_admitted() -> set[str]:
    return {name for names in ADMITTED.values() for name in names}
