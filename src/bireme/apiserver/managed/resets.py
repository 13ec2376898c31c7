"""What a write may say, but the server puts back: nobody owns it by such a write."""

from functools import cache
from typing import Final

from bireme.apiserver.kinds import Kind

Paths = tuple[tuple[str, ...], ...]

_STATUS: Final[Paths] = (("status",),)
_SPEC: Final[Paths] = (("spec",),)
_POD_STATUS: Final[Paths] = (("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences"))


def reset_fields(kind: Kind, subresource: str = "") -> Paths:
    """The paths, by names of fields, that a write to a kind or to a subresource of it does not own."""
    if not kind.has_status:
        return ()
    return _reset(kind.resource, subresource, kind.custom)


@cache
def _reset(resource: str, subresource: str, custom: bool) -> Paths:
    if subresource != "status":
        return _STATUS
    if custom:
        return (("metadata",), *_SPEC)
    return _POD_STATUS if resource == "pods" else _SPEC
