"""What is served: the answers below /api and /apis by which clients find their way, and /version.

The reviews of access (`reviews`) are served beside whatever kinds there are. Where the answers differ from a
kube-apiserver's (1.36): resources are sorted by name, also those of a CRD; there are no storage version
hashes, nor addresses by client; the old form of aggregated discovery, v2beta1, is answered too.
"""

import platform
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from bireme.api.kubernetes import kubernetes_version
from bireme.apiserver.kinds import Kind
from bireme.apiserver.reviews import REVIEWS
from bireme.apiserver.rules import Object

V2: Final = "v2"
V2_BETA: Final = "v2beta1"
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_WRITTEN: Final = ("get", "patch", "update")
_CONNECTED: Final = ("create", "get")
# Of two groups that both know a word, clients take the first.
_GROUP_ORDER: Final = (
    "authentication.k8s.io",
    "authorization.k8s.io",
    "rbac.authorization.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
)
_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


class Type(NamedTuple):
    """A kind that is not that of its group and version; `definition` names its schema, if it has one."""

    group: str
    version: str
    kind: str
    definition: str = ""


class Resource(NamedTuple):
    """One resource or subresource of a group and version, and what can be done with it."""

    group: str
    version: str
    plural: str
    kind: str
    """Of the resource itself, also for a subresource."""
    verbs: tuple[str, ...]
    namespaced: bool = True
    subresource: str = ""
    type: Type | None = None
    """What a subresource takes and gives, where that is not the kind itself."""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    custom: bool = False

    @property
    def name(self) -> str:
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


_SUBRESOURCES: Final[dict[str, tuple[tuple[str, ...], Type | None]]] = {
    "attach": (_CONNECTED, Type("", "v1", "PodAttachOptions")),
    "binding": (("create",), Type("", "v1", "Binding", "io.k8s.api.core.v1.Binding")),
    "eviction": (("create",), Type("policy", "v1", "Eviction", "io.k8s.api.policy.v1.Eviction")),
    "exec": (_CONNECTED, Type("", "v1", "PodExecOptions")),
    "finalize": (("update",), None),
    "log": (("get",), None),
    "portforward": (_CONNECTED, Type("", "v1", "PodPortForwardOptions")),
}


def served(kinds: Sequence[Kind], group: str, version: str) -> list[Resource]:
    """The resources of a group and version, sorted by name; none where it is not served."""
    found = (resource for kind in (*REVIEWS, *kinds) for resource in _resources(kind))
    return sorted(
        (each for each in found if (each.group, each.version) == (group, version)),
        key=lambda resource: resource.name,
    )


def _resources(kind: Kind) -> Iterator[Resource]:
    main = Resource(
        kind.group, kind.version, kind.plural, kind.kind, _verbs(kind), kind.namespaced, custom=kind.custom
    )
    yield main._replace(
        singular=kind.singular or kind.kind.lower(), short_names=kind.short_names, categories=kind.categories
    )
    for subresource in (*kind.subresources, *(("status",) if kind.has_status else ())):
        verbs, type_ = _SUBRESOURCES.get(subresource, (_WRITTEN, None))
        yield main._replace(subresource=subresource, verbs=verbs, type=type_)


def _verbs(kind: Kind) -> tuple[str, ...]:
    if kind in REVIEWS:
        return ("create",)
    if kind.custom:
        return _CUSTOM_VERBS
    # Nobody may delete all namespaces at once.
    left_out = "deletecollection" if kind.resource == "namespaces" else ""
    return tuple(verb for verb in _VERBS if verb != left_out)


def group_versions(kinds: Sequence[Kind]) -> dict[str, list[str]]:
    """The versions of each group, the preferred first; the core group is the empty one."""
    found: dict[str, set[str]] = {}
    for kind in (*REVIEWS, *kinds):
        found.setdefault(kind.group, set()).add(kind.version)
    return {name: sorted(found[name], key=_preference) for name in sorted(found, key=_group_place)}


