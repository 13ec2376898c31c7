"""The columns of Kubernetes' own kinds, as kube-apiserver 1.36 describes them."""

import pkgutil
from typing import Any, Final

import msgspec

from bireme.apiserver.rules import Object


def _document() -> dict[str, list[Any]]:
    data = pkgutil.get_data("bireme.apiserver.printing", "columns.json")
    assert data is not None, "columns.json is part of the package"
    document: dict[str, list[Any]] = msgspec.json.decode(data)
    return document


_DOCUMENT: Final = _document()
_SHARED: Final[dict[str, Object]] = {column["name"]: column for column in _DOCUMENT["shared"]}
NAME: Final = _SHARED["Name"]
AGE: Final = _SHARED["Age"]
CREATED_AT: Final = _SHARED["Created At"]


def columns_of(resource: str) -> list[Object]:
    """The columns of a resource that has any of its own; a column that many have stands there by its name."""
    return [_SHARED[each] if isinstance(each, str) else each for each in _DOCUMENT[resource]]
