"""The one lease that candidates of a test want, and their ways to it."""

import asyncio
import json
from typing import Any

from bireme.kube.errors import TransportError
from bireme.kube.transport import Response
from unit.kube.scripted import ScriptedTransport, status


class LeaseServer:
    """The one lease there is, guarded by its version as a real API server does it."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.writes = 0

    def handle(self, method: str, body: bytes | None) -> Response:
        sent = json.loads(body) if body else None
        if method == "GET" or (method == "PUT" and self.lease is None):
            return self._answer(200, self.lease) if self.lease else self._answer(404, status(404))
        if method == "POST" and self.lease is not None:
            return self._answer(409, status(409, "AlreadyExists"))
        assert sent is not None
        if self.lease is not None and sent["metadata"]["resourceVersion"] != self.version:
            return self._answer(409, status(409, "Conflict"))
        self.writes += 1
        self.lease = {**sent, "metadata": {**sent["metadata"], "resourceVersion": str(self.writes)}}
        return self._answer(200, self.lease)

    def _answer(self, code: int, body: Any) -> Response:
        return Response(code, {}, json.dumps(body).encode())

    @property
    def version(self) -> str:
        assert self.lease is not None
        version: str = self.lease["metadata"]["resourceVersion"]
        return version

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec


class Line(ScriptedTransport):
    """One process's way to the server: it may be cut, silent, or lose answers."""

    def __init__(self, server: LeaseServer) -> None:
        super().__init__()
        self._server = server
        self.state = "up"

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        **_options: Any,
    ) -> Response:
        assert path.startswith("/apis/coordination.k8s.io/v1/namespaces/default/leases")
        if self.state == "down":
            raise TransportError("connection refused", ambiguous=False)
        if self.state == "silent":
            await asyncio.Event().wait()
        response = self._server.handle(method, body)
        if self.state == "loses answers":
            raise TransportError("reset by peer")
        return response
