"""Services. Addresses and ports of nodes are not handed out: a Service has those that it names."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from bireme.apiserver import checks, formats
from bireme.apiserver.checks import duplicate
from bireme.apiserver.errors import FieldError, forbidden_value, invalid_value, required
from bireme.apiserver.rules import Object, Rules

HEADLESS: Final = "None"
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITY_SECONDS: Final = 10_800
_NETWORK: Final = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


class ServiceRules(Rules):
    """The rules of Services."""

    def default(self, new: Object) -> None:
        spec = new.get("spec") or {}
        made = spec | {"type": spec.get("type") or "ClusterIP", **_affinity(spec)}
        if made["sessionAffinity"] == HEADLESS:
            made.pop("sessionAffinityConfig", None)
        if spec.get("ports"):
            made["ports"] = [_port(each) for each in spec["ports"]]
        new["spec"] = made | _policies(made)

    def prepare_create(self, new: Object) -> None:
        new["spec"] = _with_network(new["spec"], {})
        new["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Object, old: Object) -> None:
        before = old["spec"]
        spec = _with_node_ports(_in_step(_with_addresses(new["spec"], before), before), before)
        spec = _with_network(spec, before)
        new["spec"] = _without_outdated(spec, before)
        if spec["type"] != "LoadBalancer":
            new["status"] = (old.get("status") or {}) | {"loadBalancer": {}}

    def prepare_status(self, new: Object, old: Object) -> None:  # noqa: ARG002
        status = new.get("status") or {}
        balancer = status.get("loadBalancer") or {}
        if new["spec"]["type"] == "LoadBalancer" and balancer.get("ingress"):
            balancer = balancer | {"ingress": [_ingress(each) for each in balancer["ingress"]]}
        new["status"] = status | {"loadBalancer": balancer}

    def problems(self, new: Object, old: Object | None) -> list[FieldError]:
        return [] if old is None else list(_changes(new["spec"], old["spec"]))

    def content_problems(self, new: Object, old: Object | None) -> list[FieldError]:  # noqa: ARG002
        return list(_spec_problems(new["spec"]))

    def status_problems(self, new: Object, old: Object) -> list[FieldError]:  # noqa: ARG002
        if new["spec"]["type"] != "LoadBalancer" and new["status"]["loadBalancer"].get("ingress"):
            sentence = "may only be used when `spec.type` is 'LoadBalancer'"
            return [forbidden_value("status.loadBalancer.ingress", sentence)]
        return []


def _affinity(spec: Object) -> Object:
    affinity = spec.get("sessionAffinity") or HEADLESS
    if affinity != "ClientIP":
        return {"sessionAffinity": affinity}
    config = spec.get("sessionAffinityConfig") or {}
    if (config.get("clientIP") or {}).get("timeoutSeconds") is None:
        config = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
    return {"sessionAffinity": affinity, "sessionAffinityConfig": config}


def _port(port: Object) -> Object:
    made = port | {"protocol": port.get("protocol") or "TCP"}
    return made if made.get("targetPort") else made | {"targetPort": port.get("port")}


def _policies(spec: Object) -> Object:
    """How traffic goes, by the type of a Service."""
    made: Object = {}
    if _is_external(spec) and not spec.get("externalTrafficPolicy"):
        made["externalTrafficPolicy"] = "Cluster"
    if spec.get("internalTrafficPolicy") is None and spec["type"] in _TYPES and _has_address(spec):
        made["internalTrafficPolicy"] = "Cluster"
    if spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is None:
        made["allocateLoadBalancerNodePorts"] = True
    return made


def _is_external(spec: Object) -> bool:
    return spec["type"] in ("LoadBalancer", "NodePort") or bool(
        spec["type"] == "ClusterIP" and spec.get("externalIPs")
    )


def _has_address(spec: Object) -> bool:
    return bool(spec["type"] != "ExternalName")


def _ingress(ingress: Object) -> Object:
    return ingress | {"ipMode": "VIP"} if ingress.get("ip") and ingress.get("ipMode") is None else ingress


# ---- addresses


def _with_addresses(spec: Object, old: Object) -> Object:
    """A spec that keeps its addresses, where it names none."""
    if not (_has_address(spec) and _has_address(old)):
        return spec
    fields = ("clusterIP", "clusterIPs")
    return spec | {field: old[field] for field in fields if not spec.get(field) and old.get(field)}


def _with_network(spec: Object, old: Object) -> Object:
    """A spec with what follows from the addresses that it names; the cluster speaks IPv4."""
    if not _has_address(spec):
        return spec
    address = spec.get("clusterIP")
    addresses: Sequence[str] = spec.get("clusterIPs") or ([address] if address else [])
    usual = "RequireDualStack" if _is_open(spec) else "SingleStack"
    policy = spec.get("ipFamilyPolicy") or old.get("ipFamilyPolicy") or usual
    families = list(spec.get("ipFamilies") or ())
    if policy == "SingleStack" and families == old.get("ipFamilies"):
        families = families[:1]
    named = [each for each in addresses if each != HEADLESS]
    families += [_family(each) for each in named[len(families) :]]
    families = families or ["IPv4"]
    if _is_open(spec) and len(families) == 1 and policy != "SingleStack":
        families.append("IPv6" if families == ["IPv4"] else "IPv4")
    network = {"clusterIPs": list(addresses)} if addresses else {}
    return spec | network | {"ipFamilyPolicy": policy, "ipFamilies": families}


def _is_open(spec: Object) -> bool:
    """Whether a Service has neither an address nor a selector: somebody else says where it leads."""
    return spec.get("clusterIP") == HEADLESS and not spec.get("selector")


def _family(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def _in_step(spec: Object, old: Object) -> Object:
    """A spec whose `clusterIPs` follow `clusterIP`, where only that one was written."""
    address, before = spec.get("clusterIP") or "", old.get("clusterIP") or ""
    if address == before or (spec.get("clusterIPs") or []) != (old.get("clusterIPs") or []):
        return spec
    return spec | {"clusterIPs": [address] if address else []}


def _with_node_ports(spec: Object, old: Object) -> Object:
    """A spec whose ports keep those of the nodes, where they name none."""
    if not (_has_node_ports(spec) and _has_node_ports(old)):
        return spec
    before = {port.get("name"): port.get("nodePort") for port in old.get("ports") or ()}
    used = set(before.values()) & {port.get("nodePort") for port in spec.get("ports") or ()}
    ports = [
        port | {"nodePort": known}
        if not port.get("nodePort") and (known := before.get(port.get("name"))) and known not in used
        else port
        for port in spec.get("ports") or ()
    ]
    kept = {}
    if _has_health_port(spec) and _has_health_port(old) and not spec.get("healthCheckNodePort"):
        kept = {key: old[key] for key in ("healthCheckNodePort",) if key in old}
    return spec | ({"ports": ports} if ports else {}) | kept


def _has_node_ports(spec: Object) -> bool:
    allocates = spec.get("allocateLoadBalancerNodePorts") is not False
    return bool(spec["type"] == "NodePort" or (spec["type"] == "LoadBalancer" and allocates))


def _has_health_port(spec: Object) -> bool:
    return bool(spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local")


def _without_outdated(spec: Object, old: Object) -> Object:
    """A spec without what its new type has no use for, where the writer left it as it was."""
    ends: list[str] = []
    if _has_address(old) and not _has_address(spec):
        ends += _NETWORK
    if _has_health_port(old) and not _has_health_port(spec):
        ends.append("healthCheckNodePort")
    if old["type"] == "LoadBalancer" and spec["type"] != "LoadBalancer":
        ends += ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
    if _is_external(old) and not _is_external(spec):
        ends.append("externalTrafficPolicy")
    left = {key: value for key, value in spec.items() if key not in ends or value != old.get(key)}
    if _has_node_ports(old) and not _has_node_ports(spec) and _node_ports(spec) == _node_ports(old):
        return left | _without_node_ports(left)
    return left


def _without_node_ports(spec: Object) -> Object:
    ports = [
        {key: value for key, value in port.items() if key != "nodePort"} for port in spec.get("ports") or ()
    ]
    return {"ports": ports} if ports else {}


def _node_ports(spec: Object) -> list[Any]:
    return [port.get("nodePort") for port in spec.get("ports") or ()]


# ---- what is refused


def _spec_problems(spec: Object) -> Iterator[FieldError]:
    headless = spec.get("clusterIPs") == [HEADLESS]
    ports: Sequence[Object] = spec.get("ports") or ()
    if not ports and not headless and _has_address(spec):
        yield required("spec.ports")
    if headless and spec["type"] in ("LoadBalancer", "NodePort"):
        sentence = f"may not be set to 'None' for {spec['type']} services"
        yield invalid_value("spec.clusterIPs[0]", HEADLESS, sentence)
    if not _has_address(spec):
        yield from _external_name(spec)
    if _has_address(spec) and spec.get("ipFamilyPolicy") == "RequireDualStack" and not _is_open(spec):
        sentence = "this cluster is not configured for dual-stack services"
        yield invalid_value("spec.ipFamilyPolicy", "RequireDualStack", sentence)
    yield from _port_problems(ports)
    for key, value in (spec.get("selector") or {}).items():
        for problem in formats.label_key(key):
            yield invalid_value("spec.selector", key, problem)
        for problem in formats.label_value(value):
            yield invalid_value("spec.selector", value, problem)
    yield from checks.one_of("spec.sessionAffinity", spec["sessionAffinity"], ("ClientIP", "None"))
    yield from checks.one_of("spec.type", spec["type"], _TYPES)
    yield from _node_port_problems(spec, ports)


def _external_name(spec: Object) -> Iterator[FieldError]:
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            yield forbidden_value(f"spec.{field}", "may not be set for ExternalName services")
    name = (spec.get("externalName") or "").removesuffix(".")
    if name:
        yield from checks.subdomain("spec.externalName", name)
    else:
        yield required("spec.externalName")


def _port_problems(ports: Sequence[Object]) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        field, name = f"spec.ports[{index}]", port.get("name") or ""
        if name or len(ports) > 1:
            yield from checks.label_name(f"{field}.name", name)
        if name in names:
            yield duplicate(f"{field}.name", name)
        if name:
            names.add(name)
        yield from checks.port_number(f"{field}.port", port.get("port") or 0)
        yield from checks.protocol(f"{field}.protocol", port["protocol"])
        yield from checks.port_number_or_name(f"{field}.targetPort", port["targetPort"] or 0)


def _node_port_problems(spec: Object, ports: Sequence[Object]) -> Iterator[FieldError]:
    seen: list[Object] = []
    for index, port in enumerate(ports):
        if spec["type"] == "ClusterIP" and port.get("nodePort"):
            sentence = "may not be used when `type` is 'ClusterIP'"
            yield forbidden_value(f"spec.ports[{index}].nodePort", sentence)
        key = {"protocol": port["protocol"], "port": port.get("port") or 0, "targetPort": 0}
        if key in seen:
            yield duplicate(f"spec.ports[{index}]", key)
        seen.append(key)


def _changes(new: Object, old: Object) -> Iterator[FieldError]:
    """An address stays, but for Services that get or lose their need for one."""
    if not _has_address(new) or not _has_address(old):
        return
    balancer = new.get("loadBalancerClass")
    if new["type"] == old["type"] == "LoadBalancer" and balancer != old.get("loadBalancerClass"):
        yield invalid_value("spec.loadBalancerClass", balancer, "may not change once set")
    before, after = old.get("clusterIPs") or [], new.get("clusterIPs") or []
    if before and not after:
        yield invalid_value("spec.clusterIPs[0]", after, "primary clusterIP can not be unset")
    elif (before and before[0] != after[0]) or (not before and after == [HEADLESS]):
        # Where there is no address yet, a real server would have given one.
        yield invalid_value("spec.clusterIPs[0]", after, "may not change once set")
