"""GenericJob's variables in commands, arguments and environment values.

`$(type)`, `$(rank)`, `$(replicas[TYPE])`, `$(service.TYPE[RANK].host)` and `$(service.port[NAME])` are
ours. Any other `$(NAME)`, and everything behind `$$`, is left to Kubernetes, byte for byte.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

# `$$` first, so that an escaped `$$(rank)` is never taken for ours.
_REFERENCE: Final = re.compile(r"\$\$|\$\(([^()]*)\)")
_RANK: Final = "$(rank)"
_REPLICAS: Final = re.compile(r"replicas\[([^\[\]]*)\]")
_HOST: Final = re.compile(r"service\.([^\[\].]*)\[([^\[\]]*)\]\.host")
_PORT: Final = re.compile(r"service\.port\[([^\[\]]*)\]")


class Type(msgspec.Struct, frozen=True):
    """`$(type)`: the replica's own type."""


class Rank(msgspec.Struct, frozen=True):
    """`$(rank)`: the replica's index among those of its type."""


class Replicas(msgspec.Struct, frozen=True):
    """`$(replicas[TYPE])`: how many replicas of that type there are."""

    type: str


class Host(msgspec.Struct, frozen=True):
    """`$(service.TYPE[RANK].host)`: the host name of a replica."""

    type: str
    rank: str


class Port(msgspec.Struct, frozen=True):
    """`$(service.port[NAME])`: the number of a service port."""

    name: str


Variable = Type | Rank | Replicas | Host | Port


class VariableGuide(NamedTuple):
    """What users read of the variables of a kind: each with its meaning, and the rules for all."""

    variables: tuple[tuple[str, str], ...]
    rules: str


def _documented(variable: type[msgspec.Struct]) -> tuple[str, str]:
    name, _, meaning = (variable.__doc__ or "").partition(": ")
    return name.strip("`"), meaning.removesuffix(".")


GUIDE: Final = VariableGuide(
    tuple(_documented(each) for each in (Type, Rank, Replicas, Host, Port)),
    "Variables are replaced in `command`, `args` and the values of `env` of every container, init"
    " containers included, and in the commands of `spec.runMode`. `$(service.…)` needs `spec.service`. A job"
    " with a variable that cannot be resolved is refused. `$$(rank)` is not replaced: the program sees"
    " `$(rank)`. Any other `$(NAME)` is a variable of the container's environment, as in every pod. In a YAML"
    " list in brackets, quote a variable that has brackets itself.",
)


def parse_variable(name: str) -> Variable | None:
    """Read what stands between `$(` and `)`; None if it is not one of ours."""
    if name == "type":
        return Type()
    if name == "rank":
        return Rank()
    if match := _REPLICAS.fullmatch(name):
        return Replicas(match[1])
    if match := _PORT.fullmatch(name):
        return Port(match[1])
    if match := _HOST.fullmatch(name):
        return Host(match[1], match[2])
    return None


def find_variables(text: str) -> Iterator[tuple[str, Variable | None]]:
    """Every `$(NAME)` that is not escaped: its name, and the variable if it is one of ours."""
    for match in _REFERENCE.finditer(text):
        if match[1] is not None:
            yield match[1], parse_variable(match[1])


def split_at_rank(text: str) -> list[str]:
    """Return the parts of a text between its `$(rank)`; one part if there is none."""
    parts, start = [], 0
    for match in _REFERENCE.finditer(text) if _RANK in text else ():
        if match[0] == _RANK:
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


def expand(text: str, resolve: Callable[[Variable], str]) -> str:
    """Replace our variables; leave everything else as it is."""

    def replace(match: re.Match[str]) -> str:
        variable = parse_variable(match[1]) if match[1] is not None else None
        return match[0] if variable is None else resolve(variable)

    return _REFERENCE.sub(replace, text) if "$(" in text else text
