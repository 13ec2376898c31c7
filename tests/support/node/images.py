"""OCI images, written as archives that `ctr images import` reads: no docker, no registry."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

_CHUNK: Final = 1 << 20
_MEDIA: Final = "application/vnd.oci.image"


class Layer(NamedTuple):
    """An uncompressed tar file, and its digest."""

    path: Path
    digest: str

    @classmethod
    def of(cls, path: Path) -> "Layer":
        with path.open("rb") as file:
            return cls(path, _digest(file))


class LayerWriter:
    """Writes a layer file by file; all belongs to root, and nothing depends on the time of day."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tar = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._folders: set[str] = set()

    def add_file(self, source: Path, target: str, mode: int | None = None) -> None:
        """Put one file there; links stay links."""
        self._make_folders(target)
        self._tar.add(source, target, recursive=False, filter=lambda info: _plain(info, mode))

    def add_text(self, target: str, text: str, mode: int = 0o644) -> None:
        self._make_folders(target)
        data = text.encode()
        info = tarfile.TarInfo(target)
        info.size, info.mode = len(data), mode
        self._tar.addfile(info, io.BytesIO(data))

    def add_link(self, target: str, points_to: str) -> None:
        self._make_folders(target)
        info = tarfile.TarInfo(target)
        info.type, info.linkname = tarfile.SYMTYPE, points_to
        self._tar.addfile(info)

    def add_folder(self, target: str, mode: int = 0o755) -> None:
        """An empty folder."""
        self._make_folders(target)
        self._folder(target, mode)

    def add_tree(self, source: Path, target: str) -> None:
        """All below a folder, with modes and owners as they are; an empty target is the image's root."""
        if target:
            self._make_folders(f"{target}/x")
        for path in sorted(source.iterdir()):
            name = f"{target}/{path.name}" if target else path.name
            self._tar.add(path, name, filter=_without_sockets)

    def finish(self) -> Layer:
        self._tar.close()
        return Layer.of(self._path)

    def _make_folders(self, target: str) -> None:
        for parent in reversed(Path(target).parents):
            if parent.name and str(parent) not in self._folders:
                self._folder(str(parent), 0o755)

    def _folder(self, target: str, mode: int) -> None:
        self._folders.add(target)
        info = tarfile.TarInfo(target)
        info.type, info.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(info)


def _plain(info: tarfile.TarInfo, mode: int | None) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = 0
    info.mode = info.mode if mode is None else mode
    return info


def _without_sockets(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if info.type not in tarfile.SUPPORTED_TYPES or "__pycache__" in info.name else info


def write_image(
    archive: Path,
    name: str,
    layers: Sequence[Layer],
    config: Mapping[str, Any],
    *,
    without: Collection[Layer] = (),
) -> None:
    """Write an image of that name; `config` is what runs, as the OCI specification spells it.

    The layers of `without` are left out: the runtime has them from another image.
    """
    image = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
        "os": "linux",
        "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
    }
    config_blob = json.dumps(image).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA}.manifest.v1+json",
        "config": _descriptor(f"{_MEDIA}.config.v1+json", config_blob),
        "layers": [
            {"mediaType": f"{_MEDIA}.layer.v1.tar", "digest": layer.digest, "size": layer.path.stat().st_size}
            for layer in layers
        ],
    }
    manifest_blob = json.dumps(manifest).encode()
    entry = _descriptor(f"{_MEDIA}.manifest.v1+json", manifest_blob)
    entry["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    index = {"schemaVersion": 2, "manifests": [entry]}
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(tar, "index.json", json.dumps(index).encode())
        for blob in (config_blob, manifest_blob):
            _add(tar, _blob_path(_digest(io.BytesIO(blob))), blob)
        for layer in _distinct(layer for layer in layers if layer not in without):
            tar.add(layer.path, _blob_path(layer.digest))


def _distinct(layers: Iterable[Layer]) -> list[Layer]:
    return list({layer.digest: layer for layer in layers}.values())


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def _descriptor(media_type: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(io.BytesIO(data)), "size": len(data)}


def _blob_path(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"
