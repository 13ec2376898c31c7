"""The rules of kinds beside pods: defaults, what the server decides, and what is refused."""

from typing import Any

import pytest

from bireme.apiserver.errors import FieldError
from bireme.apiserver.kinds import (
    CONFIG_MAP,
    EVENT,
    LEASE,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    PRIORITY_CLASS,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Kind,
)
from bireme.apiserver.priority import BUILT_IN

Object = dict[str, Any]
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def created(kind: Kind, body: Object, namespace: str = "n") -> Object:
    new = {"metadata": {"name": "a", "namespace": namespace}, **body}
    kind.rules.default(new)
    kind.rules.prepare_create(new)
    return new


def updated(kind: Kind, old: Object, body: Object) -> Object:
    new = {"metadata": old["metadata"], **body}
    kind.rules.default(new)
    if kind.has_status:
        new["status"] = old["status"]
    kind.rules.prepare_update(new, old)
    return new


def fields(problems: list[FieldError]) -> list[str]:
    return [each.field for each in problems]


# ---- Services


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"ports": [{"port": 80}]},
            {
                "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            },
        ),
        (
            {"clusterIP": "None"},
            {"clusterIPs": ["None"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"},
        ),
        (
            {"clusterIP": "None", "selector": {"a": "b"}},
            {"clusterIPs": ["None"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"},
        ),
        ({"clusterIP": "fd00::1"}, {"clusterIPs": ["fd00::1"], "ipFamilies": ["IPv6"]}),
        ({"sessionAffinity": "ClientIP"}, {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}),
        ({"type": "NodePort"}, {"externalTrafficPolicy": "Cluster"}),
        (
            {"type": "LoadBalancer"},
            {"allocateLoadBalancerNodePorts": True, "externalTrafficPolicy": "Cluster"},
        ),
    ],
    ids=["plain", "headless", "headless with a selector", "an address", "affinity", "node port", "balancer"],
)  # fmt: skip
def test_what_a_service_gets(given: Object, expected: Object) -> None:
    made = created(SERVICE, {"spec": given})
    assert {key: made["spec"].get(key) for key in expected} == expected
    assert made["status"] == {"loadBalancer": {}}


def test_a_name_needs_no_addresses() -> None:
    spec = created(SERVICE, {"spec": {"type": "ExternalName", "externalName": "example.com"}})["spec"]
    assert spec == {"type": "ExternalName", "externalName": "example.com", "sessionAffinity": "None"}


def test_an_update_need_not_repeat_addresses_and_ports() -> None:
    ports = [{"name": "web", "port": 80, "nodePort": 30000}]
    old = created(SERVICE, {"spec": {"type": "NodePort", "clusterIP": "10.0.0.5", "ports": ports}})
    new = updated(SERVICE, old, {"spec": {"type": "NodePort", "ports": [{"name": "web", "port": 81}]}})
    assert (new["spec"]["clusterIP"], new["spec"]["clusterIPs"]) == ("10.0.0.5", ["10.0.0.5"])
    assert new["spec"]["ports"][0]["nodePort"] == 30000
    assert SERVICE.rules.problems(new, old) == []


def test_a_new_type_drops_what_belonged_to_the_old_one() -> None:
    ports = [{"port": 80, "nodePort": 30000}]
    old = created(SERVICE, {"spec": {"type": "LoadBalancer", "loadBalancerClass": "c", "ports": ports}})
    new = updated(SERVICE, old, {"spec": old["spec"] | {"type": "ClusterIP"}})
    assert new["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    gone = ("externalTrafficPolicy", "allocateLoadBalancerNodePorts", "loadBalancerClass")
    assert not any(field in new["spec"] for field in gone)


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({}, ["spec.ports"]),
        ({"type": "ExternalName"}, ["spec.externalName"]),
        ({"ports": [{"port": 0}]}, ["spec.ports[0].port", "spec.ports[0].targetPort"]),
        ({"ports": [{"port": 1}, {"port": 2}]}, ["spec.ports[0].name", "spec.ports[1].name"]),
        ({"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]}, ["spec.ports[1].name"]),
        ({"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 1}]}, ["spec.ports[1]"]),
        ({"ports": [{"port": 1, "nodePort": 30000}]}, ["spec.ports[0].nodePort"]),
        ({"ports": [{"port": 1}], "type": "Other"}, ["spec.type"]),
        ({"ports": [{"port": 1}], "selector": {"a b": "c d"}}, ["spec.selector", "spec.selector"]),
        ({"clusterIP": "None", "type": "NodePort"}, ["spec.clusterIPs[0]"]),
    ],
    ids=["no ports", "no name", "port", "names", "a name twice", "a port twice", "node port", "type",
         "selector", "headless"],
)  # fmt: skip
def test_services_that_are_refused(spec: Object, refused: list[str]) -> None:
    assert fields(SERVICE.rules.content_problems(created(SERVICE, {"spec": spec}), None)) == refused


def test_an_address_stays() -> None:
    old = created(SERVICE, {"spec": {"clusterIP": "10.0.0.5", "ports": [{"port": 80}]}})
    new = updated(SERVICE, old, {"spec": {"clusterIP": "10.0.0.6", "ports": [{"port": 80}]}})
    assert fields(SERVICE.rules.problems(new, old)) == ["spec.clusterIPs[0]"]


def test_an_address_of_a_balancer_is_virtual_unless_said_otherwise() -> None:
    old = created(SERVICE, {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}})
    ingress = [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2", "ipMode": "Proxy"}, {"hostname": "h"}]
    new = old | {"status": {"loadBalancer": {"ingress": ingress}}}
    SERVICE.rules.prepare_status(new, old)
    modes = [each.get("ipMode") for each in new["status"]["loadBalancer"]["ingress"]]
    assert modes == ["VIP", "Proxy", None]


# ---- data


@pytest.mark.parametrize(
    ("kind", "body", "refused"),
    [
        (CONFIG_MAP, {"data": {"a.b-c_D": ""}, "binaryData": {"e": ""}}, []),
        (CONFIG_MAP, {"data": {"a b": ""}}, ["data[a b]"]),
        (CONFIG_MAP, {"binaryData": {"..": ""}}, ["binaryData[..]"]),
        (CONFIG_MAP, {"data": {"a": ""}, "binaryData": {"a": ""}}, ["data[a]"]),
        (CONFIG_MAP, {"data": {"a": "x" * 1024 * 1024}}, []),
        (CONFIG_MAP, {"data": {"a": "x" * 1024 * 1024}, "binaryData": {"b": "AA=="}}, ["[]"]),
        (SECRET, {"stringData": {"a/b": ""}}, ["data[a/b]"]),
        (SECRET, {"stringData": {"a": "x" * (1024 * 1024 + 1)}}, ["data"]),
        (SECRET, {"type": "kubernetes.io/tls", "stringData": {"tls.key": ""}}, ["data[tls.crt]"]),
        (
            SECRET, {"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}},
            ["data[ssh-privatekey]"],
        ),
        (SECRET, {"type": "kubernetes.io/basic-auth"}, ["data[username]", "data[password]"]),
        (
            SECRET, {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "["}},
            ["data[.dockercfg]"],
        ),
        (SECRET, {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "{}"}}, []),
        (
            SECRET,
            {"type": "kubernetes.io/service-account-token"},
            ["metadata.annotations[kubernetes.io/service-account.name]"],
        ),
    ],
    ids=["fine", "key", "dots", "twice", "just fits", "too much", "secret key", "too much secret",
         "certificate", "private key", "password", "registry", "a good registry", "account"],
)  # fmt: skip
def test_data_that_is_refused(kind: Kind, body: Object, refused: list[str]) -> None:
    assert fields(kind.rules.content_problems(created(kind, body), None)) == refused


# ---- other kinds


def test_a_claim_names_its_source_in_both_ways() -> None:
    source = {"kind": "PersistentVolumeClaim", "name": "p"}
    spec = created(PERSISTENT_VOLUME_CLAIM, {"spec": CLAIM | {"dataSource": source}})["spec"]
    assert spec["dataSourceRef"] == source | {"apiGroup": None}
    other = {"kind": "Other", "name": "p", "apiGroup": "example.com"}
    assert (
        "dataSource" not in created(PERSISTENT_VOLUME_CLAIM, {"spec": CLAIM | {"dataSource": other}})["spec"]
    )
    spec = created(PERSISTENT_VOLUME_CLAIM, {"spec": CLAIM | {"dataSourceRef": other}})["spec"]
    assert spec["dataSource"] == other


@pytest.mark.parametrize(
    ("phase", "change", "refused"),
    [
        ("Pending", {"volumeName": "v"}, []),
        ("Pending", {"storageClassName": "fast"}, []),
        ("Pending", {"accessModes": ["ReadWriteMany"]}, ["spec"]),
        ("Pending", {"resources": {"requests": {"storage": "2Gi"}}}, ["spec"]),
        ("Bound", {"resources": {"requests": {"storage": "2Gi"}}}, []),
        ("Bound", {"resources": {"requests": {"storage": "1Mi"}}}, ["spec.resources.requests.storage"]),
        ("Bound", {"volumeMode": "Block"}, ["spec", "volumeMode"]),
    ],
    ids=["volume", "class", "modes", "unbound growth", "growth", "less", "mode"],
)
def test_what_may_change_of_a_claim(phase: str, change: Object, refused: list[str]) -> None:
    old = created(PERSISTENT_VOLUME_CLAIM, {"spec": CLAIM})
    old["status"] = {"phase": phase, "capacity": {"storage": "1Gi"}}
    new = updated(PERSISTENT_VOLUME_CLAIM, old, {"spec": CLAIM | change})
    assert fields(PERSISTENT_VOLUME_CLAIM.rules.problems(new, old)) == refused


def test_claims_that_are_refused() -> None:
    spec = {"accessModes": ["Often", "ReadWriteOncePod", "ReadWriteOnce"], "volumeMode": "Odd"}
    problems = PERSISTENT_VOLUME_CLAIM.rules.content_problems(
        created(PERSISTENT_VOLUME_CLAIM, {"spec": spec}), None
    )
    assert fields(problems) == [
        "spec.accessModes", "spec.accessModes", "spec.resources[storage]", "spec.volumeMode",
    ]  # fmt: skip


def test_a_binding_keeps_its_role() -> None:
    role = {"kind": "Role", "name": "r"}
    old = created(ROLE_BINDING, {"roleRef": role, "subjects": [{"kind": "User", "name": "u"}]})
    assert old["roleRef"]["apiGroup"] == old["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    new = updated(ROLE_BINDING, old, {"roleRef": role | {"name": "other"}})
    assert fields(ROLE_BINDING.rules.problems(new, old)) == ["roleRef"]


def test_bindings_and_roles_that_are_refused() -> None:
    binding = created(ROLE_BINDING, {"roleRef": {"kind": "Pod"}, "subjects": [{"kind": "Dog"}]})
    assert fields(ROLE_BINDING.rules.content_problems(binding, None)) == [
        "roleRef.kind", "roleRef.name", "subjects[0].name", "subjects[0].kind",
    ]  # fmt: skip
    role = created(ROLE, {"rules": [{}, {"verbs": ["get"], "nonResourceURLs": ["/"], "resources": ["x"]}]})
    assert fields(ROLE.rules.content_problems(role, None)) == [
        "rules[0].verbs", "rules[0].apiGroups", "rules[0].resources", "rules[1].nonResourceURLs",
        "rules[1].nonResourceURLs",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "body", "refused"),
    [
        ("a", {"value": 1_000_000_000}, []),
        ("a", {"value": 1_000_000_001}, ["value"]),
        ("system-x", {}, ["metadata.name"]),
        ("system-node-critical", {"value": 5}, ["metadata.name"]),
        ("a", {"preemptionPolicy": "Often"}, ["preemptionPolicy"]),
    ],
    ids=["highest", "higher", "system", "another value", "policy"],
)
def test_priorities_that_are_refused(name: str, body: Object, refused: list[str]) -> None:
    new = created(PRIORITY_CLASS, body | {"metadata": {"name": name}})
    assert fields(PRIORITY_CLASS.rules.content_problems(new, None)) == refused


@pytest.mark.parametrize("body", BUILT_IN, ids=lambda body: body["metadata"]["name"])
def test_the_built_in_priorities_can_be_created(body: Object) -> None:
    new = created(PRIORITY_CLASS, body | {"metadata": dict(body["metadata"])})
    assert PRIORITY_CLASS.rules.content_problems(new, None) == []


def test_a_priority_stays() -> None:
    old = created(PRIORITY_CLASS, {"value": 5})
    new = updated(PRIORITY_CLASS, old, {"value": 6, "preemptionPolicy": "Never"})
    assert fields(PRIORITY_CLASS.rules.problems(new, old)) == ["value", "preemptionPolicy"]


@pytest.mark.parametrize(
    ("namespace", "event", "refused"),
    [
        ("n", {"involvedObject": {"namespace": "n"}}, []),
        ("n", {"involvedObject": {"namespace": "m"}}, ["involvedObject.namespace"]),
        ("n", {}, ["involvedObject.namespace"]),
        ("default", {}, []),
        (
            "n",
            {"involvedObject": {"namespace": "n"}, "eventTime": "t", "reason": "R" * 129},
            ["reportingComponent", "reportingComponent", "reportingInstance", "action", "reason"],
        ),
    ],
    ids=["same", "another", "none", "default", "newer"],
)
def test_events_that_are_refused(namespace: str, event: Object, refused: list[str]) -> None:
    problems = EVENT.rules.content_problems(created(EVENT, event, namespace), None)
    assert list(dict.fromkeys(fields(problems))) == list(dict.fromkeys(refused))


def test_leases_that_are_refused() -> None:
    spec = {"leaseDurationSeconds": 0, "leaseTransitions": -1, "strategy": "S", "preferredHolder": "h"}
    new = created(LEASE, {"spec": spec})
    assert fields(LEASE.rules.content_problems(new, None)) == [
        "spec.leaseDurationSeconds", "spec.leaseTransitions",
    ]  # fmt: skip
    assert new["spec"].keys() == {"leaseDurationSeconds", "leaseTransitions"}


def test_a_node_can_give_what_it_has_unless_it_says_otherwise() -> None:
    made = created(NODE, {"spec": {"podCIDR": "10.1.0.0/24"}, "status": {"capacity": {"cpu": "4"}}})
    assert made["status"]["allocatable"] == {"cpu": "4"}
    assert made["spec"]["podCIDRs"] == ["10.1.0.0/24"]


def test_a_node_keeps_its_identity() -> None:
    old = created(NODE, {"spec": {"podCIDR": "10.1.0.0/24", "providerID": "x"}})
    new = updated(NODE, old, {"spec": {"podCIDR": "10.2.0.0/24", "taints": [{"key": "a b", "effect": "E"}]}})
    assert fields(NODE.rules.problems(new, old)) == ["spec.podCIDRs", "spec.providerID"]
    assert fields(NODE.rules.content_problems(new, old)) == ["metadata.taints[0].key"]


def test_a_namespace_is_active_until_it_goes() -> None:
    old = created(NAMESPACE, {})
    new = {"metadata": {"name": "a"}, "spec": old["spec"], "status": {"phase": "Terminating"}}
    NAMESPACE.rules.prepare_status(new, old)
    assert fields(NAMESPACE.rules.status_problems(new, old)) == ["status.Phase"]
    assert new["metadata"]["labels"] == {"kubernetes.io/metadata.name": "a"}


def test_of_an_accounts_secrets_only_the_names_count() -> None:
    made = created(SERVICE_ACCOUNT, {"secrets": [{"name": "s", "namespace": "x"}, {}]})
    assert made["secrets"] == [{"name": "s"}, {}]
