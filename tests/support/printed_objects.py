"""Objects of every kind that is printed in a way of its own, in the states that print differently."""

from typing import Any, NamedTuple

from bireme.apiserver import kinds
from bireme.apiserver.kinds import Kind

Object = dict[str, Any]
SPACE = "printing-agrees"
LONG_AGO = "2019-05-06T07:08:09Z"
LONGER_AGO = "2011-05-06T07:08:09Z"

NOTHING: Object = {}
RUNNING = {"running": {"startedAt": LONG_AGO}}


def ended(code: int, reason: str = "", signal: int = 0, at: str = LONG_AGO) -> Object:
    return {"terminated": {"exitCode": code, "reason": reason, "signal": signal, "finishedAt": at}}


def waits(reason: str) -> Object:
    return {"waiting": {"reason": reason}}


def container(name: str, state: Object, *, ready: bool = False, restarts: int = 0, **more: Any) -> Object:
    seen = {"name": name, "image": "i", "imageID": "", "ready": ready, "restartCount": restarts}
    return {**seen, "state": state, **more}


def condition(kind: str, status: str = "True", **more: str) -> Object:
    return {"type": kind, "status": status, **more}


class Pod(NamedTuple):
    status: Object
    spec: Object = NOTHING
    metadata: Object = NOTHING
    deleted: bool = False


def phase(name: str, *containers: Object, **more: Any) -> Object:
    return {"phase": name, **({"containerStatuses": list(containers)} if containers else {}), **more}


def inits(*names: str, sidecars: tuple[str, ...] = ()) -> Object:
    made: list[Object] = [{"name": name, "image": "i"} for name in names]
    for each in made:
        if each["name"] in sidecars:
            each["restartPolicy"] = "Always"
    return {"initContainers": made}


