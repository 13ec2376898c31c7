"""The names of images, as far as they decide when an image is pulled."""

import re
from functools import lru_cache
from typing import Final

_PART: Final = r"[a-z0-9]+(?:(?:\.|__|_|-+)[a-z0-9]+)*"
_HOST: Final = r"(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9])"
_DOMAIN: Final = re.compile(rf"(?:{_HOST}(?:\.{_HOST})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REST: Final = re.compile(rf"({_PART}(?:/{_PART})*)(?::(\w[\w.-]{{0,127}}))?(?:@({_DIGEST}))?", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")
_LONGEST: Final = 255
_IMPLIED_DOMAIN: Final = "docker.io"
_IMPLIED_FOLDER: Final = "library/"


@lru_cache(1024)
def pull_policy(image: str) -> str:
    """When an image is pulled, where nobody says; a name that can't be read is not `latest`."""
    return "Always" if _tag(image) == "latest" else "IfNotPresent"


def _tag(image: str) -> str:
    if _IDENTIFIER.fullmatch(image):
        return ""
    domain, rest = _split(image)
    match = _REST.fullmatch(rest)
    if match is None or _DOMAIN.fullmatch(domain) is None or len(domain) + 1 + len(match[1]) > _LONGEST:
        return ""
    return match[2] or ("" if match[3] else "latest")


def _split(image: str) -> tuple[str, str]:
    """The registry, which may be left out, and the rest."""
    first, slash, rest = image.partition("/")
    if slash and (set(first) & set(".:") or first == "localhost" or first != first.lower()):
        return first, rest
    return _IMPLIED_DOMAIN, image if slash else _IMPLIED_FOLDER + image
