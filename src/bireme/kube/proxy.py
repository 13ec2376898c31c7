"""Which proxy a server is reached through, as Go's programs read it from the environment."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """The proxy's URL; empty if there is none for this server."""
    url = urlsplit(server)
    name = f"{url.scheme}_proxy"
    proxy = environ.get(name.upper()) or environ.get(name) or ""
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    port = url.port or (443 if url.scheme == "https" else 80)
    if not proxy or is_direct(url.hostname or "", port, exceptions):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def is_direct(host: str, port: int, exceptions: str) -> bool:
    """Whether NO_PROXY covers the host: by name, suffix, address or network, with or without a port."""
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    words = [word.strip().lower() for word in exceptions.split(",")]
    return any(_covers(word, host.lower(), address, port) for word in words if word)


def _covers(
    word: str, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, port: int
) -> bool:
    if word == "*":
        return True
    if address is not None and "/" in word:
        return _contains(word, address)
    name, colon, number = word.rpartition(":")
    if colon and number.isdigit() and (name.count(":") == 0 or name.startswith("[")):
        if int(number) != port:
            return False
        word = name
    word = word.strip("[]")
    if address is not None:
        return _address(word) == address
    suffix = word.removeprefix("*")
    return host == suffix or host.endswith(suffix if suffix.startswith(".") else f".{suffix}")


def _contains(word: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return address in ipaddress.ip_network(word, strict=False)
    except ValueError:
        return False


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
