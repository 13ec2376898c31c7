"""A web page in the victim's browser gets nothing, even if it had the token."""

import pytest

from security.conftest import assert_nothing_gained
from support.two_users import Attacker, Victim

pytestmark = pytest.mark.xdist_group("two_users")

SECRET = "/api/v1/namespaces/default/secrets/precious"
HOSTS = (
    "evil.example", "evil.example:{port}", "127.0.0.1.nip.io:{port}", "localhost.evil.example:{port}",
    "localhost",
    "127.0.0.1", "127.0.0.1:1", "0.0.0.0:{port}", "[::]:{port}", "127.1:{port}", "2130706433:{port}",
    "127.0.0.1:{port}.evil.example", "localhost.:{port}", "",
)  # fmt: skip
ORIGINS = (
    "https://evil.example", "http://127.0.0.1:{port}", "http://localhost:{port}", "null", "file://",
    "https://127.0.0.1", "https://127.0.0.1:{port}.evil.example", "https://evil.example#127.0.0.1:{port}",
    "https://127.0.0.1:{port}@evil.example", "chrome-extension://abc", "",
)  # fmt: skip


def ask(victim: Victim, attacker: Attacker, *headers: str, method: str = "GET") -> str:
    """Send a request with the token, as a page could that had got hold of it."""
    lines = [f"{method} {SECRET} HTTP/1.1", *headers, f"Authorization: Bearer {victim.token}", "", ""]
    outcome = attacker("ask", victim.port, "\r\n".join(lines).replace("{port}", str(victim.port)))
    assert_nothing_gained(outcome, victim)
    return str(outcome.value)


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("host", HOSTS)
def test_another_name_is_refused(victim: Victim, attacker: Attacker, host: str) -> None:
    """By DNS rebinding, a page's own name leads to loopback."""
    assert ask(victim, attacker, f"Host: {host}").startswith(("HTTP/1.1 403", "HTTP/1.1 400"))


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("origin", ORIGINS)
def test_another_origin_is_refused(victim: Victim, attacker: Attacker, origin: str) -> None:
    answer = ask(victim, attacker, "Host: 127.0.0.1:{port}", f"Origin: {origin}")
    assert answer.startswith("HTTP/1.1 403")


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("origin", ORIGINS)
def test_a_preflight_is_not_answered(victim: Victim, attacker: Attacker, origin: str) -> None:
    wanted = "Access-Control-Request-Method: DELETE"
    answer = ask(victim, attacker, "Host: 127.0.0.1:{port}", f"Origin: {origin}", wanted, method="OPTIONS")
    assert answer.startswith("HTTP/1.1 403")
    assert "access-control" not in answer.lower()


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("path", ["/readyz", "/healthz", "/livez"])
def test_health_tells_a_page_nothing(victim: Victim, attacker: Attacker, path: str) -> None:
    said = f"GET {path} HTTP/1.1\r\nHost: evil.example\r\nOrigin: https://evil.example\r\n\r\n"
    answer = str(attacker("ask", victim.port, said).value)
    assert answer.endswith("\r\n\r\nok")
    assert "access-control" not in answer.lower()


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("origin", ORIGINS)
def test_a_page_opens_no_socket(victim: Victim, attacker: Attacker, origin: str) -> None:
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    answer = ask(victim, attacker, "Host: 127.0.0.1:{port}", f"Origin: {origin}", *upgrade, key)
    assert answer.startswith("HTTP/1.1 403")
