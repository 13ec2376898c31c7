"""What a server writes in Protobuf is read as what it writes in JSON."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from bireme.api import kinds as api
from bireme.api.crd import build_crd
from bireme.apiserver.decoding import decode
from bireme.apiserver.kinds import CORE, Kind
from bireme.apiserver.protobuf.messages import MEDIA_TYPE, read_object
from bireme.manifest.writer import write
from support.control_plane import ControlPlane
from support.raw_client import RawClient

pytestmark = pytest.mark.xdist_group("control_plane")

PLACE: Final = "protobuf"
KINDS: Final = {kind.kind: kind for kind in CORE}
CRD: Final = build_crd(api.GENERIC_JOB)


def of(kind: str, name: str = "it", **fields: Any) -> dict[str, Any]:
    namespace = {"namespace": PLACE} if KINDS[kind].namespaced else {}
    metadata = {"name": name, **namespace, **fields.pop("metadata", {})}
    return {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": metadata, **fields}


OBJECTS: Final = (
    of("Namespace", PLACE),
    of("ConfigMap", data={"a": "b", "empty": ""}, binaryData={"c": "AAEC"}, immutable=False),
    of("Secret", data={"a": "AP8="}, type="Opaque", metadata={"labels": {"x": "y"}, "finalizers": []}),
    of("ServiceAccount", automountServiceAccountToken=False, imagePullSecrets=[{"name": "s"}]),
    of(
        "Service",
        spec={"selector": {"a": "b"}, "ports": [
            {"name": "a", "port": 80, "targetPort": "web"}, {"name": "b", "port": 81, "targetPort": 8081}]},
    ),
    of("Node", "protobuf-node", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}),
    of(
        "Event",
        involvedObject={"kind": "Pod", "namespace": PLACE, "name": "x"},
        eventTime="2026-01-02T03:04:05.123456Z", firstTimestamp="2026-01-02T03:04:05Z",
        reportingComponent="x", reportingInstance="y", action="z", reason="R", type="Normal",
        series={"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000000Z"},
    ),
    of("Lease", spec={"holderIdentity": "x", "leaseDurationSeconds": 15, "leaseTransitions": 0,
                      "renewTime": "2026-01-02T03:04:05.000001Z"}),
    of("Role", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
    of("RoleBinding", roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "it"},
       subjects=[{"kind": "ServiceAccount", "name": "x", "namespace": PLACE}]),
    of("PersistentVolumeClaim", spec={"accessModes": ["ReadWriteOnce"],
                                      "resources": {"requests": {"storage": "1.5Gi"}}}),
    of("PriorityClass", "protobuf-class", value=-7, description="low"),
)  # fmt: skip
FEATURES: Final = {
    "hostUsers": False,
    "terminationGracePeriodSeconds": 0,
    "containers": [
        {
            "name": "c",
            "image": "i",
            "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "0.5"}},
            "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}}},
                {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
            ],
            "livenessProbe": {"httpGet": {"port": "web", "path": "/x"}, "initialDelaySeconds": 3},
            "readinessProbe": {"exec": {"command": ["true"]}},
            "ports": [{"containerPort": 80, "name": "web"}],
            "securityContext": {"runAsUser": 0, "allowPrivilegeEscalation": False, "runAsGroup": 1000},
            "volumeMounts": [{"name": "e", "mountPath": "/e"}],
        }
    ],
    "securityContext": {"supplementalGroups": [1, 2, 4294967], "fsGroup": 0},
    "volumes": [
        {"name": "e", "emptyDir": {"sizeLimit": "10Mi"}},
        {"name": "p", "projected": {"sources": [{"configMap": {"name": "x"}}], "defaultMode": 256}},
    ],
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
}
POD: Final = of("Pod", spec=FEATURES)
PLAIN: Final = [(each["kind"], each["metadata"]["name"]) for each in (*OBJECTS, POD)]


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> Iterator[RawClient]:
    if control_plane.is_existing_cluster:
        pytest.skip("BIREME_TEST_KUBECONFIG: nodes and namespaces are made")
    control_plane.kubectl("apply", "-f", "-", input=write([CRD, *OBJECTS]))
    control_plane.kubectl("apply", "-f", "-", input=write([POD]))
    yield RawClient(control_plane)
    for kind, name in (("node", "protobuf-node"), ("priorityclass", "protobuf-class"), ("namespace", PLACE)):
        control_plane.kubectl("delete", kind, name, "--wait=false")


def path_of(kind: Kind, name: str) -> str:
    root = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
    place = f"namespaces/{PLACE}/" if kind.namespaced else ""
    return f"{root}/{place}{kind.plural}/{name}"


def read_both(server: RawClient, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """One version of an object in Protobuf and in JSON; controllers may write it between the two reads."""
    for _ in range(100):
        sent, expected = read_object(server.send(path, accept=MEDIA_TYPE)[1]), server.get(path)
        if sent["metadata"]["resourceVersion"] == expected["metadata"]["resourceVersion"]:
            return sent, expected
    raise AssertionError(f"{path} does not stand still")


@pytest.mark.parametrize(
    ("kind", "name"), [*PLAIN, ("CustomResourceDefinition", CRD["metadata"]["name"])], ids=lambda each: each
)
def test_an_object_is_read_as_its_json(server: RawClient, kind: str, name: str) -> None:
    sent, expected = read_both(server, path_of(KINDS[kind], name))
    assert (sent["apiVersion"], sent["kind"]) == (expected["apiVersion"], expected["kind"])
    assert decode(KINDS[kind], sent) == decode(KINDS[kind], expected)
    assert {field for field, value in expected.items() if value is not None} <= set(sent)
