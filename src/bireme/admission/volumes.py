"""Rules for the volumes of pod templates, and for where containers mount them.

Paths are checked as kube-apiserver does when the pods are created: too late for the author of a job. Names of
claims, ConfigMaps and Secrets are checked too, which it does not: an object of such a name can't exist.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from bireme.admission.problems import Findings
from bireme.admission.words import describe, join
from bireme.api.names import is_dns_1123, is_dns_subdomain
from bireme.api.paths import Path
from bireme.api.volume_paths import descending, is_file_mode, no_backsteps, unreserved

_NAMES: Final = {"configMap": "name", "secret": "secretName", "persistentVolumeClaim": "claimName"}
_KINDS: Final = {
    "configMap": "ConfigMap",
    "secret": "Secret",
    "persistentVolumeClaim": "PersistentVolumeClaim",
}
_BELOW_VOLUME: Final = "name a place below the volume, such as `data/part`"
_FILE: Final = "name a file below the mount, such as `conf/app.ini`"


def check_volumes(spec: Mapping[str, Any], path: Path, out: Findings) -> set[str]:
    """Check the volumes of a pod; return their names."""
    names: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        name, where = volume.get("name"), (*path, "volumes", index)
        if name is not None and not is_dns_1123(name):
            out.error((*where, "name"), "volume-name", f"{describe(name)} is not a DNS label", value=name)
        elif name in names:
            out.error((*where, "name"), "duplicate", f"another volume is named {describe(name)}", value=name)
        sources = [field for field, value in volume.items() if field != "name" and value is not None]
        if len(sources) > 1:
            message = f"a volume has one source, this one has {len(sources)}: {', '.join(sources)}"
            out.error(where, "one-of", message)
        for source, at in _sources(volume, where):
            _check_source(source, at, out)
        names.add(str(name))
    return names


def _sources(volume: Mapping[str, Any], path: Path) -> Iterator[tuple[Mapping[str, Any], Path]]:
    """The volume, then each part of a projected one."""
    yield volume, path
    projected = volume.get("projected") or {}
    for index, source in enumerate(projected.get("sources") or ()):
        yield source, (*path, "projected", "sources", index)


def _check_source(source: Mapping[str, Any], path: Path, out: Findings) -> None:
    for kind, field in _NAMES.items():
        reference = source.get(kind) or {}
        # A projected Secret is named as a ConfigMap is.
        _check_reference(reference, field if field in reference else "name", (*path, kind), out)
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        inner, where = source.get(kind) or {}, (*path, kind)
        _check_mode(inner, "defaultMode", where, out)
        for index, item in enumerate(inner.get("items") or ()):
            at = (*where, "items", index)
            _check_path(item.get("path"), (*at, "path"), unreserved, _FILE, out)
            _check_mode(item, "mode", at, out)
    token = source.get("serviceAccountToken") or {}
    _check_path(token.get("path"), (*path, "serviceAccountToken", "path"), unreserved, _FILE, out)
    host = (source.get("hostPath") or {}).get("path")
    _check_path(host, (*path, "hostPath", "path"), no_backsteps, "write the path out", out)


def _check_reference(reference: Mapping[str, Any], field: str, path: Path, out: Findings) -> None:
    name = reference.get(field)
    if name and not is_dns_subdomain(name):
        message = f"no {_KINDS[str(path[-1])]} can be named {describe(name)}"
        hint = "use lower-case letters, digits, `-` and `.`; begin and end with a letter or digit"
        out.error((*path, field), "object-name", message, value=name, hint=hint)


def _check_path(value: Any, path: Path, rule: Callable[[str], list[str]], hint: str, out: Findings) -> None:
    if value is not None:
        for problem in rule(value):
            out.error(path, "volume-path", f"{describe(value)} {problem}", value=value, hint=hint)


def _check_mode(source: Mapping[str, Any], field: str, path: Path, out: Findings) -> None:
    mode = source.get(field)
    if mode is not None and not is_file_mode(mode):
        message = f"{mode} is not a file mode: must be from 0 to 511, which is 0777 in octal"
        out.error((*path, field), "range", message, value=mode)


def check_mounts(container: Mapping[str, Any], path: Path, volumes: set[str], out: Findings) -> None:
    """Check where a container mounts volumes, and which parts of them."""
    places: dict[str, int] = {}
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where = (*path, "volumeMounts", index)
        name, place = mount.get("name"), mount.get("mountPath")
        if name is not None and name not in volumes:
            known = join(f"`{volume}`" for volume in sorted(volumes)) if volumes else None
            hint = f"known volumes: {known}" if known else "add it under `spec.volumes` of the template"
            out.error(
                (*where, "name"),
                "unknown-volume",
                f"no volume is named {describe(name)}",
                value=name,
                hint=hint,
            )
        if place is not None and place in places:
            message = f"{describe(place)} is mounted already, at [{places[place]}]"
            out.error((*where, "mountPath"), "duplicate", message, value=place)
        places.setdefault(place, index)
        _check_mount_paths(mount, where, out)


def _check_mount_paths(mount: Mapping[str, Any], path: Path, out: Findings) -> None:
    place = mount.get("mountPath")
    if place is not None and ":" in place:
        message = f"{describe(place)} must not contain `:`"
        out.error((*path, "mountPath"), "volume-path", message, value=place, hint="choose another path")
    for field in ("subPath", "subPathExpr"):
        _check_path(mount.get(field), (*path, field), descending, _BELOW_VOLUME, out)
    if mount.get("subPath") and mount.get("subPathExpr"):
        hint = "keep one of the two"
        out.error((*path, "subPathExpr"), "one-of", "`subPath` is set already", hint=hint)
