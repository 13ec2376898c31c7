"""What can go wrong with a cluster.

KubeError
  ApiError              the API server answered, and said no
    Unauthorized        401  it does not know us
    Forbidden           403  we may not; also a full quota, and a namespace that is being deleted
    NotFound            404
    AlreadyExists       409  the name is taken
    Conflict            409  the object has changed since it was read, or is another by its UID
    Gone                410  the version asked for is no longer kept: list again
    Invalid             422  validation refused it
    TooManyRequests     429  come back later; an eviction that a budget forbids, too
    ServerError         5xx
  TransportError        no answer: refused, reset, timed out, not trusted
  DecodeError           an answer that can't be read
  CredentialError       no credential: an exec plugin failed, or a token has expired
  NotAllowedError       not even sent: whoever guards the client no longer allows writes
  RequestError          not even sent: it can't be written as a line of HTTP
  ConfigError           a kubeconfig that can't be used, or none
"""

from collections.abc import Mapping
from typing import Any

import msgspec

_MOST_OF_A_TEXT = 300
_FOR_EVER = 10**9


class KubeError(Exception):
    """Base of all; `hint` says what to do about it, where somebody knows."""

    hint: str = ""


class ApiError(KubeError):
    """The API server's answer other than success; the base class itself stands for codes not named above.

    `retry_after` are the seconds after which it asks us to come back.
    """

    def __init__(
        self,
        code: int,
        reason: str = "",
        message: str = "",
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(code, reason, message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after

    def __str__(self) -> str:
        tag = f"{self.code} {self.reason}".strip()
        return f"{self.message} ({tag})" if self.message else tag

    @property
    def causes(self) -> list[dict[str, Any]]:
        """The single causes that the server names, each with `reason`, `message` and `field`."""
        causes = self.details.get("causes")
        return [each for each in causes if isinstance(each, dict)] if isinstance(causes, list) else []

    def has_cause(self, reason: str) -> bool:
        return any(cause.get("reason") == reason for cause in self.causes)

    @property
    def is_namespace_terminating(self) -> bool:
        """Nothing can be created there any more, and what is there goes by itself."""
        return self.has_cause("NamespaceTerminating")


class Unauthorized(ApiError):  # noqa: N818 - the tree has Kubernetes' own words
    pass


class Forbidden(ApiError):  # noqa: N818
    pass


class NotFound(ApiError):  # noqa: N818
    pass


class AlreadyExists(ApiError):  # noqa: N818
    pass


class Conflict(ApiError):  # noqa: N818
    pass


class Gone(ApiError):  # noqa: N818
    pass


class Invalid(ApiError):  # noqa: N818
    pass


class TooManyRequests(ApiError):  # noqa: N818
    pass


class ServerError(ApiError):
    pass


class TransportError(KubeError):
    """No answer. Where `ambiguous`, the server may have done what was asked."""

    def __init__(self, message: str, *, ambiguous: bool = True, hint: str = "") -> None:
        super().__init__(message)
        self.ambiguous = ambiguous
        self.hint = hint


class DecodeError(KubeError):
    pass


class CredentialError(KubeError):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class NotAllowedError(KubeError):
    pass


class RequestError(KubeError):
    pass


class ConfigError(KubeError):
    """The message names the file and the field."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


_BY_CODE: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class _Status(msgspec.Struct, rename="camel"):
    """The object that the API server explains itself with."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None


def error_from(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The exception for an answer; what is no Status, such as a proxy's page, becomes the message."""
    try:
        status = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        status = _Status(message=body[:_MOST_OF_A_TEXT].decode(errors="replace").strip())
    # An event of a watch carries its code inside.
    code = code or status.code
    details = status.details or {}
    retry_after = _retry_after(headers, details)
    return _class_for(code, status.reason)(code, status.reason, status.message, details, retry_after)


def _class_for(code: int, reason: str) -> type[ApiError]:
    if code == 409 and reason == "AlreadyExists":
        return AlreadyExists
    if code >= 500:
        return ServerError
    return _BY_CODE.get(code, ApiError)


def _retry_after(headers: Mapping[str, str], details: Mapping[str, Any]) -> float | None:
    text = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    if text.isascii() and text.isdigit():
        return float(text)
    seconds = details.get("retryAfterSeconds")
    return float(min(seconds, _FOR_EVER)) if isinstance(seconds, int) and seconds > 0 else None