TWO = {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}
HELD = {"finalizers": ["example.com/held"]}
PODS: dict[str, Pod] = {
    "as-created": Pod({}),
    "gated": Pod({}, {"schedulingGates": [{"name": "example.com/g"}]}),
    "running": Pod(
        phase(
            "Running",
            container("a", RUNNING, ready=True),
            podIPs=[{"ip": "10.1.2.3"}, {"ip": "fd00::1"}],
            podIP="10.1.2.3",
            conditions=[condition("Ready")],
        ),
        {"nodeName": "printing-plain"},
    ),
    "running-unready": Pod(phase("Running", container("a", RUNNING))),
    "half-ready": Pod(phase("Running", container("a", RUNNING, ready=True), container("b", RUNNING)), TWO),
    "creating": Pod(phase("Pending", container("a", waits("ContainerCreating")))),
    "waiting-for-nothing": Pod(phase("Pending", container("a", {"waiting": {}}))),
    "without-state": Pod(phase("Running", container("a", {}, ready=True))),
    "crash-loop": Pod(
        phase("Running", container("a", waits("CrashLoopBackOff"), restarts=5, lastState=ended(1, "Error")))
    ),
    "crash-loop-twice": Pod(
        phase(
            "Running",
            container("a", waits("CrashLoopBackOff"), restarts=2, lastState=ended(1, at=LONGER_AGO)),
            container("b", waits("ImagePullBackOff"), restarts=3, lastState=ended(1)),
        ),
        TWO,
    ),
    "restarted-without-a-date": Pod(phase("Running", container("a", RUNNING, ready=True, restarts=3))),
    "succeeded": Pod(phase("Succeeded", container("a", ended(0, "Completed")))),
    "completed-and-running": Pod(
        phase("Running", container("a", ended(0, "Completed")), container("b", RUNNING, ready=True)), TWO
    ),
    "completed-and-ready": Pod(
        phase(
            "Running",
            container("a", ended(0, "Completed")),
            container("b", RUNNING, ready=True),
            conditions=[condition("Ready")],
        ),
        TWO,
    ),
    "completed-and-failed": Pod(
        phase("Failed", container("a", ended(0, "Completed")), container("b", ended(3, "Error"))), TWO
    ),
    "failed-and-completed": Pod(
        phase("Failed", container("a", ended(3, "Error")), container("b", ended(0, "Completed"))), TWO
    ),
    "out-of-memory": Pod(phase("Failed", container("a", ended(137, "OOMKilled")))),
    "exit-code": Pod(phase("Failed", container("a", ended(42)))),
    "signal": Pod(phase("Failed", container("a", ended(137, signal=9)))),
    "evicted": Pod(phase("Failed", reason="Evicted", message="The node was low on resource: memory.")),
    "unknown": Pod(phase("Unknown", reason="NodeLost")),
    "terminating": Pod(phase("Running", container("a", RUNNING, ready=True)), {}, HELD, deleted=True),
    "terminating-ended": Pod(phase("Failed", container("a", ended(1, "Error"))), {}, HELD, deleted=True),
    "terminating-lost": Pod(phase("Running", reason="NodeLost"), {}, HELD, deleted=True),
    "init-waiting": Pod(
        phase(
            "Pending", initContainerStatuses=[container("i", waits("PodInitializing")), container("j", {})]
        ),
        inits("i", "j"),
    ),
    "init-second": Pod(
        phase(
            "Pending",
            container("a", waits("PodInitializing")),
            initContainerStatuses=[
                container("i", ended(0, "Completed"), restarts=1),
                container("j", RUNNING),
            ],
        ),
        inits("i", "j"),
    ),
    "init-crash-loop": Pod(
        phase(
            "Pending",
            container("a", waits("PodInitializing"), restarts=7),
            initContainerStatuses=[
                container("i", waits("CrashLoopBackOff"), restarts=4, lastState=ended(1, "Error"))
            ],
        ),
        inits("i"),
    ),
    "init-error": Pod(phase("Failed", initContainerStatuses=[container("i", ended(1, "Error"))]), inits("i")),
    "init-exit-code": Pod(phase("Failed", initContainerStatuses=[container("i", ended(5))]), inits("i")),
    "init-signal": Pod(
        phase("Failed", initContainerStatuses=[container("i", ended(143, signal=15))]), inits("i")
    ),
    "initialized-before": Pod(
        phase(
            "Running",
            container("a", RUNNING, ready=True, restarts=1, lastState=ended(2)),
            conditions=[condition("Initialized")],
            initContainerStatuses=[container("i", RUNNING, restarts=9, lastState=ended(1, at=LONGER_AGO))],
        ),
        inits("i"),
    ),
    "sidecar": Pod(
        phase(
            "Running",
            container("a", RUNNING, ready=True),
            initContainerStatuses=[
                container("s", RUNNING, ready=True, restarts=2, started=True, lastState=ended(1)),
                container("i", ended(0, "Completed"), restarts=1, lastState=ended(1)),
            ],
        ),
        inits("s", "i", sidecars=("s",)),
    ),
    "sidecar-unready": Pod(
        phase(
            "Running",
            container("a", RUNNING, ready=True),
            initContainerStatuses=[container("s", RUNNING, started=True)],
        ),
        inits("s", sidecars=("s",)),
    ),
    "sidecar-not-started": Pod(
        phase("Pending", initContainerStatuses=[container("s", RUNNING, started=False), container("i", {})]),
        inits("s", "i", sidecars=("s",)),
    ),
    "nominated": Pod(phase("Pending", nominatedNodeName="printing-plain")),
    "readiness-gates": Pod(
        phase("Running", conditions=[condition("example.com/x"), condition("example.com/y", "False")]),
        {"readinessGates": [{"conditionType": f"example.com/{each}"} for each in "xyz"]},
    ),
}


def about(name: str, **more: Any) -> Object:
    return {"involvedObject": {"kind": "Pod", "namespace": SPACE, "name": name, **more}, "reason": "Told"}


