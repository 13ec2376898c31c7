"""Kubernetes' own kinds come back from the store as from a real API server.

Generated objects are created on both, then changed, and then their status is written; the bodies are
compared. Not compared is what is by chance (UIDs, versions, times), and what is documented as different:
owners of fields, addresses and ports that an allocator would hand out, the finalizer of claims, and the
taints that plugins and controllers give nodes.
"""

import http.client
import json
import os
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from bireme.apiserver import plugins
from bireme.apiserver.decoding import decode
from bireme.apiserver.errors import FieldError, StatusError
from bireme.apiserver.intake import Intake
from bireme.apiserver.kinds import (
    CONFIG_MAP,
    CORE,
    CUSTOM_RESOURCE_DEFINITION,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Kind,
)
from bireme.apiserver.priority import BUILT_IN
from bireme.apiserver.rules import Object
from bireme.apiserver.serving.gateway import read_log_options
from bireme.apiserver.store import Store
from support.control_plane import ControlPlane
from support.core_objects import CoreObjects

pytestmark = pytest.mark.xdist_group("control_plane")

SPACE = "core-agrees"
LONG = os.environ.get("BIREME_LONG") == "1"
COUNT = 360 if LONG else 28
"""How many objects of each kind; pods are four times as many."""
KINDS = [kind for kind in CORE if kind is not CUSTOM_RESOURCE_DEFINITION]
SPEC_FIELDS = (
    "tolerations", "schedulingGates", "activeDeadlineSeconds", "hostname", "nodeSelector", "image",
)  # fmt: skip
"""What is changed of a pod's spec."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)
URGENT = {"metadata": {"name": "urgent"}, "value": 7, "preemptionPolicy": "Never"}
ACCOUNT = {
    "metadata": {"name": "other"},
    "automountServiceAccountToken": False,
    "imagePullSecrets": [{"name": "pull"}],
}
RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "rc"}, "handler": "h",
}  # fmt: skip


class Answer(NamedTuple):
    code: int
    body: Object


class Decoding(Intake):
    """The part of an intake that concerns these kinds."""

    def read(self, kind: Kind, body: Object, *rest: Any) -> Object:  # noqa: ARG002
        return decode(kind, body)

    def admit(
        self, lookup: plugins.Lookup, every: plugins.Every, kind: Kind, new: Object, old: Object | None
    ) -> None:
        plugins.admit(lookup, kind, new, old, every=every)

    def problems(self, kind: Kind, new: Object, old: Object | None, *rest: Any) -> list[FieldError]:  # noqa: ARG002
        return kind.rules.content_problems(new, old)


class Ours:
    """The store."""

    def __init__(self) -> None:
        self._store = Store(intake=Decoding())
        self._store.create(NAMESPACE, {"metadata": {"name": SPACE}}, NOW)
        for each in (*BUILT_IN, URGENT):
            self._store.create(PRIORITY_CLASS, each, NOW)
        self._store.create(SERVICE_ACCOUNT, ACCOUNT, NOW, namespace=SPACE)

    def create(self, kind: Kind, body: Object) -> Answer:
        return self._tried(lambda: self._store.create(kind, body, NOW, namespace=_space(kind)))

    def replace(self, kind: Kind, body: Object, subresource: str = "") -> Answer:
        name, place = body["metadata"]["name"], _space(kind)
        return self._tried(
            lambda: self._store.replace(kind, name, body, NOW, namespace=place, subresource=subresource)
        )

    def _tried(self, write: Callable[[], Object]) -> Answer:
        try:
            return Answer(200, write())
        except StatusError as error:
            return Answer(error.code, error.status)


class Theirs:
    """The real API server."""

    def __init__(self, plane: ControlPlane) -> None:
        tls = ssl.create_default_context(cafile=plane.ca_path)
        tls.load_cert_chain(plane.admin_cert, plane.admin_key)
        address = plane.url.removeprefix("https://")
        self._connection = http.client.HTTPSConnection(address, context=tls, timeout=90)

    def create(self, kind: Kind, body: Object) -> Answer:
        return self._call("POST", _path(kind), body)

    def replace(self, kind: Kind, body: Object, subresource: str = "") -> Answer:
        return self._call(
            "PUT", "/".join(filter(None, (_path(kind), body["metadata"]["name"], subresource))), body
        )

    def delete(self, kind: Kind, name: str) -> None:
        self._call("DELETE", f"{_path(kind)}/{name}", {})

    def _call(self, method: str, path: str, body: Object) -> Answer:
        self._connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answered = json.loads(response.read())
        return Answer(200 if response.status == 201 else response.status, answered)

    def read_log(self, query: str) -> Answer:
        return self._call("GET", f"{_path(POD)}/none/log?{query}", {})

    def close(self) -> None:
        self._connection.close()


def _space(kind: Kind) -> str:
    return SPACE if kind.namespaced else ""


def _path(kind: Kind) -> str:
    group = f"/apis/{kind.group}/{kind.version}" if kind.group else "/api/v1"
    return f"{group}/namespaces/{SPACE}/{kind.plural}" if kind.namespaced else f"{group}/{kind.plural}"


def view(kind: Kind, answer: Answer) -> Object:
    """What is compared of an answer."""
    body = answer.body
    if answer.code != 200:
        causes = (body.get("details") or {}).get("causes") or ()
        return {"code": answer.code, "causes": sorted({(each["reason"], each["field"]) for each in causes})}
    by_chance = ("uid", "resourceVersion", "creationTimestamp", "managedFields")
    metadata = {key: value for key, value in body["metadata"].items() if key not in by_chance}
    rest = {key: value for key, value in body.items() if key not in ("kind", "apiVersion", "metadata")}
    seen: Object = json.loads(json.dumps({"metadata": metadata, **rest}))
    _leave_out(kind, seen)
    return seen


def _leave_out(kind: Kind, seen: Object) -> None:
    """Take away what is documented as different."""
    if kind is PERSISTENT_VOLUME_CLAIM:
        _drop(seen["metadata"], "finalizers", lambda each: each == "kubernetes.io/pvc-protection")
    if kind is NODE:
        _drop(seen["spec"], "taints", lambda each: each["key"].startswith("node.kubernetes.io/"))
    if kind is SERVICE:
        for port in seen["spec"].get("ports", ()):
            port.pop("nodePort", None)
        seen["spec"].pop("healthCheckNodePort", None)
        if seen["spec"].get("clusterIP") != "None":
            seen["spec"].pop("clusterIP", None)
            seen["spec"].pop("clusterIPs", None)
    for condition in seen.get("status", {}).get("conditions", ()):
        if condition.get("reason") == "SchedulingGated":
            condition["lastTransitionTime"] = "now"


def _drop(fields: Object, field: str, is_foreign: Callable[[Any], bool]) -> None:
    left = [each for each in fields.pop(field, ()) if not is_foreign(each)]
    if left:
        fields[field] = left


def changed(kind: Kind, old: Object, wanted: Object, fields: Sequence[str]) -> Object:
    """An object as it was read, changed as far as its kind lets it be; `fields` are those of a pod's spec."""
    metadata = {**old["metadata"], **{key: wanted["metadata"].get(key) for key in ("labels", "annotations")}}
    if kind.unconditional:
        del metadata["resourceVersion"]
    if kind is POD:
        return {**old, "metadata": metadata, "spec": changed_spec(old["spec"], wanted["spec"], fields)}
    kept: Object = old if kind in (PERSISTENT_VOLUME_CLAIM, SERVICE) else {}
    if kind is SERVICE and (old["spec"].get("clusterIP") == "None") == ("clusterIP" in wanted["spec"]):
        kept = {"spec": wanted["spec"]}
    typed: Object = {key: old[key] for key in ("kind", "apiVersion", "roleRef", "type") if key in old}
    if kind is PRIORITY_CLASS:
        typed |= {key: old[key] for key in ("value", "preemptionPolicy")}
    return {**wanted, **kept, **typed, "metadata": metadata}


