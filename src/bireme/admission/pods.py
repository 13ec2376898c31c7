"""Rules for pod templates that Kubernetes' schema does not hold, but its API server would refuse.

Whoever writes a job must hear of them at once: pods are created later, by a controller.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bireme.admission.metadata import check_labels
from bireme.admission.problems import Findings
from bireme.admission.volumes import check_mounts, check_volumes
from bireme.admission.words import describe, join
from bireme.api.names import is_dns_1123, is_qualified_name
from bireme.api.paths import Path
from bireme.api.quantity import Quantity, QuantityError, parse_quantity
from bireme.api.scheduler import SCHEDULER_NAME
from bireme.api.term_limits import excess_terms

_ENV_NAME: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_PORT_NAME: Final = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")


def check_template(
    template: Mapping[str, Any], path: Path, out: Findings, *, queued: bool = False, may_queue: bool = True
) -> None:
    """Check a pod template that every kind of job uses the same way.

    `queued` says whether the job names a queue, `may_queue` whether its kind can.
    """
    check_labels(template.get("metadata") or {}, (*path, "metadata"), out)
    spec = template.get("spec") or {}
    where = (*path, "spec")
    if not spec.get("containers"):
        out.error((*where, "containers"), "required", "a pod needs at least one container")
    volumes = check_volumes(spec, where, out)
    names: dict[str, Path] = {}
    for container, at in containers_of(spec, where):
        _check_container_name(container, at, names, out)
        _check_container(container, at, volumes, out)
    _check_shared_memory(spec, where, out)
    _check_overridden(spec, where, out, queued=queued, may_queue=may_queue)


def containers_of(spec: Mapping[str, Any], path: Path) -> Iterator[tuple[Mapping[str, Any], Path]]:
    """Init containers and containers, with their paths."""
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield container, (*path, field, index)


def main_container(
    template: Mapping[str, Any], name: str, path: Path, out: Findings
) -> tuple[Mapping[str, Any], Path] | None:
    """Find the container of that name, or the only one; report it if there is neither."""
    containers: Sequence[Mapping[str, Any]] = (template.get("spec") or {}).get("containers") or ()
    where = (*path, "spec", "containers")
    for index, container in enumerate(containers):
        if container.get("name") == name:
            return container, (*where, index)
    if len(containers) == 1:
        return containers[0], (*where, 0)
    if containers:
        names = join(f"`{container.get('name')}`" for container in containers)
        out.error(
            where,
            "main-container",
            f"which of {len(containers)} containers is the main one? none is named `{name}`",
            hint=f"rename {names} to `{name}`",
        )
    return None


def _check_overridden(
    spec: Mapping[str, Any], path: Path, out: Findings, *, queued: bool, may_queue: bool
) -> None:
    policy = spec.get("restartPolicy")
    if policy not in (None, "Never"):
        where = (*path, "restartPolicy")
        hint = "remove it; restarts are set on the job"
        out.warn(where, "overridden", f"{describe(policy)} is replaced by Never", value=policy, hint=hint)
    if not queued:
        if may_queue and spec.get("schedulerName") == SCHEDULER_NAME:
            _refuse_scheduler((*path, "schedulerName"), out)
        return
    for field, why in (
        ("nodeName", "a queued job's pods are placed by its queue"),
        ("resourceClaims", "resource claims can't be queued"),
    ):
        if spec.get(field):
            out.error(
                (*path, field), "queued", why, hint=f"remove `{field}`, or the queue of the job", at_key=True
            )
    for each in excess_terms(spec, path):
        hint = f"keep at most {each.limit}, or remove the queue of the job"
        out.error(each.path, "too-many", each.message, hint=hint, at_key=True)


def _refuse_scheduler(path: Path, out: Findings) -> None:
    """Labels of the template could name any queue, and nobody would ask whether its user may use it."""
    message = f"{SCHEDULER_NAME} places queued jobs only, and this one names no queue"
    hint = "remove it, and set `spec.scheduler.t9kScheduler.queue`"
    out.error(path, "queued", message, value=SCHEDULER_NAME, hint=hint)


def _check_container_name(
    container: Mapping[str, Any], path: Path, names: dict[str, Path], out: Findings
) -> None:
    name = container.get("name")
    if name is None:
        return
    if not is_dns_1123(name):
        hint = "use lower-case letters, digits and `-`; begin and end with a letter or digit"
        out.error(
            (*path, "name"), "container-name", f"{describe(name)} is not a DNS label", value=name, hint=hint
        )
    elif name in names:
        out.error((*path, "name"), "duplicate", f"another container is named {describe(name)}", value=name)
    names.setdefault(name, path)


def _check_container(container: Mapping[str, Any], path: Path, volumes: set[str], out: Findings) -> None:
    if not container.get("image"):
        hint = "the embedded mode ignores it, a cluster needs it"
        out.error((*path, "image"), "required", "a container needs an image", hint=hint)
    check_env(container.get("env") or (), (*path, "env"), out)
    _check_ports(container.get("ports") or (), (*path, "ports"), out)
    check_mounts(container, path, volumes, out)
    check_resources(container.get("resources") or {}, (*path, "resources"), out)


def check_env(env: Sequence[Mapping[str, Any]], path: Path, out: Findings) -> None:
    """Check names of environment variables, and that each has one source."""
    for index, variable in enumerate(env):
        name = variable.get("name")
        if name is not None and not _ENV_NAME.fullmatch(name):
            where = (*path, index, "name")
            hint = "use letters, digits, `_`, `-` and `.`; do not begin with a digit"
            out.error(
                where, "env-name", f"{describe(name)} is not a name of a variable", value=name, hint=hint
            )
        if variable.get("value") and variable.get("valueFrom"):
            out.error(
                (*path, index, "valueFrom"), "one-of", "`value` is set already", hint="keep one of the two"
            )


def _check_ports(ports: Sequence[Mapping[str, Any]], path: Path, out: Findings) -> None:
    numbers: dict[tuple[Any, str], int] = {}
    names: dict[str, int] = {}
    for index, port in enumerate(ports):
        number, name = port.get("containerPort"), port.get("name")
        _check_port_number(number, (*path, index, "containerPort"), out)
        key = (number, port.get("protocol", "TCP"))
        if key in numbers:
            where = (*path, index, "containerPort")
            message = f"port {number} is there already, at [{numbers[key]}]"
            out.error(where, "duplicate", message, value=number, hint="remove one of the two")
        numbers.setdefault(key, index)
        if name is None:
            continue
        if len(name) > 15 or not _PORT_NAME.fullmatch(name):
            hint = "use at most 15 lower-case letters, digits and `-`"
            out.error(
                (*path, index, "name"),
                "port-name",
                f"{describe(name)} is not a port name",
                value=name,
                hint=hint,
            )
        elif name in names:
            message = f"{describe(name)} is there already, at [{names[name]}]"
            out.error((*path, index, "name"), "duplicate", message, value=name)
        names.setdefault(name, index)


def _check_port_number(number: Any, path: Path, out: Findings) -> None:
    if number is not None and not 1 <= number <= 65535:
        out.error(path, "range", f"{number} is out of range: must be from 1 to 65535", value=number)


def check_resources(resources: Mapping[str, Any], path: Path, out: Findings) -> None:
    """Check names and that no request passes its limit."""
    limits = resources.get("limits") or {}
    for group in ("requests", "limits"):
        for name, amount in (resources.get(group) or {}).items():
            where = (*path, group, name)
            quantity = _quantity(amount)
            if not is_qualified_name(name):
                message = f"{describe(name)} is not the name of a resource"
                out.error(where, "resource-name", message, value=name, at_key=True)
            elif quantity is not None and quantity.nanos < 0:
                out.error(where, "range", f"{amount} is negative", value=amount)
            elif group == "requests" and name in limits:
                _check_limit(name, amount, limits[name], where, out)


def _check_limit(name: str, request: Any, limit: Any, path: Path, out: Findings) -> None:
    asked, most = _quantity(request), _quantity(limit)
    if asked is not None and most is not None and asked.nanos > most.nanos:
        message = f"{request} is more than the limit of {limit}"
        out.error(path, "range", message, value=request, hint=f"lower the request or raise limits.{name}")


def _check_shared_memory(spec: Mapping[str, Any], path: Path, out: Findings) -> None:
    """A memory volume counts against the container's limit, which then kills the program that fills it."""
    volumes = {
        volume.get("name"): (index, volume["emptyDir"])
        for index, volume in enumerate(spec.get("volumes") or ())
        if (volume.get("emptyDir") or {}).get("medium") == "Memory"
    }
    for container in spec.get("containers") or ():
        limit = _quantity(((container.get("resources") or {}).get("limits") or {}).get("memory"))
        for mount in container.get("volumeMounts") or ():
            index, volume = volumes.get(mount.get("name"), (0, {}))
            size = _quantity(volume.get("sizeLimit"))
            if limit is not None and size is not None and size.nanos > limit.nanos:
                out.warn(
                    (*path, "volumes", index, "emptyDir", "sizeLimit"),
                    "shm-larger-than-limit",
                    f"{volume['sizeLimit']} of shared memory is more than the memory limit of "
                    f"container `{container.get('name')}`, {limit}",
                    value=volume["sizeLimit"],
                    hint="memory volumes count against the limit: raise limits.memory or lower sizeLimit",
                )


def _quantity(value: Any) -> Quantity | None:
    try:
        return parse_quantity(value) if isinstance(value, str | int | float) else None
    except QuantityError:
        return None
