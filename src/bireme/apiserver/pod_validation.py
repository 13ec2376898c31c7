"""What is wrong with a pod's spec, as far as it is checked: what jobs and users get wrong most.

Not checked, and so taken here though a real server refuses it: affinities, security contexts, handlers of
probes, tolerations, DNS settings, the names of resources, and what `volume_validation` leaves out.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from bireme.api.quantity import parse_quantity
from bireme.api.volume_paths import descending
from bireme.apiserver import checks, formats
from bireme.apiserver.checks import duplicate, not_found
from bireme.apiserver.errors import FieldError, forbidden_value, invalid_value, required
from bireme.apiserver.rules import Object
from bireme.apiserver.volume_validation import path_problems, source_problems

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("FallbackToLogsOnError", "File")
_MOST_SECONDS: Final = 2**31 - 1
_NOT_AT_START: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage", "storage")


def spec_problems(spec: Object) -> list[FieldError]:
    """What is wrong with a spec that was decoded and has its defaults."""
    volumes: set[str] = set()
    problems = list(_volumes(spec.get("volumes") or (), volumes))
    containers: Sequence[Object] = spec.get("containers") or ()
    names: set[str] = set()
    for index, container in enumerate(containers):
        problems += _container(f"spec.containers[{index}]", container, volumes, names)
    problems += _host_ports("spec.containers", containers)
    for index, container in enumerate(spec.get("initContainers") or ()):
        field = f"spec.initContainers[{index}]"
        problems += _container(field, container, volumes, names)
        problems += _at_start(field, container)
    problems += _rest(spec)
    return problems


def new_problems(spec: Object) -> Iterator[FieldError]:
    """What a pod that is there may have, and a new one not."""
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield forbidden_value("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def _volumes(volumes: Sequence[Object], known: set[str]) -> Iterator[FieldError]:
    """Problems of volumes; the names of those without go into `known`."""
    for index, volume in enumerate(volumes):
        name, field = volume.get("name") or "", f"spec.volumes[{index}]"
        problems = [*source_problems(field, volume), *checks.label_name(f"{field}.name", name)]
        if name in known:
            problems.append(duplicate(f"{field}.name", name))
        if not problems:
            known.add(name)
        yield from problems


def _container(field: str, container: Object, volumes: set[str], names: set[str]) -> Iterator[FieldError]:
    name = container.get("name") or ""
    yield from checks.label_name(f"{field}.name", name)
    if not container.get("image"):
        yield required(f"{field}.image")
    if policy := container.get("terminationMessagePolicy"):
        yield from checks.one_of(f"{field}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    yield from _ports(f"{field}.ports", container.get("ports") or ())
    yield from _variables(f"{field}.env", container.get("env") or ())
    yield from _mounts(f"{field}.volumeMounts", container.get("volumeMounts") or (), volumes)
    yield from checks.one_of(f"{field}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    yield from _resources(f"{field}.resources", container.get("resources") or {})
    if name in names:
        yield duplicate(f"{field}.name", name)
    names.add(name)


def _ports(field: str, ports: Sequence[Object]) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        place, name = f"{field}[{index}]", port.get("name") or ""
        if name:
            yield from checks.port_name(f"{place}.name", name)
            if name in names:
                yield duplicate(f"{place}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            yield required(f"{place}.containerPort")
        else:
            yield from checks.port_number(f"{place}.containerPort", port["containerPort"])
        if port.get("hostPort"):
            yield from checks.port_number(f"{place}.hostPort", port["hostPort"])
        yield from checks.protocol(f"{place}.protocol", port.get("protocol") or "TCP")


def _variables(field: str, variables: Sequence[Object]) -> Iterator[FieldError]:
    for index, variable in enumerate(variables):
        name = variable.get("name") or ""
        if not checks.is_variable_name(name):
            yield from checks.variable_name(f"{field}[{index}].name", name)
        if (source := variable.get("valueFrom")) is not None:
            yield from _value_source(f"{field}[{index}].valueFrom", source, variable.get("value") or "")


def _value_source(field: str, source: Object, value: str) -> Iterator[FieldError]:
    if not source:
        choice = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield invalid_value(field, "", f"must specify one of: {choice}")
    elif value:
        yield invalid_value(field, "", "may not be specified when `value` is not empty")
    elif len(source) > 1:
        yield invalid_value(field, "", "may not have more than one field specified at a time")


def _mounts(field: str, mounts: Sequence[Object], volumes: set[str]) -> Iterator[FieldError]:
    paths: set[str] = set()
    for index, mount in enumerate(mounts):
        name, path, place = mount.get("name") or "", mount.get("mountPath") or "", f"{field}[{index}]"
        if not name:
            yield required(f"{place}.name")
        if name not in volumes:
            yield not_found(f"{place}.name", name)
        if not path:
            yield required(f"{place}.mountPath")
        if path in paths:
            yield invalid_value(f"{place}.mountPath", path, "must be unique")
        paths.add(path)
        yield from _sub_paths(field, place, mount)


def _sub_paths(field: str, place: str, mount: Object) -> Iterator[FieldError]:
    """Problems of the part of a volume that is mounted; variables in it are checked when they are known."""
    part, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    if part:
        yield from path_problems(f"{field}.subPath", part, descending)
    if expression:
        if part:
            sentence = "subPathExpr and subPath are mutually exclusive"
            yield invalid_value(f"{place}.subPathExpr", expression, sentence)
        yield from path_problems(f"{field}.subPathExpr", expression, descending)


def _resources(field: str, resources: Object) -> Iterator[FieldError]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for key, amount in amounts.items():
            if parse_quantity(amount).nanos < 0:
                sentence = "must be greater than or equal to 0"
                yield invalid_value(f"{field}.{kind}[{key}]", str(amount), sentence)
    for key, amount in requests.items():
        if key in limits:
            yield from _request(f"{field}.requests", key, amount, limits[key])
        elif not _may_overcommit(key):
            yield required(f"{field}.limits", "Limit must be set for non overcommitable resources")


def _request(field: str, key: str, amount: Any, limit: Any) -> Iterator[FieldError]:
    asked, most = parse_quantity(amount).nanos, parse_quantity(limit).nanos
    if asked != most and not _may_overcommit(key):
        yield invalid_value(field, str(amount), f"must be equal to {key} limit of {limit}")
    elif asked > most:
        yield invalid_value(field, str(amount), f"must be less than or equal to {key} limit of {limit}")


def _may_overcommit(key: str) -> bool:
    return key in _NATIVE or "kubernetes.io/" in key


def _host_ports(field: str, containers: Sequence[Object]) -> Iterator[FieldError]:
    """Ports of the node that two containers want."""
    taken: set[tuple[Any, ...]] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            wanted = (port.get("protocol"), port.get("hostIP"), port["hostPort"])
            if wanted in taken:
                text = f"{port.get('hostIP', '')}/{port.get('protocol')}/{port['hostPort']}".lstrip("/")
                yield duplicate(f"{field}[{index}].ports[{number}].hostPort", text)
            taken.add(wanted)


def _at_start(field: str, container: Object) -> Iterator[FieldError]:
    if container.get("restartPolicy") == "Always":
        return
    for each in _NOT_AT_START:
        if container.get(each) is not None:
            sentence = "may not be set for init containers without restartPolicy=Always"
            yield forbidden_value(f"{field}.{each}", sentence)


def _rest(spec: Object) -> Iterator[FieldError]:
    yield from checks.one_of("spec.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    yield from checks.one_of("spec.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    for key, value in (spec.get("nodeSelector") or {}).items():
        for problem in formats.label_key(key):
            yield invalid_value("spec.nodeSelector", key, problem)
        for problem in formats.label_value(value):
            yield invalid_value("spec.nodeSelector", value, problem)
    for field in ("serviceAccountName", "nodeName", "priorityClassName"):
        if spec.get(field):
            yield from checks.subdomain(f"spec.{field}", spec[field])
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds <= _MOST_SECONDS:
        sentence = f"must be between 1 and {_MOST_SECONDS}, inclusive"
        yield invalid_value("spec.activeDeadlineSeconds", seconds, sentence)
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            yield from checks.label_name(f"spec.{field}", spec[field])
