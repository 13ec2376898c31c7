"""How names are put into sentences."""

import pytest

from bireme.admission.words import join


@pytest.mark.parametrize(
    ("words", "joined"),
    [
        ((), "none"),
        (("",), "none"),
        (("w", ""), "w"),
        (("http", "http", "", "UPPER"), "http or UPPER"),
        (("a", "b", "c"), "a, b or c"),
    ],
    ids=["nothing", "blank", "one and a blank", "twice", "three"],
)
def test_join_leaves_out_blanks_and_repetitions(words: tuple[str, ...], joined: str) -> None:
    assert join(words) == joined
