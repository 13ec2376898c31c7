"""The folder of an API server: its lock, its database, its secrets, and the kubeconfig for its clients."""

import base64
import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from bireme import private_files
from bireme.apiserver.serving.identity import RENEWED_AFTER, make_identity
from bireme.private_files import UnsafeFileError

TOKEN_BYTES: Final = 32
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
CONTEXT: Final = "bireme"


class FolderError(Exception):
    """The folder can't be used; the message is for people."""


class TlsFiles(NamedTuple):
    authority: Path
    certificate: Path
    key: Path


class Folder:
    """Everything below it is for its owner alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / "store.db"
        self.kubeconfig = path / "kubeconfig"
        self._port = path / "port"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder: one process at a time. The lock goes with its holder, however that ends."""
        try:
            private_files.make_folder(self.path)
            private_files.check_contents(self.path)
            descriptor = private_files.open_file(self.path / "lock", os.O_RDWR | os.O_CREAT)
        except UnsafeFileError as error:
            raise FolderError(error.message) from error
        except OSError as error:
            raise FolderError(f"can't use {self.path}: {error.strerror}") from error
        try:
            self._lock(descriptor)
            _sign(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise FolderError(
                f"{self.path} is in use by another server (process {holder})\n\n"
                "hint: stop that one, or give this one a folder of its own with --data-dir"
            ) from error

    def token(self) -> str:
        """The token of this folder, made when there is none."""
        path = self.path / "token"
        if not os.path.lexists(path):
            self._write(path, secrets.token_urlsafe(TOKEN_BYTES).encode())
        try:
            return _checked_token(path, private_files.read_secret(path))
        except UnsafeFileError as error:
            raise FolderError(error.message) from error
        except OSError as error:
            raise FolderError(f"can't read the token in {path}: {error.strerror}") from error

    def tls(self, now: datetime) -> TlsFiles:
        """The certificate of this folder, made when there is none, or when it is old."""
        files = TlsFiles(self.path / "ca.crt", self.path / "tls.crt", self.path / "tls.key")
        try:
            for file in files:
                private_files.check_file(file)
        except UnsafeFileError as error:
            raise FolderError(error.message) from error
        if not all(file.exists() for file in files) or _is_old(files.certificate, now):
            made = make_identity(LOOPBACK_NAMES, now)
            self._write(files.authority, made.authority)
            self._write(files.key, made.key)
            # Last: while the certificate is missing or old, all three are made again.
            self._write(files.certificate, made.certificate)
        return files

    def last_port(self) -> int:
        """The port that the server had the last time; 0 if that is not known."""
        try:
            return int(private_files.read_file(self._port))
        except (OSError, ValueError):
            return 0

    def write_kubeconfig(self, url: str, authority: bytes, token: str, port: int) -> None:
        self._write(self._port, str(port).encode())
        self._write(self.kubeconfig, build_kubeconfig(url, authority, token))

    def remove_kubeconfig(self) -> None:
        self.kubeconfig.unlink(missing_ok=True)

    def _write(self, path: Path, content: bytes) -> None:
        """Put a whole file in place at once, readable by the owner alone."""
        try:
            private_files.write_file(path, content)
        except OSError as error:
            raise FolderError(f"can't write {path}: {error.strerror}") from error


def _sign(descriptor: int) -> None:
    """Write the process ID into the lock file, over that of the last holder: that needs no new block."""
    text = f"{os.getpid()}\n".encode()
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, os.pwrite(descriptor, text, 0))


def default_path() -> Path:
    """Where the embedded mode keeps its state, by XDG's rules."""
    configured = Path(os.environ.get("XDG_STATE_HOME", ""))
    # XDG Base Directory Specification: relative paths in these variables are invalid, ignore them.
    state = configured if configured.is_absolute() else Path.home() / ".local" / "state"
    return state / "bireme"


def read_token(path: Path) -> str:
    """Return the token in a file that the user names; who else may read it is for the user to say."""
    try:
        return _checked_token(path, path.read_bytes())
    except OSError as error:
        raise FolderError(f"can't read the token in {path}: {error}") from error


def _checked_token(path: Path, content: bytes) -> str:
    token = content.decode("ascii", "replace").strip()
    if len(token) < TOKEN_BYTES or not token.isascii() or not token.isprintable() or " " in token:
        raise FolderError(
            f"the token in {path} is no use: at least {TOKEN_BYTES} characters of ASCII without blanks"
        )
    return token


def build_kubeconfig(url: str, authority: bytes, token: str) -> bytes:
    """JSON is YAML too."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [
            {"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": "default"}}
        ],
        "current-context": CONTEXT,
    }
    return msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n"


def _is_old(path: Path, now: datetime) -> bool:
    return now - datetime.fromtimestamp(path.stat().st_mtime, UTC) > RENEWED_AFTER