def changed_spec(old: Object, wanted: Object, fields: Sequence[str]) -> Object:
    spec = old | {field: wanted.get(field) for field in fields if field != "image"}
    if "image" in fields:
        spec["containers"] = [container | {"image": "new:1"} for container in spec["containers"]]
    return spec


def with_status(kind: Kind, obj: Object, status: Object) -> Object:
    """An object as it was read, with another status; controllers may have written it since."""
    unversioned = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return {**obj, "metadata": unversioned if kind.unconditional else obj["metadata"], "status": status}


def new_status(made: CoreObjects, kind: Kind) -> Object:
    makers: dict[str, Callable[[], Object]] = {
        "Pod": made.pod_status,
        "Node": made.node_status,
        "Service": made.service_status,
        "PersistentVolumeClaim": made.claim_status,
        "Namespace": lambda: made.pick({}, {"phase": ""}, {"phase": "Active"}, {"phase": "Terminating"}),
    }
    return makers[kind.kind]()


@pytest.fixture(scope="module")
def theirs(control_plane: ControlPlane) -> Iterator[Theirs]:
    """The API server, with the objects that pods may refer to; tokens would be mounted otherwise."""
    if control_plane.is_existing_cluster:
        pytest.skip("BIREME_TEST_KUBECONFIG: schedulers and kubelets would write too")
    control_plane.kubectl("create", "namespace", SPACE)
    control_plane.kubectl("-n", SPACE, "wait", "--for=create", "serviceaccount/default", "--timeout=150s")
    silent = '{"automountServiceAccountToken": false}'
    control_plane.kubectl("-n", SPACE, "patch", "serviceaccount", "default", "--type=merge", "-p", silent)
    control_plane.kubectl("apply", "-f", "-", input=json.dumps(RUNTIME_CLASS))
    server = Theirs(control_plane)
    server.create(SERVICE_ACCOUNT, ACCOUNT)
    server.create(PRIORITY_CLASS, URGENT)
    _wait_until_known(server)
    yield server
    server.close()
    # What belongs to no namespace would be in the way of others on this server.
    control_plane.kubectl("delete", "priorityclass/urgent", "runtimeclass/rc")
    control_plane.kubectl("delete", "namespace", SPACE, "--wait=false")


