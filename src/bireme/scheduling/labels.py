"""Which labels, nodes and taints are meant: Kubernetes' selectors, decided."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Labels = Mapping[str, str]
Selector = Mapping[str, Any]

_PARTS: Final = ("matchLabels", "matchExpressions")
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")


def selects(selector: Selector | None, labels: Labels) -> bool:
    """Whether a LabelSelector selects these labels: None nothing, `{}` everything.

    A selector that cannot be read selects nothing: what it was meant to leave out is not known.
    """
    if selector is None or selector_problem(selector):
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(holds(each, labels) for each in selector.get("matchExpressions") or ())


def selector_problem(selector: Any) -> str:
    """Say why a LabelSelector cannot be read; empty if it can.

    Webhooks may have been down when a Queue was written.
    """
    if not isinstance(selector, Mapping):
        return f"{selector!r} is not an object"
    for key in selector:
        if key not in _PARTS:
            return f"{key} is neither matchLabels nor matchExpressions"
    pairs, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or ()
    if not isinstance(pairs, Mapping) or not all(isinstance(each, str) for each in pairs.values()):
        return "matchLabels is not a map of strings"
    if not isinstance(expressions, list | tuple):
        return "matchExpressions is not a list"
    return next((problem for each in expressions if (problem := _expression_problem(each))), "")


def _expression_problem(expression: Any) -> str:
    if not isinstance(expression, Mapping) or not {"key", "operator"} <= set(expression):
        return "an entry of matchExpressions lacks its key or its operator"
    if unknown := sorted(set(expression) - {"key", "operator", "values"}):
        return f"{unknown[0]} is no part of an entry of matchExpressions"
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or ()
    if not isinstance(key, str) or not isinstance(values, list | tuple):
        return "an entry of matchExpressions has a key that is no string, or values that are no list"
    if operator in ("In", "NotIn"):
        return "" if values else f"operator {operator} on {key} has no values"
    if operator in ("Exists", "DoesNotExist"):
        return f"operator {operator} on {key} takes no values" if values else ""
    return f"operator {operator} on {key} is not one of In, NotIn, Exists, DoesNotExist"


def holds(requirement: Mapping[str, Any], labels: Labels) -> bool:
    """Whether labels meet a requirement; an operator that is not known selects nothing."""
    holds = _OPERATORS.get(requirement["operator"])
    return holds is not None and holds(labels.get(requirement["key"]), requirement.get("values") or ())


def _compare(value: str | None, values: Sequence[str]) -> int:
    """The difference of two whole numbers; 0 if they are not that."""
    texts = (value or "", values[0] if values else "")
    return int(texts[0]) - int(texts[1]) if all(map(_WHOLE.fullmatch, texts)) else 0


def _greater(value: str | None, values: Sequence[str]) -> bool:
    return _compare(value, values) > 0


def _less(value: str | None, values: Sequence[str]) -> bool:
    return _compare(value, values) < 0


_OPERATORS: Final[dict[str, Callable[[str | None, Sequence[str]], bool]]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": _greater,
    "Lt": _less,
}


def term_selects(term: Mapping[str, Any], name: str, labels: Labels) -> bool:
    """Whether one term of a NodeSelector selects a node; an empty term selects none."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(holds(each, labels) for each in expressions) and all(
        holds(each, {"metadata.name": name}) for each in fields
    )


def any_term_selects(terms: Sequence[Mapping[str, Any]], name: str, labels: Labels) -> bool:
    """Whether a NodeSelector, whose terms are alternatives, selects a node."""
    return any(term_selects(term, name, labels) for term in terms)


def tolerates(tolerations: Sequence[Mapping[str, Any]], taint: Mapping[str, str]) -> bool:
    """Whether one of the tolerations bears with the taint."""
    return any(_bears(each, taint) for each in tolerations)


def _bears(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint["effect"]:
        return False
    if key and key != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(key) and toleration.get("value", "") == taint.get("value", "")
