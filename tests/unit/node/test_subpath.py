"""A subPath stays in its volume, with openat2 and without."""

import os
from pathlib import Path

import pytest

from bireme.node.shim.subpath import SubPathError, open_beneath


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret")
    made = tmp_path / "volume"
    (made / "deep/folder").mkdir(parents=True)
    (made / "file").write_text("inside")
    (made / "up").symlink_to("../outside")
    (made / "absolute").symlink_to(tmp_path / "outside")
    (made / "own").symlink_to("deep")
    (made / "deep/up").symlink_to("../../outside")
    (made / "magic").symlink_to("/proc/self/root")
    (made / "dangling").symlink_to("nowhere")
    os.mkfifo(made / "pipe")
    return made


@pytest.fixture(params=[True, False], ids=["openat2", "openat"])
def has_openat2(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def opened(volume: Path, path: str, has_openat2: bool, **more: bool) -> Path:
    """The real path of what a subPath leads to."""
    descriptor = open_beneath(str(volume), path, has_openat2=has_openat2, **more)
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    "path", ["deep", "deep/folder", "./deep//folder/", "file", "pipe", "new", "deep/a/b/c", ""]
)
def test_what_is_inside_is_opened_or_made(volume: Path, has_openat2: bool, path: str) -> None:
    assert opened(volume, path, has_openat2) == volume / path
    assert (volume / path).exists()


@pytest.mark.parametrize(
    "path",
    [
        "up", "absolute", "own", "deep/up", "deep/up/secret", "magic", "dangling", "up/new", "own/folder",
        "dangling/x", "..", "../outside", "deep/../../outside", "deep/..", "/etc", "/", "file/x", "pipe/x",
        "a\0b",
    ],
)  # fmt: skip
def test_what_leads_out_or_through_a_link_is_refused(volume: Path, has_openat2: bool, path: str) -> None:
    before = sorted(volume.parent.rglob("*"))
    with pytest.raises(SubPathError):
        open_beneath(str(volume), path, has_openat2=has_openat2)
    assert sorted(volume.parent.rglob("*")) == before


def test_new_folders_have_their_mode_whatever_the_umask(volume: Path, has_openat2: bool) -> None:
    os.close(open_beneath(str(volume), "a/b", mode=0o777, has_openat2=has_openat2))
    assert [(volume / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o777, 0o777]


def test_what_the_node_agent_wrote_is_found_behind_its_link(volume: Path, has_openat2: bool) -> None:
    (volume / "..1").mkdir()
    (volume / "..1/key").write_text("value")
    (volume / "..data").symlink_to("..1")
    (volume / "key").symlink_to("..data/key")
    assert opened(volume, "key", has_openat2, is_written=True) == volume / "..1/key"
    with pytest.raises(SubPathError):
        open_beneath(str(volume), "key", has_openat2=has_openat2)


@pytest.mark.parametrize("target", ["../outside", "/etc", "..", "../..", "deep"])
def test_a_link_for_the_content_leads_right_below_the_volume(
    volume: Path, has_openat2: bool, target: str
) -> None:
    (volume / "..data").symlink_to(target)
    with pytest.raises(SubPathError):
        open_beneath(str(volume), "secret", is_written=True, has_openat2=has_openat2)