def _wait_until_known(server: Theirs) -> None:
    """The admission plugins know accounts and classes by their caches, which follow."""
    container = {"name": "c", "image": "i"}
    spec = {"serviceAccountName": "other", "priorityClassName": "urgent", "runtimeClassName": "rc"}
    probe = {"metadata": {"name": "probe"}, "spec": {"containers": [container], **spec}}
    deadline = time.monotonic() + 90
    while server.create(POD, probe).code not in (200, 409):
        assert time.monotonic() < deadline, server.create(POD, probe)
        time.sleep(0.05)
    silent = {"metadata": {"generateName": "silent-"}, "spec": {"containers": [container]}}
    while "volumes" in server.create(POD, silent).body.get("spec", {}):
        assert time.monotonic() < deadline, "tokens are still mounted"
        time.sleep(0.05)


def assert_alike(kind: Kind, ours: Answer, theirs: Answer, written: Object) -> None:
    """Both did the same; of a refused update the store names what may not change, and then nothing else."""
    mine, real = view(kind, ours), view(kind, theirs)
    if ours.code == theirs.code == 422:
        assert mine["causes"], written
        assert set(mine["causes"]) <= set(real["causes"]), (written, theirs.body)
    else:
        assert mine == real, (written, theirs.body)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_generated_objects_come_back_alike(theirs: Theirs, kind: Kind) -> None:
    made, ours = CoreObjects(seed=len(kind.plural)), Ours()
    made.namespace = SPACE
    taken = 0
    for number in range(COUNT * 4 if kind is POD else COUNT):
        body = made.make(kind.kind, f"{kind.kind.lower()}-{number}")
        if not kind.namespaced or kind is SERVICE:
            body["metadata"].pop("finalizers", None)  # It must go, and give back its address.
        mine, real = ours.create(kind, body), theirs.create(kind, body)
        assert view(kind, mine) == view(kind, real), (body, real.body)
        if real.code != 200:
            continue
        taken += 1
        wanted = made.make(kind.kind, body["metadata"]["name"])
        fields = [field for field in SPEC_FIELDS if made.chance(0.3)]
        change = changed(kind, mine.body, wanted, fields)
        after = ours.replace(kind, change)
        really = theirs.replace(kind, changed(kind, real.body, wanted, fields))
        assert_alike(kind, after, really, change)
        if kind.has_status:
            status = new_status(made, kind)
            latest = with_status(kind, (after if after.code == 200 else mine).body, status)
            written = ours.replace(kind, latest, "status")
            latest = with_status(kind, (really if really.code == 200 else real).body, status)
            really_written = theirs.replace(kind, latest, "status")
            assert view(kind, written) == view(kind, really_written), (latest, really_written.body)
        theirs.delete(kind, body["metadata"]["name"])
    assert taken > COUNT * 0.8


ITEMS = {
    name: {"items": [{"key": "k", "path": path}]}
    for name, path in {"up": "a/../../x", "absolute": "/etc/x", "reserved": "..x"}.items()
}


def with_volume(mount: Object | None = None, /, **source: Any) -> Object:
    """A pod that mounts a volume."""
    mounts = [{"name": "v", "mountPath": "/m", **(mount or {})}]
    container = {"name": "c", "image": "i", "volumeMounts": mounts}
    return {"spec": {"containers": [container], "volumes": [{"name": "v", **source}]}}


