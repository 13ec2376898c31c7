"""The cells of kinds other than pods."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bireme.apiserver import kinds
from bireme.apiserver.kinds import Kind
from bireme.apiserver.printing.table import table
from support.printed_objects import OBJECTS

NOW = datetime(2019, 5, 6, 7, 13, 9, tzinfo=UTC)
PENDING_CLAIM = ["pending", "", "", "", "", "c", "<unset>", "5m", "<unset>"]
SHOWN: dict[tuple[str, str], list[Any]] = {
    ("Node", "plain"): [
        "plain", "Unknown", "<none>", "5m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>",
    ],
    ("Node", "ready"): [
        "ready", "Ready", "control-plane,gpu,old,worker", "5m", "v1.36.3", "10.0.0.7", "1.2.3.4",
        "Some Linux 1",
        "6.1 (amd64)", "containerd://2.0",
    ],
    ("Node", "cordoned"): [
        "cordoned", "NotReady,SchedulingDisabled", "<none>", "5m", "", "<none>", "<none>", "<unknown>",
        "<unknown> (arm64)", "<unknown>",
    ],
    ("Service", "headless"): ["headless", "", "None", "<unknown>", "<none>", "5m", "<none>"],
    ("Service", "named"): ["named", "ExternalName", "<none>", "example.com", "<none>", "5m", "<none>"],
    ("Service", "node-port"): [
        "node-port", "NodePort", "<none>", "<none>", "80:30123/TCP,53:30124/UDP", "5m", "<none>",
    ],
    ("Service", "balanced"): [
        "balanced", "LoadBalancer", "<none>", "1.1.1.1,9.9.9.9,a-long-name.example.com", "80/TCP",
        "5m", "<none>",
    ],
    ("Service", "balanced-beside"): [
        "balanced-beside", "LoadBalancer", "<none>", "9.9.9.9,1.2.3.4", "80/TCP", "5m", "<none>",
    ],
    ("Service", "pending"): ["pending", "LoadBalancer", "<none>", "<pending>", "80/TCP", "5m", "<none>"],
    ("ConfigMap", "full"): ["full", 3, "5m"],
    ("ConfigMap", "empty"): ["empty", 0, "5m"],
    ("Secret", "opaque"): ["opaque", "", 1, "5m"],
    ("Secret", "other"): ["other", "example.com/t", 0, "5m"],
    ("ServiceAccount", "some"): ["some", "5m"],
    ("Event", "older"): [
        "5m", "Warning", "Told", "pod/p", "spec.containers{a}", "kubelet, h", "Told so.", "8y", 12, "older",
    ],
    ("Event", "once"): ["5m", "", "Told", "pod/p", "", "kubelet", "", "5m", 1, "once"],
    ("Event", "nameless"): ["<unknown>", "", "Told", "pod", "", "", "m", "<unknown>", 1, "nameless"],
    ("Event", "newer"): ["4m59s", "Normal", "Told", "pod/p", "", "example.com/c, c-0", "", "4m59s",
    1, "newer"],
    ("Event", "series"): [
        "<invalid>", "Normal", "Told", "pod/p", "", "example.com/c, c-0", "", "4m59s", 4, "series",
    ],
    ("Lease", "held"): ["held", "me", "5m"],
    ("Lease", "free"): ["free", "", "5m"],
    ("Role", "some"): ["some", "2019-05-06T07:08:09Z"],
    ("RoleBinding", "some"): ["some", "Role/printing-some", "5m", "u, v", "g", "n/s"],
    ("RoleBinding", "nobody"): ["nobody", "ClusterRole/printing-some", "5m", "", "", ""],
    ("PersistentVolumeClaim", "pending"): PENDING_CLAIM,
    ("PersistentVolumeClaim", "bound"): [
        "bound", "Bound", "v", "2Gi", "RWO,RWX", "older", "<unset>", "5m", "Block",
    ],
    ("PersistentVolumeClaim", "without-capacity"): [
        "without-capacity", "", "v", "0", "", "", "gold", "5m", "<unset>",
    ],
    ("PriorityClass", "low"): ["low", -5, False, "5m", "Never"],
    ("PriorityClass", "high"): ["high", 1000, True, "5m", ""],
}  # fmt: skip
BODIES = {(kind.kind, name): (kind, body) for kind, name, body in OBJECTS}


def cells(kind: Kind, name: str, body: dict[str, Any], **metadata: Any) -> Any:
    told = {"name": name, "creationTimestamp": "2019-05-06T07:08:09Z", **body.get("metadata", {}), **metadata}
    (row,) = table(kind, [{**body, "metadata": told}], NOW)["rows"]
    return row["cells"]


@pytest.mark.parametrize("key", SHOWN, ids="-".join)
def test_an_object_fills_its_cells(key: tuple[str, str]) -> None:
    kind, body = BODIES[key]
    assert cells(kind, key[1], body) == SHOWN[key]


def test_a_service_shows_its_address_and_selector() -> None:
    spec = {"type": "ClusterIP", "clusterIPs": ["10.0.0.9"], "selector": {"b": "2", "a": "1"}}
    shown = ["s", "ClusterIP", "10.0.0.9", "<none>", "<none>", "5m", "a=1,b=2"]
    assert cells(kinds.SERVICE, "s", {"spec": spec}) == shown


def test_a_service_without_a_list_of_addresses_shows_its_one_address() -> None:
    assert cells(kinds.SERVICE, "s", {"spec": {"clusterIP": "10.0.0.9"}})[2] == "10.0.0.9"


def test_a_claim_that_is_being_deleted_terminates() -> None:
    shown = cells(kinds.PERSISTENT_VOLUME_CLAIM, "c", {}, deletionTimestamp="2019-05-06T07:08:09Z")
    assert shown[1] == "Terminating"


def test_a_namespace_shows_its_phase() -> None:
    assert cells(kinds.NAMESPACE, "n", {"status": {"phase": "Active"}}) == ["n", "Active", "5m"]


def test_a_kind_without_a_printer_shows_when_it_was_created() -> None:
    unknown = Kind(plural="things", kind="Thing")
    assert cells(unknown, "t", {}) == ["t", "2019-05-06T07:08:09Z"]
    assert cells(unknown, "t", {}, creationTimestamp=None) == ["t", "0001-01-01T00:00:00Z"]
