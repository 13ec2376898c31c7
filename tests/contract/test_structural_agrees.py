"""What the API server does with custom objects and their CRDs is what ours does."""

import json
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from bireme.api.crd import build_crd as build_own_crd
from bireme.api.kinds import KINDS
from bireme.api.kinds import Kind as OwnKind
from bireme.apiserver.crd_rules import CrdRules
from bireme.apiserver.crds import kind_of
from bireme.apiserver.errors import FieldError
from bireme.apiserver.kinds import Kind
from bireme.apiserver.openapi.definitions import definition, schema_of
from bireme.apiserver.structural.defaulting import default
from bireme.apiserver.structural.pruning import prune, strict_errors
from bireme.apiserver.structural.validation import validate, validate_status
from support.bad_crds import BAD_CRDS, schema_with
from support.control_plane import ControlPlane
from support.custom_kinds import GROUP, Generator, build_crd
from support.custom_schemas import LAX, SCHEMAS, STATUS, root, tightened
from support.json_client import Answer, JsonClient

pytestmark = pytest.mark.xdist_group("control_plane")

Object = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PER_KIND = 40
PATIENCE_SECONDS = 120
TICK_SECONDS = 0.05


WITH_STATUS = build_crd(
    "statuses",
    {"type": "object", "properties": root(a={"type": "integer"})["properties"] | {"status": STATUS}},
    subresources={"status": {}},
)


def own_crd(own: OwnKind) -> Object:
    """The CRD of one of our own kinds: in another group, and without CEL rules, which we do not evaluate."""
    crd: Object = without_rules(build_own_crd(own))
    crd["spec"]["group"] = f"{own.group}.example.com"
    crd["metadata"]["name"] = f"{own.plural}.{own.group}.example.com"
    return crd


def without_rules(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: without_rules(each) for key, each in node.items() if key != "x-kubernetes-validations"}
    return [without_rules(each) for each in node] if isinstance(node, list) else node


ALL_CRDS = [
    *(build_crd(name, schema) for name, schema in SCHEMAS.items()),
    *(own_crd(own) for own in KINDS),
    build_crd("tights", LAX),
    WITH_STATUS,
]


@pytest.fixture(scope="module")
def client(control_plane: ControlPlane) -> Iterator[JsonClient]:
    """With all CRDs created at once: each takes the server a second to serve. They are deleted afterwards."""
    client = JsonClient(control_plane)
    names = [create(client, crd) for crd in ALL_CRDS]
    yield client
    for name in names:
        client.delete(f"{CRDS}/{name}")
    client.close()


def create(client: JsonClient, crd: Object) -> str:
    answer = client.post(CRDS, crd)
    assert answer.code == 201, answer.body
    name: str = crd["metadata"]["name"]
    return name


