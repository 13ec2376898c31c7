"""A data folder that somebody else has prepared is not used; what is in our own is for us alone."""

import json
import os
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bireme.node.shim.tree import read_process
from bireme.run.presence import Daemon, StartError, card, find, send_signal
from support.commands import Bireme

pytestmark = pytest.mark.xdist_group("commands")

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOKEN = "chosen-by-somebody-else-0123456789abcdef"


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Bireme]:
    commands = Bireme(tmp_path)
    yield commands
    assert commands.processes() == []


def _writable(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "token").write_text(TOKEN)
    folder.chmod(0o777)


def _writable_parent(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o777)


def _readable_token(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o700)
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o644)


def _linked(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        folder.mkdir(parents=True, mode=0o700)
        precious = folder.with_name("precious")
        precious.write_text(TOKEN)
        precious.chmod(0o600)
        (folder / name).symlink_to(precious)

    return make


def _fifo(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o700)
    os.mkfifo(folder / "token")


PREPARED: dict[str, Callable[[Path], None]] = {
    "writable": _writable,
    "writable parent": _writable_parent,
    "readable token": _readable_token,
    "fifo as token": _fifo,
} | {
    f"linked {name}": _linked(name)
    for name in ("token", "lock", "starting", "daemon.log", "store.db", "store.db-wal", "tls.key")
}


@pytest.mark.parametrize("name", PREPARED)
def test_up_refuses_a_folder_that_others_have_prepared(alone: Bireme, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "shared/data"
    PREPARED[name](folder)
    refused = alone("up", "--data-dir", str(folder), code=1)
    assert f"can't use {folder.parent}" in refused.stderr, refused.stderr
    assert "hint: " in refused.stderr
    precious = folder.with_name("precious")
    assert not precious.exists() or precious.read_text() == TOKEN


@pytest.mark.parametrize(
    "command",
    [["up"], ["run", "--replicas", "1", "--", "true"], ["get", "pods"], ["status"], ["down"], ["kubeconfig"]],
    ids=" ".join,
)
def test_every_command_refuses_a_state_folder_that_others_may_write_to(
    alone: Bireme, command: list[str]
) -> None:
    folder = alone.home / "state/bireme"
    _writable(folder)
    (folder / "lock").touch()
    (folder / "kubeconfig").touch()
    refused = alone(*command, code=1, XDG_STATE_HOME=str(folder.parent))
    assert f"chmod go-w {folder}" in refused.stderr, refused.stderr


def test_the_api_server_refuses_a_folder_that_others_may_write_to(alone: Bireme, tmp_path: Path) -> None:
    _writable(tmp_path / "data")
    refused = alone("apiserver", "--data-dir", str(tmp_path / "data"), code=1)
    assert "others may write to it" in refused.stderr


def test_what_a_daemon_writes_is_for_its_owner_alone(alone: Bireme, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    for name in ("daemon.log", "daemon.json"):
        (folder / name).touch(mode=0o644)
    where = ("--data-dir", str(folder))
    alone.sh(f"umask 002; bireme up {' '.join(where)}")
    alone("run", "--replicas", "1", *where, "--", "true")
    modes = {path.relative_to(folder): path.lstat().st_mode for path in folder.rglob("*")}
    alone("down", *where)
    names = {str(path) for path in modes}
    assert {"daemon.json", "daemon.log", "node/shims.log", "token", "store.db", "lock"} <= names
    open_to_others = {
        str(path): oct(mode)
        for path, mode in modes.items()
        if len(path.parts) <= 2 and not stat.S_ISLNK(mode) and mode & 0o077
    }
    assert open_to_others == {}


# ---- processes that only have the daemon's number


def test_a_process_that_has_the_number_of_a_daemon_that_ended_is_not_signalled() -> None:
    other = subprocess.Popen(["sleep", "1000"])
    try:
        process = read_process(other.pid)
        assert process is not None
        daemon = Daemon(other.pid, "", "", _NOW, start_ticks=process.start + 1)
        assert not send_signal(daemon, signal.SIGKILL)
        assert other.poll() is None
        assert send_signal(Daemon(other.pid, "", "", _NOW, start_ticks=process.start), signal.SIGTERM)
        assert other.wait() == -signal.SIGTERM
        assert not send_signal(daemon, signal.SIGKILL)
    finally:
        other.kill()
        other.wait()


def test_a_card_with_another_start_time_is_not_believed(alone: Bireme) -> None:
    alone("up")
    told = json.loads(card(alone.data).read_bytes())
    changed = told | {"startTicks": told["startTicks"] + 1}
    card(alone.data).write_text(json.dumps(changed))
    with pytest.raises(StartError, match="in use by process"):
        find(alone.data)
    card(alone.data).chmod(0o666)
    with pytest.raises(StartError, match="others may write"):
        find(alone.data)
    card(alone.data).unlink()
    card(alone.data).write_text(json.dumps(told))
    card(alone.data).chmod(0o600)
    alone.down()
