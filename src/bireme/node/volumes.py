"""Volumes as folders: what a pod's containers see below their mounts.

ConfigMap, Secret, downwardAPI and projected volumes are written anew, whole and at once, behind a link. An
emptyDir lives with the pod, a claim is a folder that outlives it, a hostPath is itself. Over the folder of an
emptyDir with `medium: Memory`, the pod's shim mounts a tmpfs, in its own mount namespace (`tmpfs_sizes`).

Names and paths of a pod are checked here once more, though admission and the API server do so too: this
module writes files, as root where podman runs the containers. A container may also change what is in its
volumes, and the volumes are written again when a start is tried again. So no link in a volume is followed:
files and folders are opened one path element after the other, from a descriptor of the volume's folder.
"""

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from bireme.api.names import is_dns_subdomain
from bireme.api.quantity import QuantityError, parse_quantity
from bireme.api.volume_paths import is_file_mode, no_backsteps, unreserved
from bireme.node.downward import field_value, resource_value
from bireme.node.environment import Sources, expand
from bireme.node.shim import subpath

Manifest = dict[str, Any]

_DATA: Final = "..data"
_MEMORY: Final = "Memory"
_WRITTEN: Final = ("configMap", "secret", "downwardAPI", "projected")
_SERVED: Final = ("emptyDir", *_WRITTEN, "hostPath", "persistentVolumeClaim")


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
        files = self._files(name, kind, source, source.get("defaultMode", 0o644))
        # As with a kubelet, the last of two files with the same path counts.
        by_path = {_parts(name, file): file for file in files}
        try:
            _write_all(place, by_path)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            message = f"volume {name}: {error.filename} is a file, and a folder of another file"
            raise VolumeError(message, is_fatal=True) from error
        return place

    def _empty(self, name: str) -> Path:
        place = self._folder / name
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place

    def _claim(self, name: str) -> Path:
        namespace: str = self._pod["metadata"]["namespace"]
        if not is_dns_subdomain(name):
            raise VolumeError(f"PersistentVolumeClaim {name!r}: no claim can have this name", is_fatal=True)
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


def is_written(volume: Manifest) -> bool:
    """Whether the node agent writes a volume's content; containers must only read it, as on a cluster."""
    return any(kind in volume for kind in _WRITTEN)


def find_sub_path(
    volume: Path, mount: Manifest, values: Mapping[str, str], *, is_written: bool, mode: int = 0o755
) -> str:
    """Return the part of a volume that a mount shows, relative to it; empty for all. Raises VolumeError.

    `values` are the container's variables. Missing directories are made with `mode`. It is opened again by
    the process that mounts it: a container may change the volume at any time.
    """
    expression = mount.get("subPathExpr")
    path: str = expand([expression], values)[0] if expression else mount.get("subPath") or ""
    if not path:
        return ""
    field = f"subPathExpr {expression!r}" if expression else "subPath"
    try:
        os.close(subpath.open_beneath(str(volume), path, is_written=is_written, mode=mode))
    except OSError as error:
        is_fatal = isinstance(error, subpath.SubPathError)
        raise VolumeError(f"volume {mount['name']}: {field}: {error.strerror}", is_fatal=is_fatal) from error
    return path


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
    for problem in no_backsteps(source["path"]):
        raise VolumeError(f"volume {name}: hostPath {source['path']} {problem}", is_fatal=True)
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


def _parts(volume: str, file: File) -> tuple[str, ...]:
    """Return the elements of a file's path. Raises VolumeError if it does not lead below its volume."""
    parts = PurePosixPath(file.path).parts
    problems = unreserved(file.path) or ([] if parts else ["must name a file"])
    if "\0" in file.path:
        problems.append("must not contain a NUL")
    if not is_file_mode(file.mode):
        problems.append("must have a mode between 0 and 0777")
    for problem in problems:
        raise VolumeError(f"volume {volume}: path {file.path!r} {problem}", is_fatal=True)
    return parts


def _write_all(place: Path, files: Mapping[tuple[str, ...], File]) -> None:
    """Put all files in place at once, as a kubelet does: behind a link that is moved.

    Raises OSError; nothing has changed then.
    """
    place.mkdir(mode=0o755, parents=True, exist_ok=True)
    with _opened(place) as volume:
        new = f"..{secrets.token_hex(8)}"
        os.mkdir(new, 0o755, dir_fd=volume)
        try:
            with _opened(new, volume) as folder:
                os.fchmod(folder, 0o755)
                for parts, file in files.items():
                    _write_file(folder, parts, file)
            before = _move_link(volume, new)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True, dir_fd=volume)
            raise
        _link_names(volume, {parts[0] for parts in files})
        if before is not None:
            shutil.rmtree(before, ignore_errors=True, dir_fd=volume)


@contextlib.contextmanager
def _opened(folder: str | Path, at: int | None = None) -> Iterator[int]:
    """A descriptor of a folder that is no link."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_file(folder: int, parts: tuple[str, ...], file: File) -> None:
    """Write a file below a folder, and the folders between."""
    name, *rest = parts
    if rest:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=folder)
        with _opened(name, folder) as inner:
            os.fchmod(inner, 0o755)
            _write_file(inner, tuple(rest), file)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as output:
        output.write(file.content)
        os.fchmod(output.fileno(), file.mode)


def _move_link(volume: int, new: str) -> str | None:
    """Let the link lead to a new folder; return the name of the one before, if that was ours."""
    before = None
    with contextlib.suppress(OSError):
        before = os.readlink(_DATA, dir_fd=volume)
    temporary = f"{_DATA}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=volume)
    os.symlink(new, temporary, dir_fd=volume)
    os.replace(temporary, _DATA, src_dir_fd=volume, dst_dir_fd=volume)
    # A container that can write to its volume can let the link lead anywhere.
    is_ours = before is not None and before.startswith("..") and before != ".." and "/" not in before
    return before if is_ours else None


def _link_names(volume: int, wanted: set[str]) -> None:
    """Let the names of a volume lead into the new folder, and remove those that are not wanted any more."""
    for entry in os.listdir(volume):
        if entry.startswith("..") or (entry in wanted and _is_link(volume, entry)):
            continue
        if stat.S_ISDIR(os.stat(entry, dir_fd=volume, follow_symlinks=False).st_mode):
            shutil.rmtree(entry, ignore_errors=True, dir_fd=volume)
        else:
            os.unlink(entry, dir_fd=volume)
    for name in wanted - {entry for entry in os.listdir(volume) if _is_link(volume, entry)}:
        os.symlink(f"{_DATA}/{name}", name, dir_fd=volume)


def _is_link(volume: int, name: str) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=volume, follow_symlinks=False).st_mode)
