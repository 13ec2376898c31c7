"""Volumes as folders: what a pod's containers see below their mounts.

ConfigMap, Secret, downwardAPI and projected volumes are written anew, whole and at once, behind a link. An
emptyDir lives with the pod, a claim is a folder that outlives it, a hostPath is itself. Over the folder of an
emptyDir with `medium: Memory`, the pod's shim mounts a tmpfs, in its own mount namespace (`tmpfs_sizes`).
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from bireme.api.quantity import QuantityError, parse_quantity
from bireme.node.downward import field_value, resource_value
from bireme.node.environment import Sources, expand

Manifest = dict[str, Any]

_DATA: Final = "..data"
_MEMORY: Final = "Memory"
_SERVED: Final = (
    "emptyDir",
    "configMap",
    "secret",
    "downwardAPI",
    "projected",
    "hostPath",
    "persistentVolumeClaim",
)


class VolumeError(Exception):
    """A volume can't be made; `is_fatal` says that waiting does not help."""

    def __init__(self, message: str, *, is_fatal: bool = False) -> None:
        super().__init__(message)
        self.is_fatal = is_fatal


class File(NamedTuple):
    path: str
    content: bytes
    mode: int


def tmpfs_sizes(pod: Manifest, allocatable: Mapping[str, str]) -> dict[str, int]:
    """Return the bytes of each emptyDir with `medium: Memory`, by the name of the volume.

    As with a kubelet: the least of sizeLimit, the pod's memory limit, if all its containers have one, and
    the memory of the node.
    """
    volumes = (volume for volume in pod["spec"].get("volumes") or () if is_in_memory(volume))
    bounds = [_bytes(allocatable.get("memory")), _memory_limit(pod["spec"])]
    sizes = {volume["name"]: [_bytes(volume["emptyDir"].get("sizeLimit")), *bounds] for volume in volumes}
    return {name: min((each for each in of_volume if each), default=0) for name, of_volume in sizes.items()}


def is_in_memory(volume: Manifest) -> bool:
    return (volume.get("emptyDir") or {}).get("medium") == _MEMORY


def _memory_limit(spec: Manifest) -> int:
    """The sum of the memory limits of a pod's containers; 0 if one has none."""
    every = spec.get("containers") or ()
    limits = [_bytes(((each.get("resources") or {}).get("limits") or {}).get("memory")) for each in every]
    return sum(limits) if all(limits) else 0


def _bytes(quantity: object) -> int:
    try:
        return 0 if quantity is None else parse_quantity(str(quantity)).units()
    except QuantityError:
        return 0


class Volumes:
    """The volumes of one pod."""

    def __init__(self, pod: Manifest, folder: Path, claims: Path, sources: Sources) -> None:
        self._pod, self._folder, self._claims, self._sources = pod, folder, claims, sources
        self._by_name = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}

    def make_all(self) -> dict[str, Path]:
        """The place of each volume. Raises VolumeError."""
        return {name: self._make(name, volume) for name, volume in self._by_name.items()}

    def _make(self, name: str, volume: Manifest) -> Path:
        kind = next((kind for kind in _SERVED if kind in volume), None)
        if kind is None:
            sorts = ", ".join(key for key in volume if key != "name")
            raise VolumeError(f"volume {name}: {sorts} is not offered without a cluster", is_fatal=True)
        source: Manifest = volume[kind] or {}
        match kind:
            case "emptyDir":
                return self._empty(name)
            case "hostPath":
                return _host_path(name, source)
            case "persistentVolumeClaim":
                return self._claim(source["claimName"])
        place = self._folder / name
        _write_all(place, list(self._files(name, kind, source, source.get("defaultMode", 0o644))))
        return place

    def _empty(self, name: str) -> Path:
        place = self._folder / name
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place

    def _claim(self, name: str) -> Path:
        namespace: str = self._pod["metadata"]["namespace"]
        place = self._claims / namespace / name
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place

    def _files(self, name: str, kind: str, source: Manifest, mode: int) -> Iterator[File]:
        match kind:
            case "configMap":
                data = self._sources.config_map(source["name"])
                yield from _items(f"ConfigMap {source['name']}", data, source, mode)
            case "secret":
                named = source.get("secretName") or source.get("name", "")
                yield from _items(f"Secret {named}", self._sources.secret(named), source, mode)
            case "downwardAPI":
                yield from self._downward(source, mode)
            case "projected":
                for part in source.get("sources") or ():
                    inner = next(iter(part))
                    if inner == "serviceAccountToken":
                        raise VolumeError(
                            f"volume {name}: there are no service account tokens", is_fatal=True
                        )
                    yield from self._files(name, inner, part[inner] or {}, mode)

    def _downward(self, source: Manifest, mode: int) -> Iterator[File]:
        for item in source.get("items") or ():
            if "fieldRef" in item:
                text = field_value(self._pod, item["fieldRef"]["fieldPath"])
            else:
                text = resource_value(
                    self._pod, item["resourceFieldRef"], allocatable=self._sources.allocatable
                )
            yield File(item["path"], text.encode(), item.get("mode", mode))


def part_of(place: Path, mount: Manifest, values: Mapping[str, str]) -> Path:
    """What a mount shows of a volume: all, or a part, which is made where it is missing.

    `values` are the container's variables. Raises VolumeError.
    """
    path = (
        expand([mount["subPathExpr"]], values)[0] if mount.get("subPathExpr") else mount.get("subPath") or ""
    )
    if path.startswith("/") or ".." in Path(path).parts:
        raise VolumeError(f"volume {mount['name']}: {path} is not below it", is_fatal=True)
    part = place / path
    if not part.exists():
        try:
            part.mkdir(mode=0o755, parents=True)
        except OSError as error:
            raise VolumeError(f"volume {mount['name']}: {path}: {error.strerror}") from error
    return part


def _items(what: str, data: Mapping[str, bytes] | None, source: Manifest, mode: int) -> Iterator[File]:
    """All keys as files, or those that are listed."""
    if data is None:
        if source.get("optional"):
            return
        raise VolumeError(f"{what} is not there")
    if not source.get("items"):
        for key, content in data.items():
            yield File(key, content, mode)
        return
    for item in source["items"]:
        if item["key"] in data:
            yield File(item["path"], data[item["key"]], item.get("mode", mode))
        elif not source.get("optional"):
            raise VolumeError(f"{what} has no key {item['key']}")


def _host_path(name: str, source: Manifest) -> Path:
    path, kind = Path(source["path"]), source.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch(exist_ok=True)
    elif kind in ("Directory", "File") and not (path.is_dir() if kind == "Directory" else path.is_file()):
        raise VolumeError(f"volume {name}: hostPath {path} is not a {kind.lower()}")
    elif not path.exists():
        raise VolumeError(f"volume {name}: hostPath {path} is not there")
    return path


def _write_all(place: Path, files: list[File]) -> None:
    """Put all files in place at once, as a kubelet does: behind a link that is moved."""
    place.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix="..", dir=place))
    new.chmod(0o755)
    for file in files:
        target = new / file.path
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(file.mode)
    data = place / _DATA
    before = data.readlink() if data.is_symlink() else None
    link = place / f"{_DATA}.new"
    link.unlink(missing_ok=True)
    link.symlink_to(new.name)
    link.replace(data)
    wanted = {Path(file.path).parts[0] for file in files}
    for entry in place.iterdir():
        if not entry.name.startswith("..") and entry.name not in wanted:
            entry.unlink()
    for name in wanted:
        if not (place / name).is_symlink():
            (place / name).symlink_to(Path(_DATA) / name)
    if before is not None:
        shutil.rmtree(place / before, ignore_errors=True)
