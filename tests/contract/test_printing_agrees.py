"""Tables are printed as a real API server prints them: from the server's own objects, cell by cell.

The server prints at some moment between the request and its answer: a cell is right if it is what any second
in between would show.
"""

import http.client
import itertools
import json
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import pytest

from bireme.apiserver.kinds import CORE, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, POD, Kind
from bireme.apiserver.printing.table import partial, partial_list, table
from support.control_plane import ControlPlane
from support.printed_objects import OBJECTS, PODS, SPACE
from support.printed_widgets import CUSTOM, PLAIN, WIDGET, WIDGETS

pytestmark = pytest.mark.xdist_group("control_plane")

Object = dict[str, Any]
AS = "application/json;as={};v=v1;g=meta.k8s.io"
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
OURS = {"labelSelector": SPACE}
KINDS = pytest.mark.parametrize("kind", [*CORE, *CUSTOM], ids=lambda kind: kind.plural)


class Answer(NamedTuple):
    body: Object
    asked: datetime
    answered: datetime

    def moments(self) -> Iterator[datetime]:
        """The seconds between question and answer."""
        whole = self.asked.replace(microsecond=0)
        yield self.asked
        for second in itertools.count(1):
            if (moment := whole + timedelta(seconds=second)) > self.answered:
                return
            yield moment


def clock() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


