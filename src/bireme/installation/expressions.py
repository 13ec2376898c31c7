"""Values that are not known yet: in a manifest they are looked up, in a chart Helm does that.

Builders put expressions where an installation may differ. `resolve` makes plain data of them, `as_helm` an
expression of Helm's template language; both say the same, which a test holds.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from bireme.installation.authority import Authority


class World(NamedTuple):
    """What expressions are looked up in."""

    values: Mapping[str, Any]
    namespace: str
    version: str
    authority: Authority = Authority()


class Expression(msgspec.Struct, frozen=True):
    """Base of all; two expressions that are written alike are equal."""


class Value(Expression, frozen=True):
    """A value that the user may set: `image.tag`."""

    path: str


class Namespace(Expression, frozen=True):
    """Where Bireme is installed."""


class Version(Expression, frozen=True):
    """Of Bireme, as of the chart's application."""


class AuthorityData(Expression, frozen=True):
    """A part of the webhooks' authority in base64; in a chart, of the variable that AUTHORITY_HELM sets."""

    part: Literal["certificates", "key"]


class Text(Expression, frozen=True):
    """Parts joined together; `%s` stands for the next of them."""

    format: str
    parts: tuple[Any, ...]


class MissingValueError(Exception):
    """A value that must be set is not; the message names it."""


class Required(Expression, frozen=True):
    """A value that must not be empty; the message says what to do."""

    value: Any
    message: str


class FirstSet(Expression, frozen=True):
    """The first that is not empty, else the second."""

    first: Any
    second: Any


class Choice(Expression, frozen=True):
    """One or the other, by whether the condition holds: a condition that is empty or false does not."""

    condition: Any
    yes: Any
    no: Any


class Not(Expression, frozen=True):
    """Whether a condition does not hold."""

    condition: Any


class Is(Expression, frozen=True):
    """Whether a value is this word."""

    value: Any
    word: str


class Merged(Expression, frozen=True):
    """One map with another's entries beside its own; its own win."""

    own: Any
    more: Any


def text(format: str, *parts: Any) -> Text:  # noqa: A002 - what it is called elsewhere
    return Text(format, parts)


def resolve(tree: Any, world: World) -> Any:
    """The tree as plain data."""
    match tree:
        case Expression():
            return _resolve(tree, world)
        case dict():
            return {key: resolve(child, world) for key, child in tree.items()}
        case list() | tuple():
            return [resolve(child, world) for child in tree]
        case _:
            return tree


def _resolve(expression: Expression, world: World) -> Any:  # noqa: C901 - one case for each kind
    match expression:
        case Value(path):
            return _value_at(world.values, path)
        case Namespace():
            return world.namespace
        case Version():
            return world.version
        case AuthorityData(part):
            return base64.b64encode(getattr(world.authority, part)).decode()
        case Text(template, parts):
            return template % tuple(str(resolve(part, world)) for part in parts)
        case Required(value, message):
            if not (found := resolve(value, world)):
                raise MissingValueError(message)
            return found
        case FirstSet(first, second):
            return resolve(first, world) or resolve(second, world)
        case Choice(condition, yes, no):
            return resolve(yes if resolve(condition, world) else no, world)
        case Not(condition):
            return not resolve(condition, world)
        case Is(value, word):
            return resolve(value, world) == word
        case Merged(own, more):
            return {**resolve(more, world), **resolve(own, world)}
    raise TypeError(expression)


def _value_at(values: Mapping[str, Any], path: str) -> Any:
    found: Any = values
    for name in path.split("."):
        found = found[name]
    return found


def as_helm(tree: Any) -> str:
    """The tree as an expression of Helm's template language, in brackets where it takes arguments."""
    match tree:
        case Expression():
            return _as_helm(tree)
        case dict():
            pairs = (f"{json.dumps(key)} {as_helm(child)}" for key, child in tree.items())
            return f"({' '.join(('dict', *pairs))})"
        case list() | tuple():
            return f"({' '.join(('list', *map(as_helm, tree)))})"
        case _:
            return json.dumps(tree)


def _as_helm(expression: Expression) -> str:  # noqa: C901 - one case for each kind
    match expression:
        case Value(path):
            return f".Values.{path}"
        case Namespace():
            return ".Release.Namespace"
        case Version():
            return ".Chart.AppVersion"
        case AuthorityData(part):
            return f"$authority.{part}"
        case Text(template, parts):
            # %v: numbers of values.yaml are floats to Helm.
            words = (json.dumps(template.replace("%s", "%v")), *map(as_helm, parts))
            return f"(printf {' '.join(words)})"
        case Required(value, message):
            return f"(required {json.dumps(message)} {as_helm(value)})"
        case FirstSet(first, second):
            return f"({as_helm(first)} | default {as_helm(second)})"
        case Choice(condition, yes, no):
            return f"(ternary {as_helm(yes)} {as_helm(no)} {_holds(condition)})"
        case Not(condition):
            return f"(empty {as_helm(condition)})"
        case Is(value, word):
            return f"(eq {as_helm(value)} {json.dumps(word)})"
        case Merged(own, more):
            return f"(merge {as_helm(own)} {as_helm(more)})"
    raise TypeError(expression)


def _holds(condition: Any) -> str:
    return f"(not (empty {as_helm(condition)}))"
