"""Another local user gets nothing from the API server's port without the token."""

import json
import re

import pytest

from security.conftest import assert_nothing_gained
from support.two_users import Attacker, Outcome, Victim

pytestmark = pytest.mark.xdist_group("two_users")

SECRETS = "/api/v1/namespaces/default/secrets"
PATHS = (
    "/", "/api", "/api/v1", "/apis", "/version", "/openapi/v3", "/metrics", "/debug/pprof/", "/logs/",
    SECRETS, f"{SECRETS}/precious", f"{SECRETS}?watch=true", "/api/v1/secrets", "/api/v1/pods",
    "/api/v1/namespaces/default/pods/precious-worker-0/log",
    "/api/v1/namespaces/default/pods/precious-worker-0/exec?command=id&stdout=1",
    "/api/v1/namespaces/default/pods/precious-worker-0/attach?stdout=1",
    f"/readyz/..{SECRETS}/precious", f"/healthz/%2e%2e{SECRETS}/precious", f"//readyz/../..{SECRETS}",
    f"/readyz{SECRETS}", f"/livez?{SECRETS}", f"/readyz#{SECRETS}", f"/readyz;{SECRETS}",
    f"/readyz%00{SECRETS}",
    f"https://127.0.0.1{SECRETS}/precious", "*", "/../../../etc/passwd", f"{SECRETS}/precious/readyz",
)  # fmt: skip
METHODS = (
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PROPFIND",
    "get",
    "PRI",
)
TOKENS = {
    "none": "",
    "empty": "Authorization: Bearer \r\n",
    "short": "Authorization: Bearer x\r\n",
    "long": f"Authorization: Bearer {'x' * 30000}\r\n",
    "prefix": "Authorization: Bearer {half}\r\n",
    "more": "Authorization: Bearer {token}x\r\n",
    "lower case": "Authorization: Bearer {lower}x\r\n",
    "basic": "Authorization: Basic {token}\r\n",
    "no scheme": "Authorization: {token}\r\n",
    "lower scheme": "Authorization: bearer {token}\r\n",
    "cookie": "Cookie: token={token}; Authorization={token}\r\n",
    "proxy": "Proxy-Authorization: Bearer {token}\r\n",
    "remote user": "X-Remote-User: bireme:owner\r\nX-Remote-Group: system:masters\r\n",
    "impersonate": "Impersonate-User: bireme:owner\r\n",
    "forwarded": "X-Forwarded-User: bireme:owner\r\nX-Forwarded-For: 127.0.0.1\r\n",
    "two": "Authorization: Bearer x\r\nAuthorization: Bearer {token}\r\n",
    "NUL": "Authorization: Bearer {half}\0{rest}\r\n",
    "not ASCII": "Authorization: Bearer \xff\xfe\r\n",
}
HELD = "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"
POST = "POST /readyz HTTP/1.1\r\nHost: {host}\r\n"
SMUGGLED = {
    "CL.TE": POST + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG" + HELD,
    "TE.CL": POST + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n" + HELD + "\r\n0\r\n\r\n",
    "TE.TE": POST + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n" + HELD,
    "TE with a tab": POST + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" + HELD,
    "TE xchunked": POST + "Transfer-Encoding: xchunked\r\n\r\n" + HELD,
    "TE with a space": POST + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + HELD,
    "two lengths": POST + "Content-Length: 0\r\nContent-Length: 30\r\n\r\n" + HELD,
    "a list of lengths": POST + "Content-Length: 0, 30\r\n\r\n" + HELD,
    "a negative length": POST + "Content-Length: -1\r\n\r\n" + HELD,
    "a length with a sign": POST + "Content-Length: +0\r\n\r\n" + HELD,
    "a length in hex": POST + "Content-Length: 0x0\r\n\r\n" + HELD,
    "a length beyond 64 bits": POST + "Content-Length: 18446744073709551616\r\n\r\n" + HELD,
    "obs-fold": "GET /readyz HTTP/1.1\r\nHost: {host}\r\nX: a\r\n Authorization: Bearer x\r\n\r\n" + HELD,
    "NUL in a name": "GET /readyz HTTP/1.1\r\nHost: {host}\r\nX\0Y: a\r\n\r\n" + HELD,
    "NUL in a value": "GET /readyz HTTP/1.1\r\nHost: {host}\r\nX: a\0b\r\n\r\n" + HELD,
    "bare LF": "GET /readyz HTTP/1.1\nHost: {host}\n\n" + HELD,
    "bare CR": "GET /readyz HTTP/1.1\rHost: {host}\r\r" + HELD,
    "pipelined": "GET /readyz HTTP/1.1\r\nHost: {host}\r\n\r\n" + HELD,
    "HTTP/0.9": "GET {path}\r\n\r\n",
    "HTTP/1.0": "GET {path} HTTP/1.0\r\n\r\n",
    "HTTP/2.0": "GET {path} HTTP/2.0\r\nHost: {host}\r\n\r\n",
    "HTTP/1.1 without Host": "GET {path} HTTP/1.1\r\n\r\n",
    "two Hosts": "GET {path} HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n\r\n",
    "bad chunk size": POST + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + HELD,
    "chunk extension": POST + "Transfer-Encoding: chunked\r\n\r\n0;" + "a" * 5000 + "\r\n\r\n" + HELD,
    "trailer": POST + "Transfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: Bearer x\r\n\r\n" + HELD,
    "expect": "POST {path} HTTP/1.1\r\nHost: {host}\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
    "h2c": "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + HELD,
    "large line": "GET /" + "a" * 200_000 + " HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "large header": "GET {path} HTTP/1.1\r\nHost: {host}\r\nX: " + "a" * 200_000 + "\r\n\r\n",
    "many headers": "GET {path} HTTP/1.1\r\nHost: {host}\r\n" + "X: a\r\n" * 50_000 + "\r\n",
    "large body": POST + "Content-Length: 20000000\r\n\r\n" + "a" * 2_000_000,
    "not HTTP": "\0\1\2\3" * 1000,
    "SSH": "SSH-2.0-OpenSSH_9.2\r\n",
}  # fmt: skip


