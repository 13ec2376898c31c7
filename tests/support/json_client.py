"""A plain client of a control plane: paths and JSON in; codes, JSON and warnings out."""

import http.client
import json
import re
import ssl
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from support.control_plane import ControlPlane

_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')


class Answer(NamedTuple):
    code: int
    body: dict[str, Any]
    warnings: list[str]


class JsonClient:
    """One connection, as the administrator."""

    def __init__(self, plane: ControlPlane) -> None:
        context = ssl.create_default_context(cafile=str(plane.ca_path))
        context.load_cert_chain(plane.admin_cert, plane.admin_key)
        self._connection = http.client.HTTPSConnection(urlsplit(plane.url).netloc, context=context)

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def post(self, path: str, body: dict[str, Any] | bytes) -> Answer:
        return self.send("POST", path, body)

    def put(self, path: str, body: dict[str, Any] | bytes) -> Answer:
        return self.send("PUT", path, body)

    def delete(self, path: str) -> Answer:
        return self.send("DELETE", path)

    def send(self, method: str, path: str, body: dict[str, Any] | bytes | None = None) -> Answer:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        self._connection.request(method, path, data, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        warnings = [
            re.sub(r"\\(.)", r"\1", text)
            for header in response.headers.get_all("Warning", [])
            for text in _WARNING.findall(header)
        ]
        text = response.read().decode()
        answer = json.loads(text) if text.startswith("{") else {"message": text}
        return Answer(response.status, answer, warnings)
