"""Folders and files of somebody else are refused, whoever asks."""

import grp
import os
import pwd
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from bireme.private_files import (
    UnsafeFileError,
    check_contents,
    check_file,
    check_folder,
    make_folder,
    open_file,
    open_log,
    read_file,
    read_secret,
    write_file,
)

STRANGER = 12345


def foreign(folder: Path) -> Path:
    """A folder of another user: root can make one, and others have root's."""
    if os.geteuid() != 0:
        return Path("/usr")
    folder.mkdir()
    os.chown(folder, STRANGER, STRANGER)
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("umask", [0, 0o002, 0o077, 0o777], ids=oct)
def test_a_new_folder_and_those_above_it_are_for_their_owner_alone(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        make_folder(tmp_path / "a/b/c")
    finally:
        os.umask(before)
    assert [mode(tmp_path / each) for each in ("a", "a/b", "a/b/c")] == [0o700] * 3


@pytest.mark.parametrize("rights", [0o700, 0o755, 0o500], ids=oct)
def test_a_folder_that_others_may_only_read_is_taken(tmp_path: Path, rights: int) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(rights)
    make_folder(tmp_path / "a")
    assert mode(tmp_path / "a") == rights


@pytest.mark.parametrize("rights", [0o777, 0o1777, 0o770, 0o702], ids=oct)
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, rights: int) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(rights)
    with pytest.raises(UnsafeFileError, match="others may write") as refusal:
        make_folder(tmp_path / "a")
    assert f"chmod go-w {tmp_path}/a" in refusal.value.hint


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafeFileError, match="belongs to"):
        check_folder(foreign(tmp_path / "a"))


@pytest.mark.parametrize("make", [Path.touch, lambda path: os.mkfifo(path)], ids=["file", "fifo"])
def test_what_is_no_folder_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "a")
    with pytest.raises(UnsafeFileError, match="not a folder"):
        make_folder(tmp_path / "a")


def test_a_folder_below_one_that_others_may_change_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open/a").mkdir(mode=0o700)
    for path in (tmp_path / "open/a", tmp_path / "open/a/b/c", tmp_path / "open/new"):
        with pytest.raises(UnsafeFileError, match="others may replace") as refusal:
            make_folder(path)
        assert f"chmod go-w {tmp_path}/open" in refusal.value.hint
    assert sorted(path.name for path in (tmp_path / "open").rglob("*")) == ["a"]
    (tmp_path / "open").chmod(0o1777)
    make_folder(tmp_path / "open/a/b/c")


def test_a_folder_above_may_belong_to_the_group_that_is_the_users_own(tmp_path: Path) -> None:
    user = pwd.getpwuid(os.geteuid())
    group = grp.getgrgid(user.pw_gid)
    (tmp_path / "a").mkdir()
    os.chown(tmp_path / "a", -1, user.pw_gid)
    (tmp_path / "a").chmod(0o775)
    if group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}:
        make_folder(tmp_path / "a/b")
    else:
        with pytest.raises(UnsafeFileError):
            make_folder(tmp_path / "a/b")


def test_links_are_followed_if_they_are_ours(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "deep").symlink_to(tmp_path / "link")
    make_folder(tmp_path / "deep/new")
    assert (tmp_path / "real/new").is_dir()
    check_folder(tmp_path / "link")


def test_a_link_to_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real").chmod(0o777)
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(UnsafeFileError, match="others may write"):
        make_folder(tmp_path / "link")


def test_a_link_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    if os.geteuid() == 0:
        os.chown(tmp_path / "link", STRANGER, STRANGER, follow_symlinks=False)
        with pytest.raises(UnsafeFileError, match="it is a link of"):
            check_folder(tmp_path / "link")
    else:
        check_folder(tmp_path / "link")


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    with pytest.raises(UnsafeFileError, match="symbolic links"):
        check_folder(tmp_path / "a")


def test_a_folder_that_is_not_there_is_no_folder_of_others(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check_folder(tmp_path / "a/b")


def test_a_folder_with_something_of_another_user_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").touch(mode=0o644)
    (tmp_path / "a/folder").mkdir(mode=0o755)
    check_contents(tmp_path / "a")
    (tmp_path / "a/folder").chmod(0o777)
    with pytest.raises(UnsafeFileError, match="others may write"):
        check_contents(tmp_path / "a")
    with pytest.raises(UnsafeFileError, match="belongs to"):
        check_contents(foreign(tmp_path / "b").parent if os.geteuid() == 0 else Path("/usr"))


# ---- files


def _link(path: Path) -> None:
    path.with_name("target").write_text("precious")
    path.symlink_to(path.with_name("target"))


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize(
    "make",
    [
        _link,
        _socket,
        Path.mkdir,
        lambda path: os.mkfifo(path),
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to("nowhere"),
    ],
    ids=["link", "socket", "folder", "fifo", "device", "dangling"],
)
@pytest.mark.parametrize(
    "use",
    [
        read_file,
        read_secret,
        open_log,
        lambda path: open_file(path, os.O_RDWR | os.O_CREAT),
        lambda path: open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ],
    ids=["read", "secret", "log", "lock", "truncate"],
)
def test_what_is_no_regular_file_is_refused(
    tmp_path: Path, make: Callable[[Path], None], use: Callable[[Path], object]
) -> None:
    make(tmp_path / "a")
    with pytest.raises(OSError, match=r"regular|directory"):
        use(tmp_path / "a")
    if (tmp_path / "target").exists():
        assert (tmp_path / "target").read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_a_file_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "a").chmod(0o620)
    for use in (read_file, read_secret, check_file):
        with pytest.raises(UnsafeFileError, match="others may write"):
            use(tmp_path / "a")


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "a").chmod(0o640)
    with pytest.raises(UnsafeFileError, match="others may read"):
        read_secret(tmp_path / "a")


def test_a_file_that_others_may_read_is_theirs_no_longer(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "a").chmod(0o644)
    assert read_file(tmp_path / "a") == b"text"
    assert mode(tmp_path / "a") == 0o600


def test_a_log_goes_on_for_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "a").chmod(0o664)
    with open_log(tmp_path / "a") as log:
        log.write(b"2")
    assert (tmp_path / "a").read_text() == "12"
    assert mode(tmp_path / "a") == 0o600


def test_a_file_is_written_whole_and_replaces_a_link(tmp_path: Path) -> None:
    _link(tmp_path / "a")
    write_file(tmp_path / "a", b"new")
    assert (tmp_path / "target").read_text() == "precious"
    assert (read_secret(tmp_path / "a"), mode(tmp_path / "a")) == (b"new", 0o600)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "target"]


def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    if os.geteuid() == 0:
        path.touch()
        os.chown(path, STRANGER, STRANGER)
    else:
        path = Path("/etc/passwd")
    for use in (read_file, check_file):
        with pytest.raises(UnsafeFileError, match="belongs to"):
            use(path)