NEW_EVENT = {
    "eventTime": "2019-05-06T07:08:09.123456Z", "action": "Bind", "type": "Normal",
    "reportingComponent": "example.com/c", "reportingInstance": "c-0",
}  # fmt: skip
SUBJECTS = [
    {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
    {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
    {"kind": "Group", "name": "g", "apiGroup": "rbac.authorization.k8s.io"},
    {"kind": "User", "name": "v", "apiGroup": "rbac.authorization.k8s.io"},
]
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "printing-some"}
PORT = {"port": 80, "protocol": "TCP"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

OBJECTS: list[tuple[Kind, str, Object]] = [
    (kinds.NODE, "plain", {}),
    (kinds.NODE, "ready", {
        "metadata": {"labels": {
            "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/gpu": "x",
            "kubernetes.io/role": "old",
            "node-role.kubernetes.io/control-plane": "",
        }},
        "status": {
            "conditions": [condition("MemoryPressure", "False"), condition("Ready")],
            "addresses": [
                {"type": "Hostname", "address": "h"}, {"type": "ExternalIP", "address": "1.2.3.4"},
                {"type": "InternalIP", "address": "10.0.0.7"}, {"type": "InternalIP", "address": "10.0.0.8"},
            ],
            "nodeInfo": {
                "kubeletVersion": "v1.36.3", "osImage": "Some Linux 1", "kernelVersion": "6.1",
                "architecture": "amd64", "containerRuntimeVersion": "containerd://2.0",
            },
        },
    }),
    (kinds.NODE, "cordoned", {
        "spec": {"unschedulable": True},
        "status": {"conditions": [condition("Ready", "Unknown")], "nodeInfo": {"architecture": "arm64"}},
    }),
    (kinds.SERVICE, "plain", {"spec": {"ports": [PORT], "selector": {"b": "2", "a": "1"}}}),
    (kinds.SERVICE, "headless", {"spec": {"clusterIP": "None"}}),
    (kinds.SERVICE, "external-ips", {"spec": {"ports": [PORT], "externalIPs": ["1.2.3.4", "1.2.3.5"]}}),
    (kinds.SERVICE, "named", {"spec": {"type": "ExternalName", "externalName": "example.com"}}),
    (kinds.SERVICE, "node-port", {"spec": {"type": "NodePort", "ports": [
        {**PORT, "name": "a", "nodePort": 30123}, {"port": 53, "protocol": "UDP", "name": "b",
        "nodePort": 30124},
    ]}}),
    (kinds.SERVICE, "balanced", {"spec": {"type": "LoadBalancer", "ports": [PORT]},
    "status": {"loadBalancer": {
        "ingress": [{"ip": "9.9.9.9"}, {"hostname": "a-long-name.example.com"}, {"ip": "1.1.1.1"}],
    }}}),
    (kinds.SERVICE, "balanced-beside", {
        "spec": {"type": "LoadBalancer", "ports": [PORT], "externalIPs": ["1.2.3.4"]},
        "status": {"loadBalancer": {"ingress": [{"ip": "9.9.9.9"}]}},
    }),
    (kinds.SERVICE, "pending", {"spec": {"type": "LoadBalancer", "ports": [PORT]}}),
    (kinds.CONFIG_MAP, "full", {"data": {"a": "1", "b": "2"}, "binaryData": {"c": "AAAA"}}),
    (kinds.CONFIG_MAP, "empty", {}),
    (kinds.SECRET, "opaque", {"data": {"a": "AAAA"}, "stringData": {"b": "x"}}),
    (kinds.SECRET, "other", {"type": "example.com/t"}),
    (kinds.SERVICE_ACCOUNT, "some", {}),
    (kinds.EVENT, "older", {
        **about("p", fieldPath="spec.containers{a}"), "type": "Warning", "message": "  Told so. \n\u2003",
        "source": {"component": "kubelet", "host": "h"}, "firstTimestamp": LONGER_AGO,
        "lastTimestamp": LONG_AGO,
        "count": 12,
    }),
    (kinds.EVENT, "once", {**about("p"), "firstTimestamp": LONG_AGO, "source": {"component": "kubelet"}}),
    (kinds.EVENT, "nameless", {**about(""), "message": "m"}),
    (kinds.EVENT, "newer", {**about("p"), **NEW_EVENT}),
    (kinds.EVENT, "series", {
        **about("p"), **NEW_EVENT, "series": {"count": 4, "lastObservedTime": "2020-05-06T07:08:09.000001Z"},
    }),
    (kinds.LEASE, "held", {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 5}}),
    (kinds.LEASE, "free", {"spec": {}}),
    (kinds.ROLE, "some", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    (kinds.ROLE_BINDING, "some", {"roleRef": ROLE, "subjects": SUBJECTS}),
    (kinds.ROLE_BINDING, "nobody", {"roleRef": {**ROLE, "kind": "ClusterRole"}}),
    (kinds.PERSISTENT_VOLUME_CLAIM, "pending", {"spec": {**CLAIM, "storageClassName": "c"}}),
    (kinds.PERSISTENT_VOLUME_CLAIM, "bound", {
        "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "older"}},
        "spec": {**CLAIM, "volumeName": "v", "volumeMode": "Block"},
        "status": {
            "phase": "Bound", "capacity": {"storage": "2048Mi"},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadWriteOnce"],
        },
    }),
    (kinds.PERSISTENT_VOLUME_CLAIM, "without-capacity", {
        "spec": {**CLAIM, "volumeName": "v", "storageClassName": "", "volumeAttributesClassName": "gold"},
    }),
    (kinds.PRIORITY_CLASS, "low", {"value": -5, "preemptionPolicy": "Never"}),
    (kinds.PRIORITY_CLASS, "high", {"value": 1000, "globalDefault": True}),
    *((kinds.POD, name, {
        "metadata": pod.metadata,
        "spec": {
            "containers": [{"name": "a", "image": "i"}], "schedulerName": "nobody",
            "automountServiceAccountToken": False, **pod.spec,
        },
        "status": pod.status,
    }) for name, pod in PODS.items()),
]  # fmt: skip
