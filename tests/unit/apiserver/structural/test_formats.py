"""The formats of strings."""

import time

import pytest

from bireme.apiserver.structural.formats import MOST_LETTERS, known, of_text
from support.custom_schemas import TEXTS

FORMATS = {name: texts for name, texts in TEXTS.items() if known(("string",), name)}


@pytest.mark.parametrize("name", FORMATS)
def test_texts_have_their_formats(name: str) -> None:
    has_format = of_text(name)
    assert has_format is not None
    good, bad = FORMATS[name]
    assert [text for text in good if not has_format(text)] == []
    assert [text for text in bad if has_format(text)] == []


@pytest.mark.parametrize(
    ("types", "name", "heeded"),
    [
        (("string",), "date-time", True),
        (("string",), "int32", False),
        (("integer",), "int32", True),
        (("integer",), "uuid", False),
        (("number",), "double", True),
        (("object",), "uuid", False),
        (("integer", "string"), "uuid", True),
        ((), "k8s-short-name", True),
    ],
)
def test_formats_are_heeded_where_they_fit_the_type(types: tuple[str, ...], name: str, heeded: bool) -> None:
    assert (known(types, name) == name) is heeded


HOSTILE = {
    "zeros": "0" * 3_000_000,
    "spaces": " " * 3_000_000,
    "dashes": "978-" + "-" * 3_000_000,
    "letters": "a" * 3_000_000,
    "labels": "a." * 1_500_000,
    "durations": "1s" * 1_500_000 + "!",
    "numbers": "1 " * 1_500_000,
    "dots": "1." * 1_500_000,
    "colons": "1:" * 1_500_000,
    "addresses": "a@" * 1_500_000,
    "brackets": "(" * 3_000_000,
    "angles": "<" * 2_000_000 + ">" * 1_000_000,
    "quotes": '"' * 3_000_000,
    "commas": "a," * 1_500_000,
    "percents": "%41" * 1_000_000,
    "base64": "QUJD" * 750_000 + "=",
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_takes_a_format_long(name: str, text: str) -> None:
    has_format = of_text(name)
    assert has_format is not None
    for size in (MOST_LETTERS, len(text)):
        begun = time.process_time()
        has_format(text[:size])
        assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    ("text", "good"), [("0", True), ("+0", True), ("00", False), ("1h2m.5s", True), ("7", False)]
)
def test_durations_are_those_of_go(text: str, good: bool) -> None:
    has_format = of_text("duration")
    assert has_format is not None
    assert has_format(text) is good
