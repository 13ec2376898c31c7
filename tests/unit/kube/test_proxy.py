"""Proxies are found as Go's programs find them."""

import pytest

from bireme.kube.proxy import is_direct, proxy_for


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        ("https://c.example", {}, ""),
        ("https://c.example", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://c.example", {"https_proxy": "p:1"}, "http://p:1"),
        ("https://c.example", {"HTTP_PROXY": "http://p:1"}, ""),
        ("http://c.example", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("https://c.example", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "c.example"}, ""),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://localhost", {"HTTPS_PROXY": "http://p:1"}, ""),
    ],
)
def test_the_proxy_of_a_server(server: str, environ: dict[str, str], proxy: str) -> None:
    assert proxy_for(server, environ) == proxy


@pytest.mark.parametrize(
    ("host", "exceptions", "expected"),
    [
        ("a.example", "", False),
        ("a.example", "*", True),
        ("a.example", "b.example, a.example", True),
        ("a.example", "example", True),
        ("a.example", ".example", True),
        ("a.example", "*.example", True),
        ("example", "example", True),
        ("anexample", "example", False),
        ("A.Example", "a.EXAMPLE", True),
        ("a.example", "a.example:443", True),
        ("a.example", "a.example:6443", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "192.168.0.0/16", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.3:443", True),
        ("10.1.2.3", "10.1.2.3:80", False),
        ("10.1.2.3", "nonsense/8", False),
        ("fd00::1", "fd00::/8", True),
        ("fd00::1", "[fd00::1]:443", True),
        ("fd00::1", "fd00::1", True),
    ],
)
def test_what_is_reached_without_a_proxy(host: str, exceptions: str, expected: bool) -> None:
    assert is_direct(host, 443, exceptions) is expected
