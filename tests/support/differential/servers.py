"""The two servers, asked in the same way."""

import contextlib
import http.client
import json
import re
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from support.control_plane import ControlPlane
from support.differential.calls import Call, Object, text_of
from support.embedded import EmbeddedServer

ANSWER_SECONDS = 90
WATCH_SECONDS = 30
_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')
_INITIAL_END = "k8s.io/initial-events-end"


class Reply(NamedTuple):
    code: int
    body: Any
    warnings: tuple[str, ...] = ()


class Server:
    """A server, and one connection to it."""

    def __init__(self, url: str, tls: ssl.SSLContext, headers: Mapping[str, str]) -> None:
        self._address, self._tls = urlsplit(url).netloc, tls
        self._headers = {"User-Agent": "differential/1", **headers}
        self._connection = self._connect()

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._address, context=self._tls, timeout=ANSWER_SECONDS)

    def close(self) -> None:
        self._connection.close()

    def send(self, call: Call) -> Reply:
        self._connection.request(call.method, _target(call), text_of(call.body), self._said(call))
        response = self._connection.getresponse()
        return _reply(response, response.read())

    def watch(self, call: Call) -> Reply:
        """Read events until that of the object which `until` names, or the end of the initial ones."""
        connection = self._connect()
        try:
            # The answer begins with the first event.
            connection.request("GET", _target(call, watch="1"), headers=self._said(call))
            response = connection.getresponse()
            if response.status != 200:
                return _reply(response, response.read())
            return Reply(200, {"events": list(_events(connection, response, call.until))})
        finally:
            connection.close()

    def _said(self, call: Call) -> dict[str, str]:
        return {**self._headers, "Content-Type": call.media_type, "Accept": call.accept}


def real_server(plane: ControlPlane) -> Server:
    tls = ssl.create_default_context(cafile=plane.ca_path)
    tls.load_cert_chain(plane.admin_cert, plane.admin_key)
    return Server(plane.url, tls, {})


def our_server(embedded: EmbeddedServer) -> Server:
    tls = ssl.create_default_context(cafile=embedded.ca_path)
    token = embedded.config()["users"][0]["user"]["token"]
    return Server(embedded.url, tls, {"Authorization": f"Bearer {token}"})


def _target(call: Call, **more: str) -> str:
    query = urlencode({**call.params, **more})
    return f"{call.path}?{query}" if query else call.path


def _reply(response: http.client.HTTPResponse, raw: bytes) -> Reply:
    warnings = [
        re.sub(r"\\(.)", r"\1", text)
        for header in response.headers.get_all("Warning", [])
        for text in _WARNING.findall(header)
    ]
    # What no handler answers is answered by a line of text.
    body = json.loads(raw) if raw.startswith(b"{") else {"text": raw.decode()}
    return Reply(response.status, body, tuple(warnings))


def _events(
    connection: http.client.HTTPSConnection, response: http.client.HTTPResponse, until: str
) -> Iterator[Object]:
    deadline = time.monotonic() + WATCH_SECONDS
    with contextlib.suppress(TimeoutError):
        for line in response:
            event = json.loads(line)
            yield event
            metadata = event["object"].get("metadata", {})
            is_end = _INITIAL_END in (metadata.get("annotations") or {})
            if is_end or event["type"] == "ERROR" or (until and metadata.get("name") == until):
                return
            if connection.sock is not None:
                connection.sock.settimeout(max(0.05, deadline - time.monotonic()))
