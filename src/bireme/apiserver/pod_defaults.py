"""What a pod gets on every write, and on its creation, where it leaves things out.

What a type gets wherever it stands, such as a probe's periods, is filled in by decoding.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bireme.apiserver.images import pull_policy
from bireme.apiserver.pod_resources import quality_of_service, with_pod_resources, with_requests
from bireme.apiserver.rules import Object

_DEFAULTS: Final[Mapping[str, Any]] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "enableServiceLinks": True,
}
_FORGOTTEN: Final = frozenset(
    f"pod.{stage}.kubernetes.io/init-container{what}"
    for stage in ("alpha", "beta")
    for what in ("s", "-statuses")
)
"""Annotations that once were fields."""


def default_pod(new: Object) -> None:
    """Fill in a pod at its top and in its metadata."""
    spec = new.get("spec") or {}
    new["spec"] = default_spec(spec)
    annotations = new["metadata"].get("annotations") or {}
    if not _FORGOTTEN.isdisjoint(annotations):
        _put(new["metadata"], "annotations", {k: v for k, v in annotations.items() if k not in _FORGOTTEN})


def _put(fields: Object, field: str, value: Any) -> None:
    """Set a field, or leave it out where there is nothing to set."""
    fields.pop(field, None)
    if value:
        fields[field] = value


def default_spec(spec: Object) -> Object:
    """The spec with what Kubernetes fills in."""
    made = {**_DEFAULTS, **spec}
    for field in ("containers", "initContainers"):
        if given := spec.get(field):
            made[field] = [_container(with_requests(each), made) for each in given]
    if given := spec.get("ephemeralContainers"):
        made["ephemeralContainers"] = [_with_pull_policy(each) for each in given]
    if given := spec.get("volumes"):
        made["volumes"] = [_volume(each) for each in given]
    if made["terminationGracePeriodSeconds"] is not None and made["terminationGracePeriodSeconds"] < 0:
        made["terminationGracePeriodSeconds"] = 1
    # `serviceAccount` is the older name of the same field.
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        made["serviceAccountName"] = made["serviceAccount"] = account
    return with_pod_resources(made)


def _container(container: Object, spec: Object) -> Object:
    container = _with_pull_policy(container)
    if spec.get("hostNetwork") and container.get("ports"):
        return container | {"ports": [_on_host(port) for port in container["ports"]]}
    return container


def _with_pull_policy(container: Object) -> Object:
    if container.get("imagePullPolicy"):
        return container
    return container | {"imagePullPolicy": pull_policy(container.get("image") or "")}


def _on_host(port: Object) -> Object:
    return port if port.get("hostPort") else port | {"hostPort": port.get("containerPort")}


def _volume(volume: Object) -> Object:
    if len(volume) == 1:
        return volume | {"emptyDir": {}}
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        return volume | {"image": image | {"pullPolicy": pull_policy(image.get("reference") or "")}}
    return volume


# ---- on creation


def begin_pod(new: Object) -> None:
    """Set the status of a new pod, and what its labels mean for its affinities."""
    new["status"] = {"phase": "Pending", "qosClass": quality_of_service(new["spec"])}
    if new["spec"].get("schedulingGates"):
        new["status"]["conditions"] = [_gated(new["metadata"].get("creationTimestamp"))]
    labels = new["metadata"].get("labels") or {}
    spec = new["spec"]
    if spec.get("affinity") and labels:
        spec = spec | {"affinity": _affinity(spec["affinity"], labels)}
    if spec.get("topologySpreadConstraints") and labels:
        spread = [_by_labels(each, labels) for each in spec["topologySpreadConstraints"]]
        spec = spec | {"topologySpreadConstraints": spread}
    new["spec"] = spec


def _gated(now: str | None) -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


_Change = Callable[[Object], Object]


def _affinity(affinity: Object, labels: Mapping[str, str]) -> Object:
    """Affinities to pods, with the keys whose values this pod's labels give."""

    def required(term: Object) -> Object:
        return _by_labels(term, labels)

    def preferred(weighted: Object) -> Object:
        term = weighted.get("podAffinityTerm")
        return weighted | {"podAffinityTerm": required(term)} if term else weighted

    made = dict(affinity)
    for field in ("podAffinity", "podAntiAffinity"):
        if terms := affinity.get(field):
            terms = _each(terms, "requiredDuringSchedulingIgnoredDuringExecution", required)
            made[field] = _each(terms, "preferredDuringSchedulingIgnoredDuringExecution", preferred)
    return made


def _each(terms: Object, field: str, change: _Change) -> Object:
    return terms | {field: [change(each) for each in terms[field]]} if terms.get(field) else terms


def _by_labels(term: Object, labels: Mapping[str, str]) -> Object:
    selector = term.get("labelSelector")
    if selector is None:
        return term
    more = [
        *_expressions(term.get("matchLabelKeys") or (), "In", labels),
        *_expressions(term.get("mismatchLabelKeys") or (), "NotIn", labels),
    ]
    if not more:
        return term
    expressions = [*(selector.get("matchExpressions") or ()), *more]
    return term | {"labelSelector": selector | {"matchExpressions": expressions}}


def _expressions(keys: Sequence[str], operator: str, labels: Mapping[str, str]) -> list[Object]:
    return [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys if key in labels]