def wait_until_served(client: JsonClient, path: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while client.get(path).code != 200:
        assert time.monotonic() < deadline, path
        time.sleep(TICK_SECONDS)


def served(client: JsonClient, crd: Object) -> Kind:
    """Wait until a CRD's kind is served; the kind is what we make of the server's own object."""
    kind = kind_of(client.get(f"{CRDS}/{crd['metadata']['name']}").body)
    assert kind is not None
    wait_until_served(client, path_of(kind))
    return kind


def path_of(kind: Kind, name: str = "") -> str:
    namespace = "/namespaces/default" if kind.namespaced else ""
    return f"/apis/{kind.group}/{kind.version}{namespace}/{kind.plural}" + (f"/{name}" if name else "")


class Outcome(NamedTuple):
    """What is comparable of an answer. The server's findings come in any order: it walks Go's maps."""

    code: int
    content: Object
    causes: list[tuple[str, str, str]]
    message: str
    warnings: list[str]


def content(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key != "metadata"}


def theirs(answer: Answer) -> Outcome:
    if answer.code < 300:
        return Outcome(200, content(answer.body), [], "", answer.warnings)
    causes = answer.body.get("details", {}).get("causes", [])
    found = sorted((each["field"], each["reason"], each["message"]) for each in causes)
    return Outcome(answer.code, {}, found, answer.body["message"] if answer.code == 400 else "", [])


def refused(problems: list[FieldError]) -> Outcome:
    return Outcome(422, {}, sorted((each.field, each.type, each.body) for each in problems), "", [])


def ours(kind: Kind, body: Object, *, strict: bool = False, raw: bytes = b"") -> Outcome:
    """Prune, default and validate, as a creation does."""
    schema = schema_of(kind)
    pruned = prune(schema, body, custom=kind.custom)
    complaints = strict_errors(raw or json.dumps(body).encode(), pruned.unknown, custom=kind.custom)
    if strict and complaints:
        said = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        return Outcome(400, {}, [], f"{said}: strict decoding error: {', '.join(complaints)}", [])
    obj = default(schema, pruned.obj)
    problems = validate(schema, obj)
    return refused(problems) if problems else Outcome(200, content(obj), [], "", list(complaints))


def compare(client: JsonClient, kind: Kind, generator: Generator, count: int) -> set[int]:
    """Send generated objects, the first ones valid; return the codes of the answers."""
    codes = set()
    for index in range(count):
        wrong = 0.0 if index < count // 4 else 0.12
        body = generator.obj(kind.api_version, kind.kind, kind.crd_schema, wrong=wrong)
        strict = index % 4 == 3
        query = f"?dryRun=All&fieldValidation={'Strict' if strict else 'Warn'}"
        answer = theirs(client.post(path_of(kind) + query, body))
        assert ours(kind, body, strict=strict) == answer, body
        codes.add(answer.code)
    return codes


@pytest.mark.parametrize("name", SCHEMAS)
def test_created_objects_are_pruned_defaulted_and_refused_alike(client: JsonClient, name: str) -> None:
    kind = served(client, build_crd(name, SCHEMAS[name]))
    codes = compare(client, kind, Generator(seed=list(SCHEMAS).index(name)), PER_KIND)
    assert {200, 422} <= codes


@pytest.mark.parametrize("own", KINDS, ids=lambda each: each.crd_name)
def test_objects_of_our_own_kinds_are_taken_alike(client: JsonClient, own: OwnKind) -> None:
    kind = served(client, own_crd(own))
    codes = compare(client, kind, Generator(seed=KINDS.index(own), density=0.08), PER_KIND)
    assert 422 in codes


UNKNOWN_IN_PODS = {
    "at the top": b'{"odd":1,"metadata":{"name":"x"},"spec":{"containers":[]}}',
    "in the order of the body": b'{"z":1,"a":2,"spec":{"q":{"deep":1},"containers":[{"b":1,"a":1}]}}',
    "in metadata": b'{"metadata":{"name":"x","odd":1,"ownerReferences":[{"odd":1}],"labels":{"any":"a"}}}',
    "with quotes": b'{"spec":{"a\\"b\\u0001\xc3\xa4\xe2\x80\xa8":1}}',
    "in other letters": b'{"Spec":{},"spec":{"nodename":"a"}}',
    "in free places": b'{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{}},"x":1}]}}',
    "twice": b'{"spec":{"odd":1,"odd":2,"nodeName":"a","nodeName":"b"},"odd":{"x":1,"x":2}}',
    "in maps": b'{"spec":{"nodeSelector":{"a":"b","a":"c"},"containers":[{"resources":{"y":2}}]}}',
    "many": b'{"spec":{' + b",".join(b'"odd%d":1' % index for index in range(120)) + b"}}",
}


@pytest.mark.parametrize("body", UNKNOWN_IN_PODS.values(), ids=UNKNOWN_IN_PODS)
def test_unknown_and_repeated_fields_of_pods_are_named_alike(client: JsonClient, body: bytes) -> None:
    answer = client.post("/api/v1/namespaces/default/pods?dryRun=All&fieldValidation=Strict", body)
    pruned = prune(definition("io.k8s.api.core.v1.Pod"), json.loads(body), custom=False)
    found = ", ".join(strict_errors(body, pruned.unknown, custom=False))
    said = 'Pod in version "v1" cannot be handled as a Pod'
    assert answer.body["message"] == f"{said}: strict decoding error: {found}"


REPEATED = {
    "at the top": b'"spec":{"text":"a"},"spec":{"text":"b"}',
    "below": b'"spec":{"text":"a","text":"b","odd":1}',
    "in unknown ones": b'"spec":{"odd":{"x":1,"x":2}}',
    "in metadata": b'"metadata":{"name":"one","labels":{"a":"b","a":"c"},"odd":2,"finalizers":[]}',
    "in lists": b'"spec":{"text":[{"a":1,"a":1},{"a":1,"a":1}]}',
}


@pytest.mark.parametrize("fields", REPEATED.values(), ids=REPEATED)
def test_repeated_fields_of_custom_kinds_are_named_alike(client: JsonClient, fields: bytes) -> None:
    kind = served(client, build_crd("scalars", SCHEMAS["scalars"]))
    body = b'{"apiVersion":"%s/v1","kind":"Scalars",%s}' % (GROUP.encode(), fields)
    answer = client.post(f"{path_of(kind)}?dryRun=All&fieldValidation=Strict", body)
    assert ours(kind, json.loads(body), strict=True, raw=body) == theirs(answer)


# ---- updates


STORED = {
    "count": 9,
    "text": "A1",
    "list": ["abc", "de", "fgh"],
    "map": [{"k": "a", "n": 9}, {"k": "b", "n": 1}],
    "inner": {"a": 9, "b": 1},
}
CHANGES = {
    "nothing": {},
    "a good field": {"count": 3},
    "a bad field": {"count": 10},
    "a field beside bad ones": {"inner": {"a": 9, "b": 2}},
    "a list": {"list": ["abc", "de"]},
    "the order of a list": {"list": ["fgh", "de", "abc"]},
    "the order of a map": {"map": [{"k": "b", "n": 1}, {"k": "a", "n": 9}]},
    "an item of a map": {"map": [{"k": "a", "n": 9}, {"k": "b", "n": 7}]},
    "a new item": {"map": [{"k": "a", "n": 9}, {"k": "c", "n": 7}]},
    "a type": {"text": 5},
    "1 to 1.0": {"inner": {"a": 9.0, "b": 1}},
}


@pytest.fixture(scope="module")
def tight(client: JsonClient) -> tuple[Kind, Object]:
    """A kind whose schema was tightened after an object of it was stored, and that object."""
    crd = build_crd("tights", LAX)
    kind = served(client, crd)
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "one"}, "spec": STORED}
    assert client.post(path_of(kind), body).code == 201
    stored = client.get(f"{CRDS}/{crd['metadata']['name']}").body
    stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = tightened()
    assert client.put(f"{CRDS}/{crd['metadata']['name']}", stored).code == 200
    deadline = time.monotonic() + PATIENCE_SECONDS
    other = body | {"metadata": {"name": "two"}}
    while client.post(f"{path_of(kind)}?dryRun=All", other).code == 201:
        assert time.monotonic() < deadline
        time.sleep(TICK_SECONDS)
    tight = kind_of(stored)
    assert tight is not None
    return tight, client.get(path_of(kind, "one")).body


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_an_update_leaves_alone_is_not_held_against_it(
    client: JsonClient, tight: tuple[Kind, Object], change: Object
) -> None:
    kind, old = tight
    new = old | {"spec": old["spec"] | change}
    answer = theirs(client.put(f"{path_of(kind, 'one')}?dryRun=All", new))
    problems = validate(schema_of(kind), new, old)
    assert (refused(problems) if problems else Outcome(200, content(new), [], "", [])) == answer


