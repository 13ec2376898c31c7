"""What admission plugins of a real server do to objects, and with which other objects they compare them.

Done here: ServiceAccount (without a token to mount), Priority, DefaultTolerationSeconds. NamespaceLifecycle
is the store's. Of the others that are on by default, these would change or refuse something that can be
written here, and are left out:

| plugin | what it does there | why not here |
|---|---|---|
| ServiceAccount's token | mounts a token into each container | there are no tokens |
| TaintNodesByCondition | gives new nodes the taint `not-ready` | nobody would take it away |
| StorageObjectInUseProtection | gives claims a finalizer | nobody would take it away |
| LimitRanger, ResourceQuota | defaults and limits by namespace | their kinds are not served |
| DefaultStorageClass, PersistentVolumeClaimResize | looks at StorageClasses | they are not served |
| RuntimeClass | sets overhead, refuses unknown classes | RuntimeClasses are not served |
| PodSecurity | refuses pods by labels of their namespace | jobs run as whoever runs the server |
| PodTopologyLabels | copies labels of nodes to pods that are bound | nodes have none |
| webhooks and admission policies | ask others | their kinds are not served |
"""

from collections.abc import Callable, Iterable
from typing import Final

from bireme.api.names import NODE_NAME_ANNOTATION
from bireme.apiserver import errors
from bireme.apiserver.kinds import NODE, POD, PRIORITY_CLASS, SERVICE_ACCOUNT, Kind
from bireme.apiserver.priority import PREEMPTING
from bireme.apiserver.rules import Object

Lookup = Callable[[Kind, str, str], Object | None]
"""Finds an object by kind, namespace and name."""
Every = Callable[[Kind], Iterable[Object]]
"""All objects of a kind."""

DEFAULT_ACCOUNT: Final = "default"
_MIRROR: Final = "kubernetes.io/config.mirror"
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS: Final = 300


def admit(
    lookup: Lookup,
    kind: Kind,
    new: Object,
    old: Object | None,
    *,
    every: Every = lambda _: (),
    stand_ins: bool = False,
) -> None:
    """Fill in what depends on other objects, and refuse what they forbid; `old` is None on creation.

    `new` is changed at its top. For writes to the main resource only, after its defaults and before it is
    checked. Without `every` there is no default PriorityClass.

    With `stand_ins`, for the only node of the embedded mode, a new pod may name a ServiceAccount, a
    PriorityClass and a node that are not there: it has no account, priority 0, and is bound like any other.
    """
    if kind.resource == POD.resource:
        if old is None:
            _set_account(lookup, new, stand_ins=stand_ins)
            _set_priority(lookup, every, new, stand_ins=stand_ins)
            if stand_ins:
                _release_from_node(lookup, new)
        else:
            _keep_priority(new, old)
        _tolerate(new)
    elif kind.resource == PRIORITY_CLASS.resource and new.get("globalDefault"):
        _check_only_default(every, new, old)


def _release_from_node(lookup: Lookup, pod: Object) -> None:
    """Leave a pod to the scheduler if its node is not there: nothing would ever start it, or end it."""
    name = pod["spec"].get("nodeName")
    if not name or lookup(NODE, "", name) is not None:
        return
    pod["spec"] = {field: value for field, value in pod["spec"].items() if field != "nodeName"}
    # In place: the store goes on to fill in the metadata of a new object.
    metadata = pod["metadata"]
    metadata["annotations"] = (metadata.get("annotations") or {}) | {NODE_NAME_ANNOTATION: name}


def _set_account(lookup: Lookup, pod: Object, *, stand_ins: bool) -> None:
    """A pod runs as a ServiceAccount; that of the namespace need not be there, as no token depends on it."""
    metadata, spec = pod["metadata"], pod["spec"]
    if _MIRROR in (metadata.get("annotations") or {}):
        return
    name, namespace = spec.get("serviceAccountName") or DEFAULT_ACCOUNT, metadata.get("namespace", "")
    account = lookup(SERVICE_ACCOUNT, namespace, name)
    if account is None and name != DEFAULT_ACCOUNT and not stand_ins:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise errors.forbidden(POD, metadata.get("name", ""), why)
    made = spec | {"serviceAccountName": name, "serviceAccount": name}
    secrets = (account or {}).get("imagePullSecrets")
    if secrets and not spec.get("imagePullSecrets"):
        made["imagePullSecrets"] = secrets
    pod["spec"] = made


def _set_priority(lookup: Lookup, every: Every, pod: Object, *, stand_ins: bool) -> None:
    """A pod has the priority of its class, and nothing else."""
    name, spec = pod["metadata"].get("name", ""), pod["spec"]
    class_name = spec.get("priorityClassName")
    found = lookup(PRIORITY_CLASS, "", class_name) if class_name else _default_class(every)
    if found is None and class_name and not stand_ins:
        raise errors.forbidden(POD, name, f"no PriorityClass with name {class_name} was found")
    made = _priority_of(found)
    for field, sort, called in (
        ("priority", "integer", "priority"),
        ("preemptionPolicy", "string", "PreemptionPolicy"),
    ):
        given = spec.get(field)
        if given is not None and given != made[field]:
            why = (
                f"the {sort} value of {called} ({given}) must not be provided in pod spec; priority admission"
                f" controller computed {made[field]} from the given PriorityClass name"
            )
            raise errors.forbidden(POD, name, why)
    pod["spec"] = spec | made


def _priority_of(priority_class: Object | None) -> Object:
    if priority_class is None:
        return {"priority": 0, "preemptionPolicy": PREEMPTING}
    return {
        "priorityClassName": priority_class["metadata"]["name"],
        "priority": priority_class["value"],
        "preemptionPolicy": priority_class.get("preemptionPolicy") or PREEMPTING,
    }


def _default_class(every: Every) -> Object | None:
    defaults = [each for each in every(PRIORITY_CLASS) if each.get("globalDefault")]
    return min(defaults, key=lambda each: int(each["value"]), default=None)


def _keep_priority(pod: Object, old: Object) -> None:
    kept = {
        field: old["spec"][field]
        for field in ("priority", "preemptionPolicy")
        if pod["spec"].get(field) is None and field in old["spec"]
    }
    if kept:
        pod["spec"] = pod["spec"] | kept


def _tolerate(pod: Object) -> None:
    """A pod stays for five minutes on a node that is lost, unless it says otherwise."""
    given = pod["spec"].get("tolerations") or []
    more = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
        for key in _TOLERATED
        if not any(_covers(each, key) for each in given)
    ]
    if more:
        pod["spec"] = pod["spec"] | {"tolerations": [*given, *more]}


def _covers(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (None, "", "NoExecute")


def _check_only_default(every: Every, new: Object, old: Object | None) -> None:
    there, name = _default_class(every), new["metadata"].get("name", "")
    if there is not None and (old is None or there["metadata"]["name"] != name):
        default = there["metadata"]["name"]
        why = f"PriorityClass {default} is already marked as default. Only one default can exist"
        raise errors.forbidden(PRIORITY_CLASS, name, why)
