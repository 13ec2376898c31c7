"""Rules for GenericJob."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bireme.admission import run_mode
from bireme.admission.metadata import check_derived_names
from bireme.admission.pods import check_template, containers_of
from bireme.admission.problems import Findings
from bireme.admission.queueing import is_queued
from bireme.admission.total_size import ReplicaSize, check_total_size
from bireme.admission.words import describe, join
from bireme.api.generic import FinishRule, GenericJob, GenericJobSpec, ServicePort
from bireme.api.job import MAX_REPLICAS
from bireme.api.names import is_dns_1123, is_qualified_name, pod_name
from bireme.api.paths import Path
from bireme.api.variables import Host, Port, Replicas, Variable, find_variables

_SPEC: Path = ("spec",)
_REPLICA_SPECS: Path = ("spec", "replicaSpecs")


def check(job: GenericJob, out: Findings) -> None:
    """Report every problem that the schema can't."""
    spec = job.spec
    counts = {replica.type: replica.replicas for replica in spec.replica_specs}
    _check_counts(spec, out)
    own = job.metadata.name or job.metadata.generate_name
    check_derived_names(
        job.metadata,
        (pod_name(own, replica.type, max(replica.replicas - 1, 0)) for replica in spec.replica_specs),
        out,
    )
    check_total_size(
        (
            ReplicaSize(
                (replica.template, spec.run_mode), replica.replicas, (*_REPLICA_SPECS, index, "template")
            )
            for index, replica in enumerate(spec.replica_specs)
        ),
        out,
    )
    for index, replica in enumerate(spec.replica_specs):
        where = (*_REPLICA_SPECS, index, "template")
        check_template(replica.template, where, out, queued=is_queued(spec.scheduler))
    for field, rules in (("successRules", spec.success_rules), ("failureRules", spec.failure_rules)):
        for index, rule in enumerate(rules):
            _check_rule(rule, counts, ("spec", field, index), out)
    if spec.service is not None:
        _check_service_ports(spec.service.ports, ("spec", "service", "ports"), out)
    _check_variables(spec, counts, out)
    run_mode.check(spec.run_mode, counts, out)
    _check_clean_up(spec, counts, out)


def _check_clean_up(spec: GenericJobSpec, counts: Mapping[str, int], out: Findings) -> None:
    """Warn where the job can end while replicas run, and nothing says what happens to them.

    Without failure rules one failure ends the job; without success rules all replicas have ended.
    """
    total = sum(counts.values())
    sizes = [sum(map(len, rule.values())) for rule in (*spec.success_rules, *spec.failure_rules)]
    if not spec.failure_rules:
        sizes.append(1)
    if spec.clean_up_policy is None and any(size < total for size in sizes):
        out.warn(
            ("spec", "cleanUpPolicy"),
            "pods-left-running",
            "not set: replicas that run when the job ends go on running",
            hint="set it to Unfinished or All, or to None to keep them without this warning",
        )


def _check_counts(spec: GenericJobSpec, out: Findings) -> None:
    total = sum(replica.replicas for replica in spec.replica_specs)
    if spec.replica_specs and total == 0:
        out.error(_REPLICA_SPECS, "too-few", "a job needs at least one replica", hint="raise `replicas`")
    if total > MAX_REPLICAS:
        message = f"{total} replicas in all are too many: at most {MAX_REPLICAS}"
        out.error(_REPLICA_SPECS, "too-many", message, value=total, hint="split the job")


def _check_rule(rule: FinishRule, counts: Mapping[str, int], path: Path, out: Findings) -> None:
    for name, indices in rule.items():
        where = (*path, name)
        if name not in counts:
            near = out.guess(name, counts)
            hint = f"did you mean `{near}`?" if near else f"known types: {join(counts)}" if counts else None
            message = f"no replica type is named {describe(name)}"
            out.error(where, "unknown-type", message, value=name, hint=hint, at_key=True)
            continue
        seen: set[int] = set()
        for position, index in enumerate(indices):
            if index >= counts[name]:
                message = f"there is no replica {index} of `{name}`: it has {counts[name]}"
                hint = f"use 0 to {counts[name] - 1}" if counts[name] else f"raise the replicas of `{name}`"
                out.error((*where, position), "unknown-index", message, value=index, hint=hint)
            elif index in seen:
                out.error((*where, position), "duplicate", f"{index} is there already", value=index)
            seen.add(index)


def _check_service_ports(ports: Sequence[ServicePort], path: Path, out: Findings) -> None:
    if not ports:
        out.error(path, "too-few", "a service needs at least one port", hint="add one, or remove `service`")
    numbers: dict[tuple[int, str], int] = {}
    names: dict[str, int] = {}
    for index, port in enumerate(ports):
        where = (*path, index)
        _check_service_port(port, where, out, only=len(ports) == 1)
        key = (port.port, port.protocol)
        if key in numbers:
            message = f"port {port.port} is there already, at [{numbers[key]}]"
            out.error((*where, "port"), "duplicate", message, value=port.port, hint="remove one of the two")
        numbers.setdefault(key, index)
        if port.name and port.name in names:
            message = f"{describe(port.name)} is there already, at [{names[port.name]}]"
            out.error((*where, "name"), "duplicate", message, value=port.name)
        names.setdefault(port.name, index)


