"""A control plane asked without kubectl: any path, any media type."""

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from support.control_plane import ControlPlane


class RawClient:
    """Asks as the administrator of a control plane of our own."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._tls = ssl.create_default_context(cafile=plane.ca_path)
        self._tls.load_cert_chain(plane.admin_cert, plane.admin_key)

    def send(self, path: str, body: object = None, accept: str = "application/json") -> tuple[int, bytes]:
        """Return the code and the body of an answer; without a body of one's own it is a GET."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept, "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.plane.url}/{path}", data, headers)
        try:
            with urllib.request.urlopen(request, context=self._tls) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def get(self, path: str, accept: str = "application/json") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.send(path, accept=accept)[1])
        return found
