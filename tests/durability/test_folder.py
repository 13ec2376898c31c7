"""The folder of a server: one process at a time, files that are no use, and who may read them."""

import contextlib
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bireme.apiserver.database import LAYOUT
from support.server_process import ServerProcess, run_to_end


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    made = ServerProcess(tmp_path / "data", tmp_path / "log")
    yield made
    made.stop()


def test_a_second_server_on_a_folder_says_who_has_it(server: ServerProcess) -> None:
    server.start()
    refused = run_to_end(server.data)
    assert refused.returncode == 1
    assert f"{server.data} is in use by another server (process {server.pid})" in refused.stderr
    assert "hint: " in refused.stderr
    assert (server.data / "kubeconfig").exists(), "the first one goes on"


def test_the_lock_of_a_killed_server_is_free(server: ServerProcess) -> None:
    server.start()
    port = server.address.port
    server.kill()
    server.start()
    assert server.address.port == port, "a copied kubeconfig goes on to work"


def test_the_kubeconfig_goes_with_the_server(server: ServerProcess) -> None:
    server.start()
    assert server.stop() == 0
    assert not (server.data / "kubeconfig").exists()


def test_everything_in_the_folder_is_for_its_owner_alone(server: ServerProcess) -> None:
    server.data.mkdir(mode=0o755)
    server.start()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in server.data.iterdir()}
    assert "store.db-wal" in modes
    assert {name: oct(mode) for name, mode in modes.items() if mode != 0o600} == {}


def test_a_folder_that_the_server_makes_is_for_its_owner_alone(server: ServerProcess) -> None:
    server.start()
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700


def _newer(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {LAYOUT + 1}")


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database at all" * 1000)


def _torn_pages(path: Path) -> None:
    """Good at its beginning, where the layout stands, and nonsense from there on."""
    raw = path.read_bytes()
    path.write_bytes(raw[:4096] + b"\xa5" * (len(raw) - 4096))


def _no_json(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE objects SET body = x'00'")
        connection.commit()


def _no_tables(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE about")
        connection.commit()


def _folder_in_its_place(path: Path) -> None:
    path.unlink()
    path.mkdir()


SPOILED: dict[str, Callable[[Path], None]] = {
    "a newer layout": _newer,
    "no database": _garbage,
    "torn pages": _torn_pages,
    "objects that are no JSON": _no_json,
    "a table that is missing": _no_tables,
    "a folder": _folder_in_its_place,
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_a_database_that_is_no_use_is_refused_in_words(
    server: ServerProcess, spoil: Callable[[Path], None]
) -> None:
    server.start()
    assert server.stop() == 0
    spoil(server.data / "store.db")
    refused = run_to_end(server.data)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    assert refused.stderr.startswith(f"error: {server.data / 'store.db'}")


def test_an_empty_file_becomes_a_database_of_this_layout(server: ServerProcess) -> None:
    server.data.mkdir()
    (server.data / "store.db").touch()
    server.start()
    assert server.stop() == 0
    with contextlib.closing(sqlite3.connect(server.data / "store.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (LAYOUT,)


def test_a_folder_that_can_not_be_made_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = run_to_end(tmp_path / "file" / "data")
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: can't use ")


@pytest.mark.parametrize("name", ["token", "tls.key", "tls.crt"])
def test_a_secret_that_is_no_use_is_said_in_words(server: ServerProcess, name: str) -> None:
    server.start()
    assert server.stop() == 0
    (server.data / name).write_bytes(b"\xff")
    refused = run_to_end(server.data)
    assert refused.returncode == 1
    assert str(server.data / name) in refused.stderr
    assert "Traceback" not in refused.stderr
