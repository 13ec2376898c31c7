"""How a kind is written down once and serves as type, codec, CRD schema and documentation.

A kind is a frozen msgspec struct. Each field carries its description and the constraints of its
schema through `field`. Constraints bind at admission, not in the decoder: a controller must be able
to read an invalid job in order to say what is wrong with it.
"""

from typing import Any

import msgspec


class Model(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of every API struct: immutable, camelCase on the wire, unset fields left out."""


class Rule(msgspec.Struct, frozen=True):
    """A CEL rule of the CRD, for what a schema alone can't say."""

    expression: str
    message: str
    field_path: str | None = None


def immutable(name: str) -> Rule:
    """A rule that a field stays as it was, absent or present.

    The cost of a comparison is estimated from the schema's size limits, so it can be had only for
    fields without unbounded lists or texts; admission holds the rest.
    """
    unchanged = f"(!has(self.{name}) || self.{name} == oldSelf.{name})"
    expression = f"has(self.{name}) == has(oldSelf.{name}) && {unchanged}"
    return Rule(expression, f"{name} can't change after creation", f".{name}")


def field(description: str, /, *, required: bool = False, **schema: Any) -> msgspec.Meta:
    """Describe a field; `schema` takes OpenAPI keywords.

    Example: `Annotated[int, field("Number of workers.", minimum=1)]`.
    """
    extra = {**schema, "x-bireme-required": True} if required else schema
    return msgspec.Meta(description=description, extra_json_schema=extra)


def kube(definition: str, description: str, /, *, required: bool = False) -> msgspec.Meta:
    """Describe a field whose schema is a Kubernetes type, such as `PodTemplateSpec`."""
    return field(description, required=required, **{"x-bireme-kube": definition})
