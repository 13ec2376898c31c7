"""The formats of strings."""

import pytest

from bireme.apiserver.structural.formats import known, of_text
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
