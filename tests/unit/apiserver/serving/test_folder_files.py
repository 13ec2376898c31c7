"""The files of a server's folder, however the process that wrote them ended."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bireme.apiserver.serving.folder import Folder, FolderError, default_path
from bireme.apiserver.serving.identity import RENEWED_AFTER
from bireme.apiserver.serving.server import tls_context

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FILES = ("ca.crt", "tls.crt", "tls.key")


class KilledError(Exception):
    """The process ends here."""


class Mortal(Folder):
    """A folder whose process is killed after some writes."""

    def __init__(self, path: Path, writes: int) -> None:
        super().__init__(path)
        self._left = writes

    def _write(self, path: Path, content: bytes) -> None:
        if self._left == 0:
            raise KilledError
        self._left -= 1
        super()._write(path, content)


def grow_old(path: Path) -> None:
    for name in FILES:
        if (file := path / name).exists():
            past = (NOW - RENEWED_AFTER - timedelta(days=1)).timestamp()
            os.utime(file, (past, past))


@pytest.mark.parametrize("writes", range(4))
@pytest.mark.parametrize("renewed", [False, True], ids=["the first time", "renewed"])
def test_a_certificate_fits_its_key_whenever_the_process_was_killed(
    tmp_path: Path, writes: int, renewed: bool
) -> None:
    if renewed:
        Folder(tmp_path).tls(NOW)
        grow_old(tmp_path)
    try:
        Mortal(tmp_path, writes).tls(NOW)
    except KilledError:
        assert writes < len(FILES)
    files = Folder(tmp_path).tls(NOW)
    tls_context(files.certificate, files.key)


def test_a_folder_that_can_not_be_written_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=r"can't write .*token: No such file or directory"):
        Folder(tmp_path / "gone").token()


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.token()
    folder.tls(NOW)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ca.crt", "tls.crt", "tls.key", "token"]


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ("/state", "/state/bireme"),
        ("", "/home/me/.local/state/bireme"),
        ("state", "/home/me/.local/state/bireme"),
    ],
    ids=["absolute", "empty", "relative"],
)
def test_the_default_folder_follows_the_xdg_rules(
    monkeypatch: pytest.MonkeyPatch, configured: str, expected: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_STATE_HOME", configured)
    assert default_path() == Path(expected)
