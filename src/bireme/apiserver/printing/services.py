"""Services."""

from datetime import datetime
from typing import Any, Final

from bireme.apiserver.printing.ages import UNKNOWN, age
from bireme.apiserver.printing.fields import created, mapping, name_of, number, objects, text, text_map, texts
from bireme.apiserver.rules import Object

_NONE: Final = "<none>"


def service(obj: Object, now: datetime) -> list[Any]:
    spec = mapping(obj, "spec")
    return [
        name_of(obj),
        text(spec, "type"),
        _cluster_ip(spec),
        _external_ips(spec, mapping(obj, "status")),
        ",".join(_port(each) for each in objects(spec, "ports")) or _NONE,
        age(created(obj), now),
        ",".join(sorted(f"{key}={value}" for key, value in text_map(spec, "selector").items())) or _NONE,
    ]


def _cluster_ip(spec: Object) -> str:
    """The first of them; an object of old times has but the one."""
    return next(iter(texts(spec, "clusterIPs")), text(spec, "clusterIP") or _NONE)


def _external_ips(spec: Object, status: Object) -> str:
    given = texts(spec, "externalIPs")
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or _NONE
        case "LoadBalancer":
            return ",".join(_ingress(status) + given) or "<pending>"
        case "ExternalName":
            return text(spec, "externalName")
    return UNKNOWN


def _ingress(status: Object) -> list[str]:
    """Where a load balancer listens, each once."""
    points = objects(mapping(status, "loadBalancer"), "ingress")
    return sorted({text(each, "ip") or text(each, "hostname") for each in points} - {""})


def _port(port: Object) -> str:
    node_port = number(port, "nodePort")
    shown = f"{number(port, 'port')}:{node_port}" if node_port > 0 else f"{number(port, 'port')}"
    return f"{shown}/{text(port, 'protocol')}"
