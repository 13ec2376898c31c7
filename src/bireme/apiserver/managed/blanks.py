"""What an object is before anybody writes it.

Kubernetes' own kinds are Go structs there, and a struct has some of its fields whatever is written: these are
not new when an object is created. An object of a custom kind has none.
"""

from functools import lru_cache
from typing import Any, Final

from bireme.apiserver.managed.shapes import Same, Schema
from bireme.apiserver.rules import Object

_ZEROS: Final = {"string": "", "boolean": False, "integer": 0}
_NULLS: Final = ("eventTime", "firstTimestamp", "lastTimestamp", "rules")
_MOST: Final = 64


def blank(schema: Schema) -> Object:
    """A new object by the definition of its kind."""
    return _blank(Same(schema))


@lru_cache(_MOST)
def _blank(same: Same) -> Object:
    return _struct(same.schema)


def _struct(schema: Schema) -> Object:
    required = schema.get("required", ())
    made: dict[str, Any] = {}
    for name, child in schema.get("properties", {}).items():
        if child.get("default") == {} and "properties" in child:
            made[name] = _struct(child)
        elif name in required:
            made[name] = _ZEROS.get(child.get("type", ""))
        elif "default" in child and child["default"] == _ZEROS.get(child.get("type", "")):
            made[name] = child["default"]
        elif name in _NULLS:
            made[name] = None
    return made