def _group_place(name: str) -> tuple[int, str]:
    return (_GROUP_ORDER.index(name) if name in _GROUP_ORDER else len(_GROUP_ORDER), name)


def _preference(version: str) -> tuple[int, int, int, str]:
    """Stable before beta before alpha, the newest first; what is no such version last."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    stability = (None, "beta", "alpha").index(match[2])
    return (stability, -int(match[1]), -int(match[3] or 0), version)


def api_versions() -> Object:
    """/api"""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups(kinds: Sequence[Kind]) -> Object:
    """/apis"""
    found = [_group(name, versions) for name, versions in group_versions(kinds).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def group(kinds: Sequence[Kind], name: str) -> Object | None:
    """/apis/NAME; the core group has no such path."""
    versions = group_versions(kinds).get(name)
    if not name or versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def _group(name: str, versions: Iterable[str]) -> Object:
    found = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": found, "preferredVersion": found[0]}


def resources(kinds: Sequence[Kind], group: str, version: str) -> Object | None:
    """/api/v1, where the group is empty, or /apis/GROUP/VERSION"""
    found = served(kinds, group, version)
    if not found:
        return None
    head = {"kind": "APIResourceList"} if not group else {"kind": "APIResourceList", "apiVersion": "v1"}
    name = f"{group}/{version}" if group else version
    return {**head, "groupVersion": name, "resources": [_resource(each) for each in found]}


def _resource(resource: Resource) -> Object:
    made: Object = {"name": resource.name, "singularName": resource.singular}
    made["namespaced"] = resource.namespaced
    if resource.type and resource.type.group:
        made |= {"group": resource.type.group, "version": resource.type.version}
    made["kind"] = resource.type.kind if resource.type else resource.kind
    return made | {"verbs": list(resource.verbs)} | _words(resource)


def _words(resource: Resource) -> Object:
    """Other names of a resource, where it has any."""
    words = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {key: value for key, value in words.items() if value}


def aggregated(kinds: Sequence[Kind], *, core: bool, version: str) -> Object:
    """All of /api or /apis in one answer; `version` is V2 or V2_BETA."""
    wanted = [(name, found) for name, found in group_versions(kinds).items() if core is (name == "")]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_aggregated_group(kinds, name, versions) for name, versions in wanted],
    }


def _aggregated_group(kinds: Sequence[Kind], name: str, versions: Iterable[str]) -> Object:
    return {
        "metadata": {"name": name} if name else {},
        "versions": [
            {
                "version": version,
                "resources": list(_aggregated_resources(served(kinds, name, version))),
                "freshness": "Current",
            }
            for version in versions
        ],
    }


def _aggregated_resources(found: Sequence[Resource]) -> Iterator[Object]:
    for resource in found:
        if resource.subresource:
            continue
        made: Object = {"resource": resource.plural, "responseKind": _response_kind(resource)}
        made["scope"] = "Namespaced" if resource.namespaced else "Cluster"
        made |= {"singularResource": resource.singular, "verbs": list(resource.verbs)} | _words(resource)
        below = [each for each in found if each.plural == resource.plural and each.subresource]
        yield made | ({"subresources": [_aggregated_below(each) for each in below]} if below else {})


def _aggregated_below(resource: Resource) -> Object:
    return {
        "subresource": resource.subresource,
        "responseKind": _response_kind(resource),
        "verbs": list(resource.verbs),
    }


def _response_kind(resource: Resource) -> Object:
    """Empty where it is that of the list, but for CRDs: clients fill it in."""
    if resource.type:
        version = resource.type.version if resource.type.group else ""
        return {"group": resource.type.group, "version": version, "kind": resource.type.kind}
    if resource.custom:
        return {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {"group": "", "version": "", "kind": resource.kind}


def version() -> Object:
    """/version: that of the Kubernetes whose API this is. What is no Go program says so where Go is named."""
    kubernetes = kubernetes_version()
    major, minor = kubernetes.removeprefix("v").split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{kubernetes}+bireme",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{_architecture()}",
    }


def _architecture() -> str:
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