class Server:
    """The API server of the control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self._tls = ssl.create_default_context(cafile=plane.ca_path)
        self._tls.load_cert_chain(plane.admin_cert, plane.admin_key)
        self._address = plane.url.removeprefix("https://")
        self._connection = self._connect()

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._address, context=self._tls, timeout=90)

    def call(self, method: str, path: str, body: Object | None = None, **headers: str) -> tuple[int, Object]:
        text = None if body is None else json.dumps(body)
        self._connection.request(method, path, text, {"Content-Type": JSON, **headers})
        response = self._connection.getresponse()
        answered = response.read()
        return response.status, json.loads(answered) if answered.startswith(b"{") else {}

    def get(self, path: str, params: dict[str, str], accept: str = JSON) -> Answer:
        asked = clock()
        code, body = self.call("GET", f"{path}?{urlencode(params)}", Accept=accept)
        assert code == 200, body
        return Answer(body, asked, clock())

    def watch(self, path: str, params: dict[str, str], count: int) -> Answer:
        """The first events of a watch, as tables."""
        connection = self._connect()
        asked = clock()
        query = urlencode({**params, "watch": "1"})
        connection.request("GET", f"{path}?{query}", headers={"Accept": AS.format("Table")})
        events = [json.loads(line) for line in itertools.islice(connection.getresponse(), count)]
        connection.close()
        return Answer({"events": events}, asked, clock())

    def make(self, kind: Kind, body: Object) -> None:
        """Create an object, and write its status where it has one."""
        named = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        code, answered = self.call("POST", collection(kind), named)
        deadline = time.monotonic() + 90
        while code == 404 and time.monotonic() < deadline:  # a CRD is not served at once
            code, answered = self.call("POST", collection(kind), named)
        assert code == 201, answered
        if status := body.get("status"):
            path = f"{collection(kind)}/{body['metadata']['name']}/status"
            patch = {"status": status}
            code, answered = self.call("PATCH", path, patch, **{"Content-Type": MERGE_PATCH})
            assert code == 200, answered

    def close(self) -> None:
        self._connection.close()


def collection(kind: Kind) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/{SPACE}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"


def crd(kind: Kind) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    columns = [
        {key: value for key, value in msgspec.to_builtins(column).items() if value} for column in kind.columns
    ]
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": kind.resource},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"plural": kind.plural, "kind": kind.kind},
            "versions": [{**version, "additionalPrinterColumns": columns}],
        },
    }


def labelled(name: str, body: Object) -> Object:
    metadata = body.get("metadata", {})
    labels = {**metadata.get("labels", {}), SPACE: "yes"}
    return {**body, "metadata": {**metadata, "name": name, "labels": labels}}


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> Iterator[Server]:
    if control_plane.is_existing_cluster:
        pytest.skip("BIREME_TEST_KUBECONFIG: that cluster may be of another version")
    made = Server(control_plane)
    made.make(NAMESPACE, labelled(SPACE, {}))
    wait = ("wait", f"--namespace={SPACE}", "--for=create", "--timeout=150s")
    control_plane.kubectl(*wait, "serviceaccount/default")
    for kind in CUSTOM:
        made.make(CUSTOM_RESOURCE_DEFINITION, labelled(kind.resource, crd(kind)))
    for kind, name, body in OBJECTS + WIDGETS:
        made.make(kind, labelled(f"printing-{name}", body))
    for name, pod in PODS.items():
        if pod.deleted:
            code, answered = made.call("DELETE", f"{collection(POD)}/printing-{name}")
            assert code == 200, answered
    yield made
    for name in PODS:
        patch = {"metadata": {"finalizers": None}}
        made.call("PATCH", f"{collection(POD)}/printing-{name}", patch, **{"Content-Type": MERGE_PATCH})
    everything = "nodes,priorityclasses,crds,namespaces"
    control_plane.kubectl("delete", everything, f"--selector={SPACE}", "--wait=false")
    made.close()


def as_printed(real: Answer, ours: list[Object]) -> Object:
    """Our table, with the cells of that of our moments which the server printed too."""
    first, *others = ours
    for index, row in enumerate(first["rows"] or ()):
        for column, cell in enumerate(real.body["rows"][index]["cells"]):
            if any(same(cell, each["rows"][index]["cells"][column]) for each in others):
                row["cells"][column] = cell
    return first


def same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def canonical(answer: Object) -> list[str]:
    """An answer in lines, where 1, 1.0 and True differ."""
    return json.dumps(answer, indent=1, sort_keys=True).splitlines()


def assert_agrees(real: Answer, kind: Kind, items: list[Object], **options: Any) -> None:
    ours = [table(kind, items, moment, **options) for moment in real.moments()]
    assert canonical(as_printed(real, ours)) == canonical(real.body)


@KINDS
@pytest.mark.parametrize("include", ["None", "Metadata", "Object"])
def test_a_list_is_printed_as_the_server_prints_it(server: Server, kind: Kind, include: str) -> None:
    plain = server.get(collection(kind), OURS).body
    assert plain["items"]
    version = plain["metadata"]["resourceVersion"]
    exact = {**OURS, "resourceVersion": version, "resourceVersionMatch": "Exact", "includeObject": include}
    real = server.get(collection(kind), exact, AS.format("Table"))
    items = [{"kind": kind.kind, "apiVersion": kind.api_version, **each} for each in plain["items"]]
    assert_agrees(real, kind, items, include=include, metadata=plain["metadata"])


@KINDS
def test_an_object_is_printed_as_the_server_prints_it(server: Server, kind: Kind) -> None:
    name = server.get(collection(kind), OURS).body["items"][-1]["metadata"]["name"]
    real = server.get(f"{collection(kind)}/{name}", {"includeObject": "Object"}, AS.format("Table"))
    assert_agrees(real, kind, [real.body["rows"][0]["object"]], include="Object")


@KINDS
def test_an_empty_list_is_printed_as_the_server_prints_it(server: Server, kind: Kind) -> None:
    nothing = {"labelSelector": "nobody=has-this"}
    real = server.get(collection(kind), nothing, AS.format("Table"))
    assert_agrees(real, kind, [], metadata=real.body["metadata"])


@pytest.mark.parametrize("kind", [POD, CUSTOM_RESOURCE_DEFINITION, PLAIN], ids=lambda kind: kind.plural)
def test_a_page_is_printed_as_the_server_prints_it(server: Server, kind: Kind) -> None:
    plain = server.get(collection(kind), {"limit": "1"}).body
    exact = {"limit": "1", "resourceVersion": plain["metadata"]["resourceVersion"]}
    real = server.get(collection(kind), exact, AS.format("Table"))
    assert plain["metadata"]["continue"]
    assert_agrees(real, kind, plain["items"], metadata=plain["metadata"])


@pytest.mark.parametrize("include", ["None", "Metadata", "Object"])
@pytest.mark.parametrize("kind", [NAMESPACE, WIDGET], ids=lambda kind: kind.plural)
def test_events_are_printed_as_the_server_prints_them(server: Server, kind: Kind, include: str) -> None:
    items = server.get(collection(kind), OURS).body["items"]
    params = {
        **OURS, "includeObject": include, "sendInitialEvents": "true", "allowWatchBookmarks": "true",
        "resourceVersionMatch": "NotOlderThan",
    }  # fmt: skip
    real = server.watch(collection(kind), params, len(items) + 1)
    *added, bookmark = real.body["events"]
    marked = {"resourceVersion": bookmark["object"]["metadata"]["resourceVersion"]}
    marked["annotations"] = {"k8s.io/initial-events-end": "true"}
    # A bookmark is an empty object of its kind, as the server's structs are when they are empty.
    empty: Object = {"spec": {}, "status": {}} if kind is NAMESPACE else {}
    items.append({"metadata": marked, **empty})
    for index, (event, item) in enumerate(zip([*added, bookmark], items, strict=True)):
        one = Answer(event["object"], real.asked, real.answered)
        named = {"kind": kind.kind, "apiVersion": kind.api_version, **item}
        assert_agrees(one, kind, [named], include=include, with_columns=index == 0)


@KINDS
def test_metadata_alone_is_sent_as_the_server_sends_it(server: Server, kind: Kind) -> None:
    plain = server.get(collection(kind), OURS).body
    exact = {**OURS, "resourceVersion": plain["metadata"]["resourceVersion"], "resourceVersionMatch": "Exact"}
    real = server.get(collection(kind), exact, AS.format("PartialObjectMetadataList")).body
    assert partial_list(plain["items"], plain["metadata"]) == real
    one = plain["items"][0]
    path = f"{collection(kind)}/{one['metadata']['name']}"
    real_one = server.get(path, {}, AS.format("PartialObjectMetadata")).body
    assert partial(one) == real_one


def test_no_metadata_is_sent_as_the_server_sends_it(server: Server) -> None:
    nothing = {"labelSelector": "nobody=has-this"}
    real = server.get(collection(POD), nothing, AS.format("PartialObjectMetadataList")).body
    assert partial_list([], real["metadata"]) == real