REFUSED: dict[str, tuple[Kind, Object]] = {
    "no containers": (POD, {"spec": {}}),
    "no image": (POD, {"spec": {"containers": [{"name": "c"}]}}),
    "no container name": (POD, {"spec": {"containers": [{"image": "i"}]}}),
    "a bad container name": (POD, {"spec": {"containers": [{"name": "C", "image": "i"}]}}),
    "a container twice": (POD, {"spec": {"containers": [{"name": "c", "image": "i"}] * 2}}),
    "no such volume": (
        POD, {"spec": {"containers": [
            {"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/m"}]}
        ]}},
    ),
    "a volume twice": (
        POD, {"spec": {"containers": [{"name": "c", "image": "i"}],
                       "volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]}},
    ),
    "a bad variable": (
        POD, {"spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "a=b"}, {"name": ""}]}]}},
    ),
    "bad ports": (
        POD, {"spec": {"containers": [{"name": "c", "image": "i", "ports": [
            {"containerPort": 0}, {"containerPort": 70000}, {"containerPort": 1, "name": "A--"},
            {"containerPort": 2, "protocol": "ICMP"}, {"containerPort": 3, "hostPort": -1},
        ]}]}},
    ),
    "a request above its limit": (
        POD, {"spec": {"containers": [{"name": "c", "image": "i", "resources": {
            "requests": {"cpu": 2, "example.com/gpu": 1}, "limits": {"cpu": 1}}}]}},
    ),
    "a probe at the start": (
        POD, {"spec": {"containers": [{"name": "c", "image": "i"}], "initContainers": [
            {"name": "d", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}}}]}},
    ),
    "bad words": (
        POD, {"spec": {"containers": [{"name": "c", "image": "i", "imagePullPolicy": "Often"}],
                       "restartPolicy": "Maybe", "dnsPolicy": "None of these", "hostname": "H",
                       "subdomain": "a.b", "activeDeadlineSeconds": 0, "nodeSelector": {"a b": "c d"}}},
    ),
    "no such account": (
        POD, {"spec": {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "nobody"}},
    ),
    "no such priority": (
        POD, {"spec": {"containers": [{"name": "c", "image": "i"}], "priorityClassName": "nothing"}},
    ),
    "a priority of its own": (
        POD, {"spec": {"containers": [{"name": "c", "image": "i"}], "priority": 5}},
    ),
    "a file that leaves its ConfigMap": (POD, with_volume(configMap={"name": "c", **ITEMS["up"]})),
    "an absolute file of a ConfigMap": (POD, with_volume(configMap={"name": "c", **ITEMS["absolute"]})),
    "a reserved file of a ConfigMap": (POD, with_volume(configMap={"name": "c", **ITEMS["reserved"]})),
    "a file without a path": (POD, with_volume(configMap={"name": "c", "items": [{"key": "", "path": ""}]})),
    "a file that leaves its Secret": (POD, with_volume(secret={"secretName": "s", **ITEMS["up"]})),
    "a file that leaves its downwardAPI": (
        POD, with_volume(downwardAPI={"items": [
            {"path": "../x", "fieldRef": {"fieldPath": "metadata.name"}},
        ]}),
    ),
    "files that leave their projected volume": (
        POD, with_volume(projected={"sources": [
            {"secret": {"name": "s", **ITEMS["up"]}}, {"configMap": {"name": "s", **ITEMS["absolute"]}},
            {"downwardAPI": {"items": [{"path": "..", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"serviceAccountToken": {"path": "../t", "expirationSeconds": 1}},
            {"secret": {}, "configMap": {}},
        ]}),
    ),
    "a file twice in a projected volume": (
        POD, with_volume(projected={"sources": [
            {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}},
            {"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
        ]}),
    ),
    "modes": (
        POD, with_volume(secret={"secretName": "s", "defaultMode": 0o1000,
                                 "items": [{"key": "k", "path": "p", "mode": -1}]}),
    ),
    "a hostPath that goes up": (POD, with_volume(hostPath={"path": "/a/../b"})),
    "a hostPath of no type": (POD, with_volume(hostPath={"path": "/a", "type": "Odd"})),
    "a subPath that goes up": (POD, with_volume({"subPath": "a/../../b"}, emptyDir={})),
    "an absolute subPath": (POD, with_volume({"subPath": "/b"}, emptyDir={})),
    "a subPathExpr that goes up": (POD, with_volume({"subPathExpr": "$(A)/.."}, emptyDir={})),
    "a subPath and a subPathExpr": (POD, with_volume({"subPath": "a", "subPathExpr": "$(A)"}, emptyDir={})),
    "no ports": (SERVICE, {"spec": {}}),
    "bad service ports": (
        SERVICE, {"spec": {"ports": [{"port": 0}, {"name": "A", "port": 80}, {"name": "a", "port": 81},
                                     {"name": "a", "port": 81, "targetPort": "x_"}]}},
    ),
    "a node port": (SERVICE, {"spec": {"ports": [{"port": 80, "nodePort": 30000}]}}),
    "no external name": (SERVICE, {"spec": {"type": "ExternalName"}}),
    "an unknown type": (SERVICE, {"spec": {"type": "Other", "ports": [{"port": 80}]}}),
    "bad keys": (CONFIG_MAP, {"data": {"a b": "", "..": "", "..c": ""}}),
    "a key twice": (CONFIG_MAP, {"data": {"a": ""}, "binaryData": {"a": ""}}),
    "much data": (CONFIG_MAP, {"data": {"a": "x" * (1024 * 1024), "b": "x"}}),
    "bad secret keys": (SECRET, {"stringData": {"a b": ""}}),
    "much secret data": (SECRET, {"stringData": {"a": "x" * (1024 * 1024 + 1)}}),
    "no certificate": (SECRET, {"type": "kubernetes.io/tls", "stringData": {"tls.key": ""}}),
    "no storage": (PERSISTENT_VOLUME_CLAIM, {"spec": {}}),
    "a bad claim": (
        PERSISTENT_VOLUME_CLAIM, {"spec": {"accessModes": ["Often", "ReadWriteOncePod", "ReadWriteOnce"],
                                           "resources": {"requests": {"storage": 0}}, "volumeMode": "Odd"}},
    ),
    "a high priority": (PRIORITY_CLASS, {"value": 2_000_000_000}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_common_mistakes_are_refused_alike(theirs: Theirs, name: str) -> None:
    kind, content = REFUSED[name]
    body = {**content, "metadata": {"name": "refused"}}
    mine, real = Ours().create(kind, body), theirs.create(kind, body)
    assert real.code != 200
    assert view(kind, mine) == view(kind, real), (mine.body, real.body)
    if real.code == 403 or len(view(kind, real)["causes"]) == 1:
        assert mine.body["message"] == real.body["message"]


@pytest.mark.parametrize(
    "content",
    [
        with_volume(persistentVolumeClaim={"claimName": "../../x"}),
        with_volume(configMap={"name": "../../x"}),
        with_volume(secret={"secretName": "../../x"}),
        with_volume({"mountPath": "/a:b"}, emptyDir={}),
        with_volume({"mountPath": "/a/../b"}, emptyDir={}),
        with_volume(hostPath={"path": "relative"}),
        with_volume(configMap={"name": "c", "items": [{"key": "k", "path": "a/..b"}]}),
    ],
    ids=json.dumps,
)
def test_names_and_paths_that_kubernetes_leaves_to_the_node_are_taken_alike(
    theirs: Theirs, content: Object
) -> None:
    """The node refuses them, and admission does so before, where they are in the template of a job."""
    body = {**content, "metadata": {"name": "taken"}}
    mine, real = Ours().create(POD, body), theirs.create(POD, body)
    theirs.delete(POD, "taken")
    assert real.code == 200
    assert view(POD, mine) == view(POD, real)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sinceTime", "9999-99-99"),
        ("sinceTime", "2026-01-02T03:04:05"),
        ("sinceTime", "x"),
        ("sinceSeconds", "9223372036854775808"),
        ("tailLines", "1.0"),
        ("limitBytes", "x"),
    ],
)
def test_options_of_logs_that_can_not_be_read_are_refused_alike(
    theirs: Theirs, name: str, value: str
) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    with pytest.raises(StatusError) as refusal:
        read_log_options(pod, {name: value})
    real = theirs.read_log(f"{name}={value}")
    assert (
        (refusal.value.code, refusal.value.reason) == (real.code, real.body["reason"]) == (400, "BadRequest")
    )


@pytest.mark.parametrize("each", BUILT_IN, ids=lambda each: each["metadata"]["name"])
def test_the_built_in_priorities_are_those_of_a_real_server(
    control_plane: ControlPlane, each: Object
) -> None:
    name = each["metadata"]["name"]
    real = json.loads(control_plane.kubectl("get", "priorityclass", name, "-o", "json").stdout)
    ours = Store(intake=Decoding()).create(PRIORITY_CLASS, each, NOW)
    assert view(PRIORITY_CLASS, Answer(200, ours)) == view(PRIORITY_CLASS, Answer(200, real))
