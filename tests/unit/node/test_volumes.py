"""The node writes the files of a volume below it, whatever a pod says and whatever is there already."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bireme.node.environment import Sources
from bireme.node.volumes import VolumeError, Volumes

Object = dict[str, Any]
DATA = {"conf": b"text"}


def volumes(tmp_path: Path, *sources: Object, data: Mapping[str, bytes] = DATA) -> Volumes:
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"volumes": [{"name": f"v{index}", **source} for index, source in enumerate(sources)]},
    }
    encoded = {key: base64.b64encode(content).decode() for key, content in data.items()}
    known = Sources(config_maps={"c": {"binaryData": encoded}}, secrets={"c": {"data": encoded}})
    return Volumes(pod, tmp_path / "pod" / "volumes", tmp_path / "claims", known)


def config_map(path: str, **more: Any) -> Object:
    return {"configMap": {"name": "c", "items": [{"key": "conf", "path": path, **more}]}}


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


HOSTILE = [
    "../x", "a/../../x", "/x", "..", ".", "", "..x", "a/..", "a\0b", "x" * 300, "a/" + "x" * 300,
]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE, ids=repr)
@pytest.mark.parametrize("kind", ["configMap", "secret", "downwardAPI", "projected"])
def test_a_path_that_leaves_the_volume_is_refused(tmp_path: Path, kind: str, path: str) -> None:
    if path == "/x":
        path = f"{tmp_path}/x"
    items = [{"key": "conf", "path": path}]
    by_kind: dict[str, Object] = {
        "configMap": {"configMap": {"name": "c", "items": items}},
        "secret": {"secret": {"secretName": "c", "items": items}},
        "downwardAPI": {
            "downwardAPI": {"items": [{"path": path, "fieldRef": {"fieldPath": "metadata.name"}}]}
        },
        "projected": {"projected": {"sources": [{"configMap": {"name": "c", "items": items}}]}},
    }
    with pytest.raises((VolumeError, OSError)):
        volumes(tmp_path, by_kind[kind]).make_all()
    assert not [path for path in tmp_path.rglob("*") if not path.is_dir()]


@pytest.mark.parametrize("name", ["../../x", "..", ".", "a/b", "/x", "", "A"])
def test_a_claim_whose_name_no_claim_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(VolumeError) as refusal:
        volumes(tmp_path, {"persistentVolumeClaim": {"claimName": name}}).make_all()
    assert refusal.value.is_fatal
    assert tree(tmp_path) == set()


def test_a_host_path_that_goes_up_is_refused(tmp_path: Path) -> None:
    source = {"hostPath": {"path": f"{tmp_path}/a/../b", "type": "DirectoryOrCreate"}}
    with pytest.raises(VolumeError, match="must not contain"):
        volumes(tmp_path, source).make_all()
    assert tree(tmp_path) == set()


@pytest.mark.parametrize("mode", [0o4755, 0o1777, -1])
def test_a_mode_that_is_more_than_permissions_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(VolumeError, match="mode"):
        volumes(tmp_path, config_map("x", mode=mode)).make_all()


def test_files_are_where_the_pod_wants_them(tmp_path: Path) -> None:
    source = {
        "configMap": {
            "name": "c",
            "items": [
                {"key": "conf", "path": "a/b/c", "mode": 0o400},
                {"key": "conf", "path": "./d//e"},
                {"key": "conf", "path": "f"},
            ],
        }
    }
    place = volumes(tmp_path, source).make_all()["v0"]
    for name in ("a/b/c", "d/e", "f"):
        assert (place / name).read_bytes() == b"text"
    assert (place / "a/b/c").stat().st_mode & 0o777 == 0o400


def test_of_two_files_with_one_path_the_last_counts(tmp_path: Path) -> None:
    items = [{"key": "conf", "path": "x"}, {"key": "other", "path": "./x"}]
    source = {"configMap": {"name": "c", "items": items}}
    place = volumes(tmp_path, source, data={"conf": b"1", "other": b"2"}).make_all()["v0"]
    assert (place / "x").read_bytes() == b"2"


def test_a_file_can_not_be_a_folder_too(tmp_path: Path) -> None:
    items = [{"key": "conf", "path": "x"}, {"key": "conf", "path": "x/y"}]
    for order in (items, items[::-1]):
        with pytest.raises(VolumeError) as refusal:
            volumes(tmp_path, {"configMap": {"name": "c", "items": order}}).make_all()
        assert refusal.value.is_fatal


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    made = volumes(tmp_path, config_map("x" * 300))
    for _ in range(3):
        with pytest.raises(OSError, match="too long"):
            made.make_all()
    assert tree(tmp_path / "pod/volumes/v0") == set()


def test_a_second_write_replaces_the_first(tmp_path: Path) -> None:
    place = volumes(tmp_path, config_map("a/b")).make_all()["v0"]
    volumes(tmp_path, config_map("c"), data={"conf": b"new"}).make_all()
    assert {path.name for path in place.iterdir() if not path.name.startswith("..")} == {"c"}
    assert (place / "c").read_bytes() == b"new"
    assert len([path for path in place.iterdir() if path.name.startswith("..")]) == 2


# ---- a container that changes its own volumes, before they are written again


def test_a_link_of_the_container_is_not_followed_when_the_old_files_are_removed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    place = volumes(tmp_path, config_map("a")).make_all()["v0"]
    for target in (str(precious), "../../../precious", ".."):
        (place / "..data").unlink()
        (place / "..data").symlink_to(target)
        volumes(tmp_path, config_map("a")).make_all()
        assert (precious / "file").exists()
        assert (place / "a").read_bytes() == b"text"


def test_what_the_container_put_into_a_volume_makes_way(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    place = volumes(tmp_path, config_map("a/b")).make_all()["v0"]
    (place / "a").unlink()
    (place / "a").mkdir()
    (place / "a" / "b").symlink_to(precious / "file")
    (place / "deep").mkdir()
    (place / "deep" / "link").symlink_to(precious)
    (place / "..data.new").symlink_to(precious)
    volumes(tmp_path, config_map("a/b")).make_all()
    assert (place / "a/b").read_bytes() == b"text"
    assert not (place / "deep").exists()
    assert (precious / "file").read_bytes() == b""


def test_a_volume_that_has_become_a_link_is_refused(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    folder = tmp_path / "pod" / "volumes"
    folder.mkdir(parents=True)
    (folder / "v0").symlink_to(precious)
    with pytest.raises((OSError, VolumeError)):
        volumes(tmp_path, config_map("a")).make_all()
    assert list(precious.iterdir()) == []
