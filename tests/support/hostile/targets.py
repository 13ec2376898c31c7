"""Where requests go: every kind that is served, with a valid object of each, and paths that name nothing."""

import functools
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

import yaml

from bireme.apiserver.kinds import CORE, OURS
from support.core_objects import CoreObjects
from support.custom_kinds import GROUP, Generator, build_crd
from support.custom_schemas import SCHEMAS
from support.hostile import odd

Object = dict[str, Any]
SPACE = "hostile"
NODE = "n0"
NAMES = ("o0", "o1", "o2", "o3")
_EXAMPLES = Path(__file__).parents[3] / "examples"
_SUBRESOURCES = (
    "status",
    "scale",
    "log",
    "exec",
    "attach",
    "portforward",
    "binding",
    "eviction",
    "finalize",
    "x",
)
_REVIEWS = (
    "authorization.k8s.io/v1/selfsubjectaccessreviews", "authorization.k8s.io/v1/selfsubjectrulesreviews",
    "authorization.k8s.io/v1/subjectaccessreviews", "authentication.k8s.io/v1/selfsubjectreviews",
    "authentication.k8s.io/v1/tokenreviews",
    f"authorization.k8s.io/v1/namespaces/{SPACE}/localsubjectaccessreviews",
)  # fmt: skip
_DOCUMENTS = (
    "/", "/api", "/apis", "/api/v1", "/version", "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v2",
    "/metrics", "/apis/apps/v1", "/apis/coordination.k8s.io", "/openapi/v3/apis/coordination.k8s.io/v1",
    "/readyz", "/livez/ping", "/api/v1/watch/pods", "/debug/pprof", "/logs",
    "/.well-known/openid-configuration", "*",
)  # fmt: skip


class Target(NamedTuple):
    """A kind and the path of its collection."""

    kind: str
    collection: str
    plural: str

    @property
    def is_precious(self) -> bool:
        """Whether a deletion of all of them would leave nothing to shoot at."""
        return self.plural in ("customresourcedefinitions", "namespaces")


def _target(group: str, version: str, plural: str, kind: str, *, namespaced: bool) -> Target:
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return Target(kind, f"{root}/namespaces/{SPACE}/{plural}" if namespaced else f"{root}/{plural}", plural)


CORE_TARGETS = tuple(
    _target(kind.group, kind.version, kind.plural, kind.kind, namespaced=kind.namespaced) for kind in CORE
)
OUR_TARGETS = tuple(
    _target(kind.group, kind.version, kind.plural, kind.kind, namespaced=kind.namespaced) for kind in OURS
)
CUSTOM_TARGETS = tuple(_target(GROUP, "v1", name, name.capitalize(), namespaced=False) for name in SCHEMAS)
TARGETS = (*CORE_TARGETS, *OUR_TARGETS, *CUSTOM_TARGETS)


def valid(random: Random, target: Target, name: str) -> Object:
    """An object that the server takes, or nearly."""
    seed = random.randrange(1 << 30)
    if target in CUSTOM_TARGETS:
        made = Generator(seed).obj(
            f"{GROUP}/v1", target.kind, SCHEMAS[target.plural], wrong=random.choice([0, 0.05])
        )
        return made | {"metadata": {"name": name}}
    if target in OUR_TARGETS:
        return _ours(target, random) | {"metadata": {"name": name}}
    if target.kind == "CustomResourceDefinition":
        plural = random.choice(list(SCHEMAS))
        return build_crd(plural, SCHEMAS[plural])
    core = CoreObjects(seed).make(target.kind, name)
    return core | ({"involvedObject": {"namespace": SPACE}} if target.kind == "Event" else {})


def _ours(target: Target, random: Random) -> Object:
    group, version = target.collection.split("/")[2:4]
    said = (f"{group}/{version}", target.kind)
    found = [each for each in _examples() if (each["apiVersion"], each["kind"]) == said]
    return random.choice(found) if found else {"kind": target.kind, "spec": {}}


@functools.cache
def _examples() -> list[Object]:
    return [
        each
        for path in sorted(_EXAMPLES.glob("*.yaml"))
        for each in yaml.safe_load_all(path.read_text())
        if each
    ]


def name(random: Random) -> str:
    """Most often one that may be there."""
    chance = random.random()
    if chance < 0.7:
        return random.choice(NAMES)
    return f"n{random.randrange(1000)}" if chance < 0.9 else odd.text(random)


def path(random: Random, target: Target) -> str:
    """A path that is encoded as it must be, to something or nothing."""
    match random.randrange(20):
        case 0:
            return random.choice(_DOCUMENTS)
        case 1:
            return f"/apis/{random.choice(_REVIEWS)}"
        case 2:
            pieces = [quote(odd.text(random), safe="") for _ in range(random.randrange(1, 9))]
            return "/" + "/".join([*random.choice([["api", "v1"], ["apis"], []]), *pieces])
        case 3:
            return _twisted(random, target.collection)
        case 4 | 5:
            return target.collection
        case 6 | 7:
            return f"{target.collection}/{name_of(random, target)}/{random.choice(_SUBRESOURCES)}"
    return f"{target.collection}/{name_of(random, target)}"


def name_of(random: Random, target: Target) -> str:
    if target.kind == "CustomResourceDefinition":
        return f"{random.choice(list(SCHEMAS))}.{GROUP}"
    if target.kind == "Namespace" and random.random() < 0.03:
        return SPACE
    return quote(name(random), safe="")


def _twisted(random: Random, path: str) -> str:
    """A path written in a way that careless code reads differently."""
    place = random.randrange(len(path))
    inserts = (
        "/",
        "//",
        "/./",
        "/../",
        "%2f",
        "%2F",
        "%00",
        "%",
        "%zz",
        "%ff",
        "%c0%af",
        ";a=b",
        "%25",
        "+",
        "%20",
    )
    twists = (
        path[:place] + random.choice(inserts) + path[place:],
        path + "/",
        path * random.choice([2, 20, 300]),
        path.upper(),
        "".join(f"%{ord(letter):02x}" if random.random() < 0.3 else letter for letter in path),
        f"https://localhost{path}",
        path.replace(SPACE, ""),
        path.replace("/v1", "/v2"),
    )
    return random.choice(twists)
