"""What another gang engine needs of an installation: rights on its PodGroups, and classes of priority."""

from typing import Final

from bireme.installation.expressions import Is, Not, Value
from bireme.installation.names import WATCHED
from bireme.installation.parts import Part, Tree, metadata
from bireme.installation.rbac import READ, Rule, cluster_grant, grant

ENGINE: Final = Value("gangEngine")
GROUPS: Final = {
    "volcano": "scheduling.volcano.sh",
    "coscheduling": "scheduling.x-k8s.io",
    "native": "scheduling.k8s.io",
}
"""The API groups of the engines' PodGroups."""
PRIORITIES: Final = range(1, 101)
"""Priority 0 names no class."""


def build_engines() -> list[Part]:
    """Nothing for our own scheduler."""
    rights = [part for engine, group in GROUPS.items() for part in _rights(engine, group)]
    elsewhere = (Not(Is(ENGINE, "bireme")), Not(Is(ENGINE, "t9k")), Not(Is(ENGINE, "kueue")), Not(WATCHED))
    classes = [Part(_priority_class(priority), elsewhere) for priority in PRIORITIES]
    kueue = (Is(ENGINE, "kueue"), Not(WATCHED))
    return [*rights, *classes, *(Part(_kueue_class(priority), kueue) for priority in PRIORITIES)]


def engine_rules(group: str) -> tuple[Rule, ...]:
    """What the controller may do with the PodGroups of an engine."""
    return (Rule(group, ("podgroups",), (*READ, "create", "patch", "delete"), "of queued jobs"),)


def _rights(engine: str, group: str) -> list[Part]:
    rules = engine_rules(group)
    name = f"bireme-{engine}"
    return [
        *cluster_grant(name, rules, Is(ENGINE, engine), Not(WATCHED)),
        *grant(name, rules, WATCHED, Is(ENGINE, engine), WATCHED),
    ]


def _priority_class(priority: int) -> Tree:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata(f"bireme-{priority}", "controller"),
        "value": priority,
        "description": f"Priority {priority} of jobs in queues.",
    }


def _kueue_class(priority: int) -> Tree:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": metadata(f"bireme-{priority}", "controller"),
        "value": priority,
        "description": f"Priority {priority} of jobs in queues.",
    }
