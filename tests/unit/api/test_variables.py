"""Variables of a GenericJob."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.api.variables import GUIDE, Host, Port, Rank, Replicas, Type, Variable, expand, find_variables


def name_of(variable: Variable) -> str:
    return f"<{variable!r}>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(type)-$(rank)", [Type(), Rank()]),
        ("$(replicas[worker])", [Replicas("worker")]),
        ("http://$(service.master[0].host):$(service.port[http])/", [Host("master", "0"), Port("http")]),
        ("$$(rank)", []),
        ("$$$(rank)", [Rank()]),
        ("$(HOME) $(ranks) $(service.worker.host)", [None, None, None]),
        ("$(rank", []),
        ("$rank", []),
    ],
)
def test_our_forms_are_found_and_escaped_ones_are_not(text: str, expected: list[Variable | None]) -> None:
    assert [variable for _, variable in find_variables(text)] == expected


def test_everything_else_stays_byte_for_byte() -> None:
    text = "$(HOME) $$(rank) $(rank) $$ $( $(a b) $(service.worker.host)"
    assert expand(text, lambda _: "7") == "$(HOME) $$(rank) 7 $$ $( $(a b) $(service.worker.host)"


@given(st.text(alphabet="$()rank x[]", max_size=30))
def test_a_text_without_variables_is_never_changed(text: str) -> None:
    if all(variable is None for _, variable in find_variables(text)):
        assert expand(text, name_of) == text


def test_the_guide_names_every_variable() -> None:
    kinds = [type(variable) for name, _ in GUIDE.variables for _, variable in find_variables(name)]
    assert kinds == [Type, Rank, Replicas, Host, Port]
