"""Who may ask: whoever has the token, from this machine, and no web page."""

import hmac
from collections.abc import Collection, Mapping
from typing import Final

from bireme.apiserver import errors
from bireme.apiserver.reviews import User

_BEARER: Final = "Bearer "
_IMPERSONATE: Final = "impersonate-"
HEALTH: Final = ("/healthz", "/livez", "/readyz")
"""The only paths that need no token: they tell nothing but that the server is there."""


class Access:
    """Checks each request before anything else is looked at.

    The exact Host is demanded because a web page can make a browser send requests to a name of its own that
    leads to loopback, and the exact Origin because a page can open WebSockets anywhere. A server that others
    shall reach can't know what they call it: it takes any Host, and no Origin.
    """

    def __init__(self, token: str, hosts: Collection[str] | None, user: User) -> None:
        self._token = token.encode()
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self._origins = frozenset(f"https://{host}" for host in self._hosts or ())
        self._user = user

    def check(self, headers: Mapping[str, str]) -> User:
        """Who asks. Raises StatusError: 403 for a wrong Host or Origin, 401 for a wrong token."""
        if self._hosts is not None and headers.get("Host", "").lower() not in self._hosts:
            raise errors.refused_origin("the Host header names another server")
        origin = headers.get("Origin")
        if origin is not None and origin.lower() not in self._origins:
            raise errors.refused_origin("requests from web pages are not served")
        if any(name.lower().startswith(_IMPERSONATE) for name in headers):
            raise errors.refused_origin("nobody can be impersonated: there is one user here")
        given = headers.get("Authorization", "")
        if not given.startswith(_BEARER) or not self._is_token(given.removeprefix(_BEARER)):
            raise errors.unauthorized()
        return self._user

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), self._token)
