"""A subPath stays in its volume, with openat2 and without."""

import os
import subprocess
import sys
import time
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


SWAP = """
import os, shutil, sys
os.chdir(sys.argv[1])
os.mkdir("data")
print(flush=True)
while True:
    try:
        os.rename("data", "aside")
        os.symlink(sys.argv[2], "data")
        os.unlink("data")
        os.rename("aside", "data")
    except OSError:
        # The other side has made a folder where there was none.
        shutil.rmtree("aside", ignore_errors=True)
        if os.path.islink("data"):
            os.unlink("data")
"""


def test_a_folder_that_is_swapped_for_a_link_all_the_time_is_never_followed(
    volume: Path, has_openat2: bool
) -> None:
    outside = volume.parent / "outside"
    opened = linked = 0
    command = [sys.executable, "-c", SWAP, str(volume), str(outside)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapping:
        assert swapping.stdout is not None
        swapping.stdout.readline()
        deadline = time.monotonic() + 30
        while opened + linked < 2000 or not (opened and linked):
            assert time.monotonic() < deadline, (opened, linked)
            try:
                os.close(open_beneath(str(volume), "data/folder", has_openat2=has_openat2))
                opened += 1
            except SubPathError as error:
                linked += "symbolic link" in str(error)
        swapping.kill()
    assert [path.name for path in outside.iterdir()] == ["secret"]
