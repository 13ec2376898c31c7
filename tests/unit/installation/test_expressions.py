"""Expressions: looked up for manifests, written down for Helm."""

from typing import Any

import pytest

from bireme.installation.chart import write_template
from bireme.installation.expressions import (
    Choice,
    FirstSet,
    Merged,
    Namespace,
    Not,
    Value,
    Version,
    World,
    as_helm,
    resolve,
    text,
)

WORLD = World({"a": {"b": "x", "on": True, "off": "", "map": {"k": "v"}}}, "place", "1.2")
CASES: dict[str, tuple[Any, Any, str]] = {
    "value": (Value("a.b"), "x", ".Values.a.b"),
    "namespace": (Namespace(), "place", ".Release.Namespace"),
    "version": (Version(), "1.2", ".Chart.AppVersion"),
    "text": (text("%s-%s", Value("a.b"), "y"), "x-y", '(printf "%v-%v" .Values.a.b "y")'),
    "first": (FirstSet(Value("a.off"), Version()), "1.2", "(.Values.a.off | default .Chart.AppVersion)"),
    "yes": (Choice(Value("a.on"), 1, 2), 1, "(ternary 1 2 (not (empty .Values.a.on)))"),
    "no": (Choice(Value("a.off"), [1], {}), {}, "(ternary (list 1) (dict) (not (empty .Values.a.off)))"),
    "not": (Not(Value("a.off")), True, "(empty .Values.a.off)"),
    "merged": (
        Merged({"k": "own"}, Value("a.map")),
        {"k": "own"},
        '(merge (dict "k" "own") .Values.a.map)',
    ),
}


@pytest.mark.parametrize(("tree", "value", "helm"), CASES.values(), ids=CASES)
def test_an_expression_has_a_value_and_is_written_for_helm(tree: Any, value: Any, helm: str) -> None:
    assert resolve({"here": [tree]}, WORLD) == {"here": [value]}
    assert as_helm(tree) == helm


def test_text_that_looks_like_a_template_comes_out_as_it_is() -> None:
    written = write_template({"legend": "{{kind}}", "name": Value("a.b")})
    assert written == "legend: '{{ \"{{\" }}kind}}'\nname: {{ toJson .Values.a.b }}\n"
