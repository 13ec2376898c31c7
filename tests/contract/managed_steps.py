"""What is done to objects of several kinds: one step after the other."""

import json
from collections.abc import Callable
from typing import Any

from bireme.apiserver.kinds import (
    CONFIG_MAP,
    EVENT,
    LEASE,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Kind,
)
from bireme.apiserver.managed.apply import LAST_APPLIED
from contract.managed_play import APPLY, JSON_PATCH, MERGE, SPACE, STRATEGIC, Object, Step
from contract.managed_widget import WIDGET

CONTAINER: Object = {
    "name": "c",
    "image": "i",
    "ports": [{"containerPort": 443}, {"containerPort": 80, "protocol": "UDP"}],
    "env": [{"name": "A", "value": "1"}],
    "resources": {"limits": {"cpu": "1000m", "memory": "1Gi"}},
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}
POD_BODY: Object = {
    "metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
    "spec": {
        "automountServiceAccountToken": False,
        "containers": [CONTAINER],
        "imagePullSecrets": [{"name": "s"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}
IN_ANOTHER_ZONE = "2020-01-01T02:00:00+02:00"
READY: list[Object] = [{"type": "Ready", "status": "True"}]
REASONED = [READY[0] | {"reason": "R", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}]


def changed(change: Callable[[Object], None]) -> Callable[[Object], Object]:
    """What replaces an object: itself, changed."""

    def change_copy(before: Object) -> Object:
        copy: Object = json.loads(json.dumps(before))
        change(copy)
        return copy

    return change_copy


def owner_entry(manager: str, fields: Object, **more: Any) -> Object:
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return entry | {"fieldsV1": fields} | more


def widget_entry(manager: str, version: str) -> Object:
    return owner_entry(manager, {"f:spec": {"f:size": {}}}, apiVersion=f"{WIDGET.group}/{version}")


def owners_patch(*entries: Object) -> list[Object]:
    return [{"op": "add", "path": "/metadata/managedFields", "value": list(entries)}]


def of_status(how: str, body: Object, manager: str) -> Step:
    return Step(how, body, manager, subresource="status")


def data(**values: str | None) -> Object:
    return {"data": values}


CONFIG_MAP_SEQUENCES: dict[str, list[Step]] = {
    "written by several": [
        Step("create", data(a="1", b="2"), "one"),
        Step(MERGE, data(b="3"), "two"),
        Step(MERGE, data(b="3"), "three"),
        Step(STRATEGIC, data(c="4"), "one"),
        Step(MERGE, {"data": None}, "two"),
        Step(MERGE, {"metadata": {"labels": {"x": "1"}, "finalizers": ["e.com/a"]}}, "two"),
        Step(MERGE, {"metadata": {"finalizers": ["e.com/b", "e.com/a"]}}, "three"),
        Step(MERGE, {"metadata": {"finalizers": None}}, "one"),
    ],
    "replaced": [
        Step("create", data(a="1", b="2") | {"metadata": {"labels": {"x": "1"}}}, "one"),
        Step("replace", changed(lambda obj: obj["data"].update(a="9")), "two"),
        Step("replace", changed(lambda obj: obj["metadata"].pop("managedFields")), "three"),
        Step("replace", changed(lambda obj: obj.update(data={"z": "1"})), "three"),
        Step("replace", changed(lambda obj: obj["metadata"].update(managedFields=[{}])), "four"),
        Step("replace", changed(lambda obj: obj.update(data={"y": "1"})), "four"),
        Step(APPLY, data(y="1"), "five"),
        Step(APPLY, data(x="1"), "five"),
    ],
    "applied by several": [
        Step(APPLY, data(a="1", b="1"), "one"),
        Step(APPLY, data(a="1"), "two"),
        Step(APPLY, data(a="2", c="3"), "three"),
        Step(APPLY, data(a="2", c="3"), "three", force=True),
        Step(APPLY, data(a="1"), "one"),
        Step(APPLY, data(b="1"), "one"),
        Step(MERGE, data(c="4"), "hand"),
        Step(APPLY, data(a="2", c="3"), "three"),
        Step(APPLY, data(), "three"),
        Step(APPLY, {}, "one"),
        Step(APPLY, {}, "three"),
    ],
    "conflicts with many": [
        Step("create", data(a="1", b="1", c="1"), "maker"),
        Step(MERGE, data(c="2"), "hand"),
        Step(APPLY, data(d="1"), "four"),
        Step(APPLY, data(a="5", b="5", c="5", d="5"), "five"),
        Step(APPLY, data(a="5"), "five"),
        Step(APPLY, data(a="5", b="5", c="5", d="5"), "five", force=True),
    ],
    "can't be applied": [
        Step(APPLY, data(a="1"), "one"),
        Step(APPLY, {"kind": "Secret"}, "one"),
        Step(APPLY, {"apiVersion": "v9"}, "one"),
        Step(APPLY, {"apiVersion": "", "kind": ""}, "one"),
        Step(APPLY, {"metadata": {"managedFields": []}}, "one"),
        Step(APPLY, {"metadata": {"managedFields": [owner_entry("x", {})]}}, "one"),
        Step(APPLY, {"spec": {}}, "one"),
        Step(APPLY, {"data": {"a": 1}, "immutable": "yes"}, "one"),
        Step(APPLY, {"data": {"a": {"b": ["c", 1, True, None]}}}, "one"),
        Step(APPLY, {"data": "x"}, "one"),
        Step(APPLY, {"data": ["x", {"y": 1}]}, "one"),
        Step(APPLY, {"data": None}, "one"),
        Step(APPLY, {"metadata": {"finalizers": ["e.com/a", "e.com/a"]}}, "one"),
        Step(APPLY, {"metadata": {"finalizers": [None]}}, "one"),
        Step(APPLY, {"metadata": {"ownerReferences": [{"name": "x"}]}}, "one"),
        Step(APPLY, {"metadata": {"generation": "x"}}, "one"),
    ],
    "owners sent by hand": [
        Step("create", data(a="1", b="1"), "one"),
        Step(JSON_PATCH, owners_patch(owner_entry("m", {"f:data": {"f:a": {}}})), "one"),
        Step(
            JSON_PATCH,
            owners_patch(
                owner_entry("m", {"f:data": {"f:b": {}, "f:a": None, "q:x": {}}}, time=IN_ANOTHER_ZONE),
                owner_entry("n", {"f:data": {".": {}}}, operation="Apply"),
            ),
            "one",
        ),
        Step(JSON_PATCH, owners_patch(owner_entry("m", {"data": {}})), "one"),
        Step(JSON_PATCH, owners_patch(owner_entry("m", {"f:data": {}}, operation="Other")), "one"),
        Step(JSON_PATCH, owners_patch(owner_entry("m", {"f:data": {}}, fieldsType="")), "one"),
        Step(JSON_PATCH, owners_patch(owner_entry("m", {"k:{": {}})), "one"),
        Step(JSON_PATCH, owners_patch(owner_entry("m", {"f:data": {}}, apiVersion="")), "one"),
        Step(
            JSON_PATCH,
            [
                *owners_patch(owner_entry("m", {"f:data": {"f:a": {}}})),
                {"op": "add", "path": "/data/a", "value": "7"},
            ],
            "two",
        ),
        Step(JSON_PATCH, owners_patch(owner_entry("m", {"f:data": {"f:a": {}}}, apiVersion="v9")), "one"),
        Step(JSON_PATCH, owners_patch(owner_entry("m", {})), "one"),
        Step(APPLY, data(a="7"), "one"),
        Step(JSON_PATCH, owners_patch(), "one"),
        Step(MERGE, data(c="1"), "one"),
    ],
    "created with owners": [
        Step(
            "create",
            data(a="1")
            | {"metadata": {"managedFields": [owner_entry("m", {"f:data": {"f:a": {}, "f:b": {}}})]}},
        ),
    ],
    "written by too many": [
        Step("create", data(a="1"), "maker"),
        *(Step(MERGE, {"data": {f"k{number}": "1"}}, f"m{number}") for number in range(14)),
    ],
    "moved from client-side apply": [
        Step(
            "create",
            data(a="1", b="2") | {"metadata": {"annotations": {LAST_APPLIED: json.dumps(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"a": "1", "b": "2"}}
            )}}},
            "kubectl-client-side-apply",
        ),
        Step(APPLY, data(a="9", b="2"), "other"),
        Step(APPLY, data(a="9", b="2"), "kubectl"),
        Step(MERGE, data(b="7"), "hand"),
        Step(APPLY, data(a="1", b="8"), "kubectl"),
        Step(APPLY, data(a="1"), "kubectl"),
    ],
    "odd names": [
        Step("create", {"data": {"a.b": "1"}, "metadata": {"annotations": {"e.com/x": "<&>"}}}, "a manager"),
        Step(MERGE, {"metadata": {"finalizers": ["e.com/z", "e.com/a"]}}, "<b>&"),
        Step(MERGE, data(z="1"), "ü"),
    ],
}  # fmt: skip
POD_SEQUENCES: dict[str, list[Step]] = {
    "lives": [
        Step("create", POD_BODY, "maker"),
        of_status(STRATEGIC, {"status": {"phase": "Running", "conditions": READY}}, "kubelet"),
        of_status(STRATEGIC, {"status": {"phase": "Running", "conditions": READY}}, "kubelet"),
        Step(
            STRATEGIC,
            {"metadata": {"labels": {"x": "1"}}, "spec": {"activeDeadlineSeconds": 7}, "status": {
                "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}], "startTime": "2020-01-01T00:00:00Z",
            }},
            "kubelet",
            subresource="status",
        ),
        Step(STRATEGIC, {"spec": {"activeDeadlineSeconds": 50}, "status": {"phase": "Failed"}}, "hand"),
        Step(STRATEGIC, {"spec": {"containers": [{"name": "c", "image": "j"}]}}, "hand"),
        Step(MERGE, {"metadata": {"labels": None}}, "hand"),
        Step(
            "replace", changed(lambda pod: pod["status"].update(conditions=[], phase="Succeeded")), "kubelet",
            subresource="status",
        ),
    ],
    "is applied": [
        Step(APPLY, POD_BODY, "one"),
        Step(APPLY, POD_BODY, "one"),
        Step(APPLY, POD_BODY, "two"),
        Step(APPLY, {"spec": {"containers": [{"name": "c", "image": "j"}]}}, "three"),
        Step(APPLY, {"spec": {"containers": [{"name": "c", "image": "j"}]}}, "three", force=True),
        Step(APPLY, {"metadata": {"labels": {"app": "x"}}}, "two"),
        Step(APPLY, {"spec": {"containers": [{"name": "c"}, {"name": "c"}]}}, "two"),
        Step(APPLY, {"spec": {"containers": [None]}}, "two"),
        Step(APPLY, {"spec": {"containers": ["x"]}}, "two"),
        Step(APPLY, {"spec": {"containers": {"a": 1}}}, "two"),
        Step(APPLY, {"spec": {"hostNetwork": {"a": 1}, "priority": "7", "containers": [
            {"name": "c", "image": 7, "ports": [{"containerPort": "x"}]}
        ]}}, "two"),
        Step(APPLY, {"status": {"phase": "Running"}}, "two"),
        of_status(APPLY, {"status": {"conditions": READY, "phase": "Running"}}, "two"),
        of_status(APPLY, {"status": {"conditions": READY}}, "three"),
        of_status(APPLY, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "four"),
        of_status(APPLY, {"status": {"conditions": []}}, "two"),
        of_status(APPLY, {"metadata": {"labels": {"by": "x"}}, "spec": {"priority": 1}}, "five"),
    ],
}  # fmt: skip
SERVICE_BODY: Object = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"name": "p", "port": 80}]},
}
SERVICE_SEQUENCES: dict[str, list[Step]] = {
    "lives": [
        Step(
            "create", {"spec": {"selector": {"a": "b"}, "ports": [{"name": "p", "port": 80}]}}, "maker",
        ),
        Step(STRATEGIC, {"spec": {"ports": [{"name": "q", "port": 443}]}}, "two"),
        Step(MERGE, {"spec": {"selector": {"c": "d"}}}, "two"),
        of_status(MERGE, {"status": {"conditions": REASONED}}, "balancer"),
        Step(MERGE, {"spec": {"ports": [{"name": "q", "port": 443}]}}, "three"),
    ],
    "is applied": [
        Step(APPLY, SERVICE_BODY, "one"),
        Step(APPLY, {"spec": {"ports": [{"name": "q", "port": 443, "targetPort": "x"}]}}, "two"),
        Step(APPLY, {"spec": {"ports": [{"name": "r", "port": 443}]}}, "three"),
        Step(APPLY, {"spec": {"selector": {"a": "b", "c": "d"}}}, "three"),
        Step(APPLY, {"spec": {"selector": {"a": "b", "c": "d"}}}, "three", force=True),
        Step(APPLY, {"spec": {"ports": [{"port": 80, "protocol": "UDP", "name": "u"}]}}, "two"),
        Step(APPLY, {"spec": {"ports": [{"port": 80, "name": "p"}]}}, "one"),
    ],
}  # fmt: skip
WIDGET_SEQUENCES: dict[str, list[Step]] = {
    "lives": [
        Step("create", {"spec": {"size": 1, "ports": [{"port": 80}]}, "status": {"phase": "x"}}),
        of_status(MERGE, {"status": {"phase": "Running", "conditions": READY}}, "two"),
        of_status(MERGE, {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 7}}, "two"),
        Step(MERGE, {"spec": {"free": {"a": {"b": [1, {"c": 2}], "d": None}, "e": {}}}}, "two"),
        Step(MERGE, {"spec": {"free": {"a": 1, "e": {"f": True}}}}, "three"),
        Step(MERGE, {"spec": {"free": {"e": {"f": 1}}, "hint": None}}, "three"),
        Step(MERGE, {"spec": {"tags": ["a", "c"], "color": {"r": "1"}, "steps": ["x", "x"]}}, "three"),
        Step(MERGE, {"spec": {"limit": 5, "share": 1.5}}, "three"),
        Step(MERGE, {"spec": {"limit": "5%", "share": 1}}, "two"),
        Step(MERGE, {"spec": None}, "two"),
        Step(JSON_PATCH, owners_patch(widget_entry("m", "v1")), "two"),
    ],
    "loses owners of another version": [
        Step("create", {"spec": {"size": 1}}),
        Step(JSON_PATCH, owners_patch(widget_entry("m", "v9"), widget_entry("n", "v1")), "two"),
        Step(MERGE, {"spec": {"size": 2}}, "two"),
        Step(APPLY, {"spec": {"size": 2}}, "two"),
    ],
    "is applied": [
        Step(APPLY, {"spec": {"inner": {"y": {"z": "1"}}, "names": {"a": "1"}, "ports": [{"port": 80}]}}),
        Step(MERGE, {"spec": {"ports": [{"port": 80, "protocol": "TCP", "note": "x"}]}}, "hand"),
        Step(APPLY, {"spec": {"inner": {"x": "1"}, "names": {"b": "1"}, "ports": [{"port": 443}]}}, "two"),
        Step(APPLY, {"spec": {"inner": {}, "names": {}}}, "one"),
        Step(APPLY, {"spec": {"ports": [{"port": 443, "protocol": "UDP"}, {"port": 443}]}}, "three"),
        Step(APPLY, {"spec": {"ports": []}}, "three"),
        Step(APPLY, {"spec": {"tags": ["b", "c", "a"]}}, "three"),
        Step(APPLY, {"spec": {"tags": ["d", "a"]}}, "two"),
        Step(APPLY, {"spec": {"tags": ["c"]}}, "three"),
        Step(APPLY, {"spec": {"hint": None, "free": {"x": None, "y": [1], "z": {"q": {}}}}}, "four"),
        Step(APPLY, {"spec": {"unknown": 1}}, "four"),
        Step(APPLY, {"spec": {"ports": [{"protocol": "UDP"}]}}, "four"),
        Step(APPLY, {"spec": {"ports": [{"note": "x"}]}}, "five"),
        Step(APPLY, {"spec": {"limit": {"a": 1}, "size": "x", "on": 1, "share": []}}, "five"),
        Step(APPLY, {"status": {"phase": "x"}}, "five"),
        of_status(APPLY, {"status": {"phase": "x"}, "metadata": {"labels": {"a": "b"}}}, "six"),
        Step(APPLY, {"spec": {"template": {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}}, "spec": {"x": {"y": 1}},
        }}}, "seven"),
        Step(MERGE, {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}, "eight"),
    ],
}  # fmt: skip
EVENT_SEQUENCES: dict[str, list[Step]] = {
    "lives": [
        Step("create", {"involvedObject": {"namespace": SPACE, "name": "x"}, "reason": "R", "count": 1}),
        Step(
            MERGE, {"count": 2, "lastTimestamp": "2020-01-01T00:00:00Z", "source": {"component": "c"}}, "two"
        ),
    ],
}
LEASE_SEQUENCES: dict[str, list[Step]] = {
    "lives": [
        Step("create", {"spec": {"holderIdentity": "x"}}),
        Step(MERGE, {"spec": {"renewTime": "2020-01-01T00:00:00.000000Z"}}, "two"),
    ],
}
ROLE_SEQUENCES: dict[str, list[Step]] = {
    "lives": [
        Step("create", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        Step(MERGE, {"rules": []}, "two"),
    ],
}
CREATED: list[tuple[Kind, Object]] = [
    (SECRET, {"data": {"a": "eA=="}}),
    (SERVICE_ACCOUNT, {"secrets": [{"name": "x"}], "imagePullSecrets": [{"name": "y"}]}),
    (
        ROLE_BINDING,
        {
            "roleRef": {"apiGroup": ROLE.group, "kind": "Role", "name": "x"},
            "subjects": [{"kind": "ServiceAccount", "name": "default"}],
        },
    ),
    (
        PERSISTENT_VOLUME_CLAIM,
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    (PRIORITY_CLASS, {"value": 0, "description": "x"}),
    (NODE, {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "1"}}}),
    (NAMESPACE, {"metadata": {"labels": {"a": "b"}}}),
]
SEQUENCES = {
    f"{kind.kind} {name}": (kind, steps)
    for kind, sequences in (
        (CONFIG_MAP, CONFIG_MAP_SEQUENCES),
        (POD, POD_SEQUENCES),
        (SERVICE, SERVICE_SEQUENCES),
        (WIDGET, WIDGET_SEQUENCES),
        (EVENT, EVENT_SEQUENCES),
        (LEASE, LEASE_SEQUENCES),
        (ROLE, ROLE_SEQUENCES),
    )
    for name, steps in sequences.items()
} | {f"{kind.kind} is created": (kind, [Step("create", body)]) for kind, body in CREATED}
