"""No text from outside makes a terminal do anything."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.terminal_text import escape_json, neutralise, one_line

HOSTILE = {
    "title": "\x1b]0;title\x07",
    "clear": "\x1b[2J\x1b[H",
    "8-bit CSI": "\x9b31m",
    "8-bit OSC": "\x9d0;t\x9c",
    "device query": "\x1b[6n",
    "carriage return": "deleted\rcreated",
    "backspace": "a\x08b",
    "bell": "\x07",
    "NUL": "\0",
    "DEL": "a\x7fb",
    "NEL": "a\x85b",
    "override": "a\u202eb",
    "isolate": "a\u2066b\u2069",
    "marks": "a\u200e\u200f\u061cb",
    "line separator": "a\u2028b\u2029c",
    "surrogate": "a\ud800b",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_terminal_obeys_becomes_visible(name: str) -> None:
    for shown in (neutralise(HOSTILE[name]), one_line(HOSTILE[name])):
        assert "\ufffd" in shown
        assert shown.isprintable()
        shown.encode()


def test_ordinary_text_stays() -> None:
    text = "naïve 日本語 العربية \u00a0\u3000 👩\u200d🚀\n\ttab"
    assert neutralise(text) == text
    assert neutralise("a\r\nb\r\n") == "a\nb\n"
    assert one_line("a\n\tb") == "a\ufffd\ufffdb"


@given(st.text())
def test_nothing_that_is_left_is_a_control_character(text: str) -> None:
    assert {char for char in neutralise(text) if unicodedata.category(char) in ("Cc", "Cs")} <= {"\n", "\t"}
    assert not {char for char in one_line(text) if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")}
    assert neutralise(neutralise(text)) == neutralise(text)


@given(st.recursive(st.text(), lambda each: st.lists(each) | st.dictionaries(st.text(), each), max_leaves=5))
def test_json_means_the_same_with_escapes(data: object) -> None:
    text = escape_json(json.dumps(data, ensure_ascii=False))
    assert json.loads(text) == data
    assert neutralise(text) == text
