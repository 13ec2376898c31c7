"""What form an answer takes: the object, a Table for people, or its metadata alone."""

from functools import lru_cache
from typing import Final, NamedTuple

from bireme.apiserver import errors

JSON: Final = "application/json"
_ACCEPTABLE: Final = (JSON, "application/*", "*/*", "text/html")
_FORMS: Final = {
    "": "object",
    "Table": "table",
    "PartialObjectMetadata": "partial",
    "PartialObjectMetadataList": "partial",
}
_MOST_KNOWN: Final = 256
_META: Final = {"v1": ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")}


class Accepted(NamedTuple):
    """One of the media types that a client takes, with its parameters."""

    media_type: str
    params: dict[str, str]


def read_accept(header: str) -> list[Accepted]:
    """The media types of an Accept header, the preferred ones first."""
    accepted = [_read_type(part) for part in header.split(",") if part.strip()]
    return sorted(accepted, key=lambda each: -_quality(each.params)) or [Accepted("*/*", {})]


@lru_cache(_MOST_KNOWN)
def choose_form(header: str) -> str:
    """`object`, `table` or `partial`: the first that can be served. Raises NotAcceptable."""
    for media_type, params in read_accept(header):
        if media_type not in _ACCEPTABLE:
            continue
        form = params.get("as", "")
        if not form:
            return "object"
        if params.get("g") == "meta.k8s.io" and form in _META.get(params.get("v", ""), ()):
            return _FORMS[form]
    raise errors.not_acceptable([JSON])


def _read_type(part: str) -> Accepted:
    media_type, *params = (piece.strip() for piece in part.split(";"))
    pairs = (param.partition("=") for param in params)
    return Accepted(media_type.lower(), {name.strip().lower(): value.strip() for name, _, value in pairs})


def _quality(params: dict[str, str]) -> float:
    try:
        return float(params.get("q", "1"))
    except ValueError:
        return 0.0
