"""Which ConfigMaps, Secrets and claims a pod needs before its containers can start."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from bireme.node.containers import roles
from bireme.node.seen import Object

Kind = Literal["ConfigMap", "Secret", "PersistentVolumeClaim"]


class References(msgspec.Struct, frozen=True):
    """Names in the pod's namespace, those that may be missing included."""

    config_maps: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()


class _Reference(NamedTuple):
    kind: Kind
    name: str


def needs(pod: Object) -> References:
    """What a pod's environment and volumes refer to."""
    found = {*_of_environment(pod["spec"]), *_of_volumes(pod)}

    def names(kind: Kind) -> frozenset[str]:
        return frozenset(each.name for each in found if each.kind == kind and each.name)

    return References(names("ConfigMap"), names("Secret"), names("PersistentVolumeClaim"))


def _of_environment(spec: Object) -> Iterator[_Reference]:
    for container, _ in roles(spec):
        for source in container.get("envFrom") or ():
            yield from _named(source, "configMapRef", "secretRef")
        for variable in container.get("env") or ():
            yield from _named(variable.get("valueFrom") or {}, "configMapKeyRef", "secretKeyRef")


def _named(source: Object, config_map: str, secret: str) -> Iterator[_Reference]:
    if given := source.get(config_map):
        yield _Reference("ConfigMap", given.get("name") or "")
    if given := source.get(secret):
        yield _Reference("Secret", given.get("name") or "")


def _of_volumes(pod: Object) -> Iterator[_Reference]:
    for volume in pod["spec"].get("volumes") or ():
        yield from _named(volume, "configMap", "")
        if given := volume.get("secret"):
            yield _Reference("Secret", given.get("secretName") or "")
        if given := volume.get("persistentVolumeClaim"):
            yield _Reference("PersistentVolumeClaim", given["claimName"])
        if "ephemeral" in volume:
            yield _Reference("PersistentVolumeClaim", f"{pod['metadata']['name']}-{volume['name']}")
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from _named(source, "configMap", "secret")
