"""PriorityClasses: which pods go first."""

from collections.abc import Iterator
from typing import Final

from bireme.apiserver import checks
from bireme.apiserver.errors import FieldError, forbidden_value
from bireme.apiserver.rules import Object, Rules

HIGHEST: Final = 1_000_000_000
"""The highest that a user may define."""
PREEMPTING: Final = "PreemptLowerPriority"
_SYSTEM: Final = "system-"
_POLICIES: Final = ("Never", PREEMPTING)

BUILT_IN: Final[tuple[Object, ...]] = (
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "system-node-critical"},
        "value": 2_000_001_000,
        "description": "Used for system critical pods that must not be moved from their current node.",
    },
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "system-cluster-critical"},
        "value": 2_000_000_000,
        "description": "Used for system critical pods that must run in the cluster, but can be moved to"
        " another node if necessary.",
    },
)
"""Classes that every server has from its start; they can be created like any other."""
_VALUES: Final = {each["metadata"]["name"]: each["value"] for each in BUILT_IN}


class PriorityClassRules(Rules):
    """The rules of PriorityClasses: their value stays."""

    def default(self, new: Object) -> None:
        new["value"] = new.get("value") or 0
        new["preemptionPolicy"] = new.get("preemptionPolicy") or PREEMPTING

    def prepare_create(self, new: Object) -> None:
        # It never grows: a change of the metadata or the description is none of the spec.
        new["metadata"]["generation"] = 1

    def problems(self, new: Object, old: Object | None) -> list[FieldError]:
        return [] if old is None else list(_changes(new, old))

    def content_problems(self, new: Object, old: Object | None) -> list[FieldError]:
        return list(_new_problems(new)) if old is None else []


def _new_problems(new: Object) -> Iterator[FieldError]:
    name, value = new["metadata"].get("name", ""), new["value"]
    if name.startswith(_SYSTEM):
        if problem := _system_problem(name, value, is_default=bool(new.get("globalDefault"))):
            reserved = f"priority class names with '{_SYSTEM}' prefix are reserved for system use only"
            yield forbidden_value("metadata.name", f"{reserved}. error: {problem}")
    elif value > HIGHEST:
        yield forbidden_value("value", f"maximum allowed value of a user defined priority is {HIGHEST}")
    yield from checks.one_of("preemptionPolicy", new["preemptionPolicy"], _POLICIES)


def _system_problem(name: str, value: int, *, is_default: bool) -> str:
    if name not in _VALUES:
        return f"{name} is not a known system priority class"
    if value != _VALUES[name]:
        return f"value of {name} PriorityClass must be {_VALUES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def _changes(new: Object, old: Object) -> Iterator[FieldError]:
    if new["value"] != old["value"]:
        yield forbidden_value("value", "may not be changed in an update.")
    yield from checks.immutable("preemptionPolicy", new["preemptionPolicy"], old["preemptionPolicy"])