STATUSES = {
    "good": {"phase": "Up", "replicas": 1},
    "of wrong types": {"phase": 1, "replicas": "x"},
    "incomplete": {"replicas": 1},
    "no object": "text",
    "repeating": {"phase": "Up", "tags": ["a", "a"]},
}


@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
def test_statuses_are_refused_alike(client: JsonClient, status: Any) -> None:
    kind = served(client, WITH_STATUS)
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "one"}, "spec": {"a": 1}}
    assert client.post(path_of(kind), body).code in (201, 409)
    old = client.get(path_of(kind, "one")).body
    new = old | {"status": status}
    answer = theirs(client.put(f"{path_of(kind, 'one')}/status?dryRun=All", new))
    problems = validate_status(schema_of(kind), new, old)
    assert (refused(problems) if problems else Outcome(200, content(new), [], "", [])) == answer


# ---- CRDs


def ended(causes: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Without the values: those of CRDs are printed as Go's own structs."""
    return sorted((field, reason, message.rpartition(": ")[2]) for field, reason, message in causes)


def crd_as_ours(crd: Object) -> Object:
    """What our rules make of a CRD that is created."""
    new: Object = json.loads(json.dumps(crd))
    new["metadata"]["creationTimestamp"] = "2024-01-01T00:00:00Z"
    rules = CrdRules()
    rules.default(new)
    rules.prepare_create(new)
    return new


@pytest.mark.parametrize("crd", BAD_CRDS.values(), ids=BAD_CRDS)
def test_crds_are_refused_alike(client: JsonClient, crd: Object) -> None:
    answer = theirs(client.post(f"{CRDS}?dryRun=All", crd))
    found = CrdRules().content_problems(crd_as_ours(crd), None)
    assert answer.code == 422
    assert ended(refused(found).causes) == ended(answer.causes)


def test_bad_patterns_are_refused(client: JsonClient) -> None:
    for pattern in ("(", "a**", "(?=a)", r"\1", "[z-a]", "a{2,1}", "(?P<n", r"\Z"):
        crd = schema_with(a={"type": "string", "pattern": pattern})
        answer = theirs(client.post(f"{CRDS}?dryRun=All", crd))
        found = CrdRules().content_problems(crd_as_ours(crd), None)
        fields = [(each.field, each.type) for each in found]
        assert fields == [cause[:2] for cause in answer.causes], pattern


GOOD_CRDS = {
    "one version": build_crd("scalars", SCHEMAS["scalars"]),
    "with a status": WITH_STATUS,
    **{own.crd_name: own_crd(own) for own in KINDS},
}


@pytest.mark.parametrize("crd", GOOD_CRDS.values(), ids=GOOD_CRDS)
def test_crds_settle_alike(client: JsonClient, crd: Object) -> None:
    kind = served(client, crd)
    settled = client.get(f"{CRDS}/{crd['metadata']['name']}").body
    made = crd_as_ours(crd)
    assert CrdRules().content_problems(made, None) == []
    assert comparable(kind_of(made)) == comparable(kind)
    assert made["spec"]["names"] == settled["spec"]["names"]
    assert made["spec"]["conversion"] == settled["spec"]["conversion"]
    assert timeless(made["status"]) == timeless(settled["status"])


def comparable(kind: Kind | None) -> Object:
    """All of a kind but its rules, which have no equals."""
    fields: Object = msgspec.structs.asdict(kind) if kind else {}
    return {key: value for key, value in fields.items() if key != "rules"}


def timeless(status: Object) -> Object:
    conditions = [
        {key: value for key, value in each.items() if key != "lastTransitionTime"}
        for each in status["conditions"]
    ]
    return status | {"conditions": conditions}


CRD_CHANGES: dict[str, Any] = {
    "nothing": lambda spec: spec,
    "its names": lambda spec: (
        spec | {"names": spec["names"] | {"kind": "Other", "plural": "others", "shortNames": ["o"]}}
    ),
    "its scope and group": lambda spec: spec | {"scope": "Namespaced", "group": "other.example.com"},
    "its stored version": lambda spec: spec | {"versions": [spec["versions"][0] | {"name": "v2"}]},
    "a new storage version": lambda spec: (
        spec | {"versions": [spec["versions"][0] | {"storage": False}, spec["versions"][0] | {"name": "v2"}]}
    ),
}


@pytest.mark.parametrize("change", CRD_CHANGES.values(), ids=CRD_CHANGES)
def test_changes_of_crds_are_refused_alike(client: JsonClient, change: Any) -> None:
    name = f"scalars.{GROUP}"
    old = client.get(f"{CRDS}/{name}").body
    new = old | {"spec": change(old["spec"])}
    answer = theirs(client.put(f"{CRDS}/{name}?dryRun=All", new))
    rules = CrdRules()
    rules.default(new)
    rules.prepare_update(new, old)
    assert ended(refused(rules.content_problems(new, old)).causes) == ended(answer.causes)