def send(attacker: Attacker, victim: Victim, said: str, path: str = f"{SECRETS}/precious") -> Outcome:
    """Send a request as the attacker; in braces are what it needs to know, and what it would like to."""
    token = victim.token
    known = {
        "host": f"127.0.0.1:{victim.port}", "path": path, "token": "y" * len(token), "half": token[:20],
        "rest": token[20:], "lower": token.swapcase(),
    }  # fmt: skip
    for name, value in known.items():
        said = said.replace("{" + name + "}", value)
    outcome = attacker("ask", victim.port, said)
    assert_nothing_gained(outcome, victim)
    return outcome


def codes(outcome: Outcome) -> list[int]:
    """The codes of all answers."""
    return [int(code) for code in re.findall(r"HTTP/1\.[01] ([0-9]{3}) ", str(outcome.value))]


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("path", PATHS)
def test_no_path_is_served_without_the_token(victim: Victim, attacker: Attacker, path: str) -> None:
    outcome = send(attacker, victim, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n", path)
    # Only health is: its answer has two letters.
    assert codes(outcome) in ([401], [403], [400], []) or str(outcome.value).endswith("\r\n\r\nok")


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("method", METHODS)
def test_no_method_is_served_without_the_token(victim: Victim, attacker: Attacker, method: str) -> None:
    said = method + " {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\n\r\n{}"
    assert codes(send(attacker, victim, said)) in ([401], [403], [400], [])


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("header", TOKENS.values(), ids=TOKENS)
def test_no_other_token_is_taken(victim: Victim, attacker: Attacker, header: str) -> None:
    outcome = send(attacker, victim, "GET {path} HTTP/1.1\r\nHost: {host}\r\n" + header + "\r\n")
    assert codes(outcome) in ([401], [403], [400], [])


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("said", SMUGGLED.values(), ids=SMUGGLED)
def test_no_request_hides_behind_another(victim: Victim, attacker: Attacker, said: str) -> None:
    """A client without the token gets one answer at most, and then the end of the connection."""
    outcome = send(attacker, victim, said)
    assert len([code for code in codes(outcome) if code != 100]) <= 1, outcome


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize(
    "said", ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\0" * 99]
)
def test_plain_http_is_not_spoken(victim: Victim, attacker: Attacker, said: str) -> None:
    assert "HTTP/" not in str(attacker("ask", victim.port, said, False).value)


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("protocols", [("h2",), ("h2", "http/1.1"), ("spdy/3",), ("h2c",)])
def test_http_2_is_not_spoken(victim: Victim, attacker: Attacker, protocols: tuple[str, ...]) -> None:
    outcome = attacker("ask", victim.port, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", True, protocols)
    assert codes(outcome) in ([400], [401], [403], [])
    assert_nothing_gained(outcome, victim)


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("what", ["exec", "attach", "portforward"])
@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "base64url.bearer.authorization.k8s.io.eHg", ""])
def test_no_socket_opens_without_the_token(
    victim: Victim, attacker: Attacker, what: str, protocol: str
) -> None:
    lines = (
        "GET {path} HTTP/1.1", "Host: {host}", "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Sec-WebSocket-Protocol: {protocol}", "", "",
    )  # fmt: skip
    path = f"/api/v1/namespaces/default/pods/precious-worker-0/{what}?command=id&stdout=1"
    assert codes(send(attacker, victim, "\r\n".join(lines), path)) == [401]


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_changes_without_the_token(victim: Victim, attacker: Attacker, method: str) -> None:
    body = json.dumps({"metadata": {"name": "planted"}, "data": {"password": "eA=="}})
    path = SECRETS if method == "POST" else f"{SECRETS}/precious"
    said = f"{method} {{path}} HTTP/1.1\r\nHost: {{host}}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    assert codes(send(attacker, victim, said, path)) == [401]
    assert victim.ask("GET", f"{SECRETS}/planted")[0] == 404
