"""Credentials from a program that the kubeconfig names: client.authentication.k8s.io v1 and v1beta1."""

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from bireme.kube.clock import utc_now
from bireme.kube.credentials import Credential, Credentials, bearer
from bireme.kube.errors import CredentialError

GROUP: Final = "client.authentication.k8s.io"
VERSIONS: Final = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
_MARGIN: Final = timedelta(seconds=10)
"""A credential is renewed so long before it expires: it must still be good when it arrives."""
_KILL_SECONDS: Final = 2.0
_MOST_OF_A_TEXT: Final = 500


class ExecPlugin(msgspec.Struct, frozen=True):
    """How to call the program; `environ` is all of its environment, `cluster` what it is told if it asks."""

    command: str
    args: tuple[str, ...] = ()
    environ: Mapping[str, str] = {}
    api_version: str = VERSIONS[0]
    install_hint: str = ""
    cluster: dict[str, Any] | None = None
    timeout_seconds: float = 60.0


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class ExecCredentials(Credentials):
    """Runs the program when there is no credential, when it expires, and when it was refused."""

    def __init__(self, plugin: ExecPlugin, now: Callable[[], datetime] = utc_now) -> None:
        self._plugin = plugin
        self._now = now
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None
        self._expires_at: datetime | None = None

    async def current(self) -> Credential:
        return self._fresh() or await self._replace(None)

    async def renew(self, refused: Credential) -> Credential:
        return await self._replace(refused)

    def _fresh(self) -> Credential | None:
        if self._expires_at is not None and self._now() >= self._expires_at - _MARGIN:
            return None
        return self._credential

    async def _replace(self, refused: Credential | None) -> Credential:
        """A fresh credential other than the refused one; of many callers at once, one runs the program."""
        async with self._lock:
            fresh = self._fresh()
            if fresh is not None and fresh is not refused:
                return fresh
            status = await run(self._plugin)
            authorization = bearer(status.token) if status.token else ""
            self._expires_at = status.expiration_timestamp
            self._credential = Credential(
                authorization, status.client_certificate_data.encode(), status.client_key_data.encode()
            )
            return self._credential


async def run(plugin: ExecPlugin) -> _Status:
    """Call the program, without standard input. Raises CredentialError."""
    if shutil.which(plugin.command, path=plugin.environ.get("PATH")) is None:
        raise CredentialError(f"exec plugin {plugin.command}: not found", plugin.install_hint)
    code, output, complaint = await _call(plugin)
    if code:
        reason = complaint.decode(errors="replace").strip()[-_MOST_OF_A_TEXT:] or f"exit code {code}"
        raise CredentialError(f"exec plugin {plugin.command} failed: {reason}")
    return _read(plugin, output)


async def _call(plugin: ExecPlugin) -> tuple[int, bytes, bytes]:
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**plugin.environ, "KUBERNETES_EXEC_INFO": _info(plugin)},
        )
    except OSError as error:
        raise CredentialError(f"exec plugin {plugin.command}: {error.strerror}") from error
    try:
        async with asyncio.timeout(plugin.timeout_seconds):
            output, complaint = await process.communicate()
    except TimeoutError as error:
        message = f"exec plugin {plugin.command}: no answer in {plugin.timeout_seconds:g} s"
        raise CredentialError(message) from error
    finally:
        if process.returncode is None:
            # Kills it, and closes our ends of the pipes: a child of its own may keep the others open.
            process._transport.close()  # type: ignore[attr-defined]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_KILL_SECONDS):
                    await process.wait()
    return process.returncode or 0, output, complaint


def _info(plugin: ExecPlugin) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()


def _read(plugin: ExecPlugin, output: bytes) -> _Status:
    what = f"exec plugin {plugin.command}"
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.DecodeError as error:
        raise CredentialError(f"{what}: its answer is no ExecCredential: {error}") from error
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        said = f"{answer.api_version or 'none'} {answer.kind}".strip()
        raise CredentialError(f"{what}: asked for {plugin.api_version} ExecCredential, it answered {said}")
    status = answer.status or _Status()
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise CredentialError(f"{what}: status: certificate and key come together or not at all")
    if not (status.token or status.client_certificate_data):
        raise CredentialError(f"{what}: status: neither a token nor a certificate")
    return status
