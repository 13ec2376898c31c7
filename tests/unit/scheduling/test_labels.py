"""What a LabelSelector selects, also one that no webhook has checked."""

from typing import Any

import pytest

from bireme.scheduling.labels import selector_problem, selects

LABELS = {"team": "research", "zone": "mars"}


@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"matchLabels": {"team": "research"}},
        {"matchLabels": None, "matchExpressions": None},
        {"matchExpressions": [{"key": "team", "operator": "In", "values": ["research", "sales"]}]},
        {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["sales"]}]},
        {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist", "values": []}]},
    ],
    ids=lambda selector: str(selector),
)
def test_readable_selector_selects_matching_labels(selector: dict[str, Any]) -> None:
    assert selects(selector, LABELS)
    assert not selector_problem(selector)


@pytest.mark.parametrize(
    "selector",
    [
        {"team": "research"},
        {"matchLabels": {"team": "research"}, "zone": "mars"},
        {"matchLabels": "team"},
        {"matchLabels": {"team": 1}},
        {"matchExpressions": {"key": "team"}},
        {"matchExpressions": ["team"]},
        {"matchExpressions": [{"key": "team"}]},
        {"matchExpressions": [{"operator": "Exists"}]},
        {"matchExpressions": [{"key": "team", "operator": "Within", "values": ["research"]}]},
        {"matchExpressions": [{"key": "gpus", "operator": "Gt", "values": ["1"]}]},
        {"matchExpressions": [{"key": "team", "operator": "In"}]},
        {"matchExpressions": [{"key": "other", "operator": "NotIn", "values": []}]},
        {"matchExpressions": [{"key": "team", "operator": "Exists", "values": ["research"]}]},
        {"matchExpressions": [{"key": "team", "operator": "Exists", "value": "x"}]},
        {"matchExpressions": [{"key": "team", "operator": "In", "values": "research"}]},
        ["team"],
    ],
    ids=lambda selector: str(selector),
)
def test_unreadable_selector_selects_nothing(selector: Any) -> None:
    assert selector_problem(selector)
    assert not selects(selector, LABELS | {"gpus": "8"})
    assert not selects(selector, {})
