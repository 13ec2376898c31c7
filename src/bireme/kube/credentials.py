"""Who we are to the API server: what each request presents, and how that is renewed."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from bireme.kube.clock import utc_now
from bireme.kube.errors import CredentialError


class Credential(NamedTuple):
    """What a request presents: the value of `Authorization`, a client certificate (both PEM), or both."""

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""

    def __repr__(self) -> str:
        """Without anything that a log must not hold."""
        kind = self.authorization.partition(" ")[0] or "no"
        return f"Credential({kind} authorization, {'a' if self.certificate else 'no'} certificate)"


_NOTHING: Final = Credential()


class Credentials(Protocol):
    """Where a credential comes from."""

    async def current(self) -> Credential:
        """What to present now. Raises CredentialError."""

    async def renew(self, refused: Credential) -> Credential:  # noqa: ARG002
        """What to present after this one was answered with 401; the same one if there is no other."""
        return await self.current()


def bearer(token: str) -> str:
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


class StaticCredentials(Credentials):
    """Always the same."""

    def __init__(self, credential: Credential = _NOTHING) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        return self._credential


class WatchedFile:
    """A file that somebody else replaces; it is read again when it has."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._data = b""

    def read(self) -> bytes:
        """What it holds. While it can't be read, what it last held; CredentialError if it never could."""
        try:
            found = self.path.stat()
            stamp = found.st_ino, found.st_mtime_ns, found.st_size
            if stamp != self._stamp:
                self._data = self.path.read_bytes()
                self._stamp = stamp
        except OSError as error:
            if self._stamp is None:
                raise CredentialError(f"{self.path}: {error.strerror}") from error
        return self._data


class FileCredentials(Credentials):
    """A token, or a certificate and its key, in files that are replaced before they expire."""

    def __init__(
        self,
        *,
        token: WatchedFile | None = None,
        certificate: WatchedFile | None = None,
        key: WatchedFile | None = None,
        fixed: Credential = _NOTHING,
    ) -> None:
        """What has no file stays as in `fixed`."""
        self._token = token
        self._certificate = certificate
        self._key = key
        self._last = fixed

    async def current(self) -> Credential:
        authorization, certificate, key = self._last
        if self._token is not None:
            authorization = bearer(self._token.read().decode(errors="replace").strip())
        if self._certificate is not None:
            certificate = self._certificate.read()
        if self._key is not None:
            key = self._key.read()
        self._last = Credential(authorization, certificate, key)
        return self._last


class IdTokenCredentials(Credentials):
    """The `id-token` of the old OpenID Connect provider, while it lasts.

    Renewing it would use up the refresh token that kubectl keeps in the same kubeconfig.
    """

    def __init__(self, token: str, now: Callable[[], datetime] = utc_now) -> None:
        self._credential = Credential(bearer(token))
        self._expires_at = _expiry(token)
        self._now = now

    async def current(self) -> Credential:
        if self._expires_at is not None and self._now() >= self._expires_at:
            raise CredentialError(
                f"the id-token of the kubeconfig expired at {self._expires_at.isoformat()}",
                "any kubectl command renews it; an exec plugin such as kubelogin does so by itself",
            )
        return self._credential


class _Claims(msgspec.Struct):
    exp: float | None = None


def _expiry(token: str) -> datetime | None:
    """When a JSON Web Token ends; None if it does not say so."""
    try:
        payload = token.split(".")[1]
        data = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        exp = msgspec.json.decode(data, type=_Claims).exp
    except (IndexError, ValueError, msgspec.DecodeError):
        return None
    return datetime.fromtimestamp(exp, UTC) if exp is not None else None