def _check_service_port(port: ServicePort, path: Path, out: Findings, *, only: bool) -> None:
    if not port.name and not only:
        out.error((*path, "name"), "required", "several ports need names", hint="name each of them")
    if port.name and not is_dns_1123(port.name):
        message = f"{describe(port.name)} is not a DNS label"
        hint = "use lower-case letters, digits and `-`"
        out.error((*path, "name"), "port-name", message, value=port.name, hint=hint)
    if port.target_port is not None and port.target_port != port.port:
        out.error(
            (*path, "targetPort"),
            "target-port",
            f"{describe(port.target_port)} differs from port {port.port}: replicas are reached directly",
            value=port.target_port,
            hint="remove it, and let the program listen on `port`",
        )
    if port.app_protocol and not is_qualified_name(port.app_protocol):
        message = f"{describe(port.app_protocol)} is not a protocol's name"
        hint = "use a name such as http, or one with a prefix such as example.com/proto"
        out.error((*path, "appProtocol"), "label-key", message, value=port.app_protocol, hint=hint)
    if port.node_port is not None:
        message = "these services have no address of their own, so there is no node port"
        out.error(
            (*path, "nodePort"), "node-port", message, value=port.node_port, hint="remove it", at_key=True
        )


def _check_variables(spec: GenericJobSpec, counts: Mapping[str, int], out: Findings) -> None:
    for text, path in _texts(spec):
        for name, variable in find_variables(text):
            _check_variable(name, variable, text, spec, counts, path, out)


def _texts(spec: GenericJobSpec) -> Iterator[tuple[str, Path]]:
    """Every text in which variables are replaced."""
    for index, replica in enumerate(spec.replica_specs):
        pod = replica.template.get("spec") or {}
        for container, path in containers_of(pod, (*_REPLICA_SPECS, index, "template", "spec")):
            yield from _container_texts(container, path)
    mode = spec.run_mode
    if mode is not None and mode.debug is not None:
        for index, debug in enumerate(mode.debug.replica_specs):
            yield from _list_texts(
                debug.command, ("spec", "runMode", "debug", "replicaSpecs", index, "command")
            )
    if mode is not None and mode.pause is not None:
        for index, resume in enumerate(mode.pause.resume_specs):
            path = ("spec", "runMode", "pause", "resumeSpecs", index)
            yield from _list_texts(resume.command, (*path, "command"))
            yield from _list_texts(resume.args, (*path, "args"))


def _container_texts(container: Mapping[str, Any], path: Path) -> Iterator[tuple[str, Path]]:
    yield from _list_texts(container.get("command") or (), (*path, "command"))
    yield from _list_texts(container.get("args") or (), (*path, "args"))
    for index, variable in enumerate(container.get("env") or ()):
        yield variable.get("value") or "", (*path, "env", index, "value")


def _list_texts(texts: Sequence[str], path: Path) -> Iterator[tuple[str, Path]]:
    for index, text in enumerate(texts):
        yield text, (*path, index)


def _check_variable(
    name: str,
    variable: Variable | None,
    text: str,
    spec: GenericJobSpec,
    counts: Mapping[str, int],
    path: Path,
    out: Findings,
) -> None:
    reason, hint = _why_unresolved(variable, spec, counts, out)
    if reason:
        out.error(path, "variable", f"$({name}) can't be resolved: {reason}", value=text, hint=hint)
    elif variable is None and name.startswith(("service.", "replicas[", "replicas.")):
        message = f"$({name}) is not one of the job's variables and stays as it is"
        forms = "$(replicas[TYPE]), $(service.TYPE[RANK].host) and $(service.port[NAME])"
        out.warn(path, "variable", message, value=text, hint=f"known forms: {forms}")


def _why_unresolved(
    variable: Variable | None, spec: GenericJobSpec, counts: Mapping[str, int], out: Findings
) -> tuple[str | None, str | None]:
    match variable:
        case Replicas(type_) | Host(type_) if type_ not in counts:
            near = out.guess(type_, counts)
            hint = f"did you mean `{near}`?" if near else f"known types: {join(counts)}"
            return f"no replica type is named {describe(type_)}", hint
        case Host() | Port() if spec.service is None:
            return "the job has no service", "add `spec.service.ports`"
        case Host(type_, rank) if not rank.isdecimal() or int(rank) >= counts[type_]:
            return f"there is no replica {describe(rank)} of `{type_}`: it has {counts[type_]}", None
        case Port(name) if spec.service is not None:
            names = [port.name for port in spec.service.ports]
            if name not in names:
                return f"no service port is named {describe(name)}", f"known ports: {join(names)}"
    return None, None
