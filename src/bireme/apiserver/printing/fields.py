"""Reads fields that may be of any type: what is of the wrong one is as good as absent."""

from typing import Any

from bireme.apiserver.rules import Object


def text(of: Object, key: str) -> str:
    value = of.get(key)
    return value if isinstance(value, str) else ""


def number(of: Object, key: str) -> int:
    value = of.get(key)
    return value if type(value) is int else 0


def mapping(of: Object, key: str) -> Object:
    value = of.get(key)
    return value if isinstance(value, dict) else {}


def present(of: Object, key: str) -> Object | None:
    """An object that says something by being there, be it empty."""
    value = of.get(key)
    return value if isinstance(value, dict) else None


def objects(of: Object, key: str) -> list[Object]:
    """The objects of a list."""
    value = of.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def texts(of: Object, key: str) -> list[str]:
    """The strings of a list."""
    value = of.get(key)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def text_map(of: Object, key: str) -> dict[str, str]:
    return {name: value for name, value in mapping(of, key).items() if isinstance(value, str)}


def name_of(obj: Object) -> str:
    return text(mapping(obj, "metadata"), "name")


def created(obj: Object) -> Any:
    """When an object was created, as it is written."""
    return mapping(obj, "metadata").get("creationTimestamp")


def has_condition(conditions: list[Object], condition: str) -> bool:
    """Whether a condition of this type is true."""
    return any(each.get("type") == condition and each.get("status") == "True" for each in conditions)
