"""What holds for every text: reading never fails, and an edit changes only its own value."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bireme.manifest import Document, Manifest, Path, apply_edits, quote_scalar, read, rename_key, split_item
from bireme.manifest.parsers import PurePythonParser

VALID = """\
# a comment
a: 1
"b c": [x, "y", 'z', {q: r}]
list:
  - d: e  # another
    f: |
      text
       more
  - &anchor
    h: yes
    i: {k: l, m: 010}
n: *anchor
o: {<<: *anchor, p: "q\\n"}
? complex
: value
r: !!str 12
---
{"json": [1, 2.5, "\\u00e9", null, true]}
"""
PIECES = [
    *"\t\n\r []{}:,-?#&*!|>'\"%@`~=<.\\0é\x85\u2028\ufeff😀",
    "\n---\n",
    "\n...\n",
    "<<: *anchor",
    "- ",
    ": ",
    "\r\n",
]

words = st.sampled_from(
    [
        "yes",
        "8080",
        "1e3",
        "a",
        "a b",
        "it's",
        'say "x"',
        "c:\\d",
        "é😀",
        "-x",
        "--flag=1",
        "null",
        "0x1f",
        "x: z",
        "# no",
        "*",
        "🙂",
    ]
)
names = st.one_of(
    words, st.text(max_size=8).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text))
)
plain = st.sampled_from(
    [
        "yes",
        "8080",
        "1e3",
        "a",
        "a b",
        "it's",
        'x "y"',
        "c:\\d",
        "é😀",
        "-x",
        "null",
        "0x1f",
        "~",
        ".5",
        "x#y",
    ]
)


@st.composite
def mutations(draw: st.DrawFn) -> str:
    text = VALID
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 5)))
        text = text[:start] + draw(st.sampled_from(["", *PIECES])) + text[end:]
    return text


@st.composite
def manifests(draw: st.DrawFn) -> str:
    """A mapping of plain scalars, blocks and flows, with comments and odd spacing."""
    line_break = draw(st.sampled_from(["\n", "\r\n"]))
    lines = []
    for number in range(draw(st.integers(1, 5))):
        comment = draw(st.sampled_from(["", "  # é: comment", " #"]))
        gap = draw(st.sampled_from([" ", "   "]))
        value = draw(plain)
        shape = draw(
            st.sampled_from(
                ["k{n}:{g}{v}{c}", "k{n}:{g}{{f:{g}{v} }}{c}", "k{n}:{c}|  -{g}{v}{c}|  - [{v} , 1]"]
            )
        )
        lines += shape.format(n=number, g=gap, v=value, c=comment).split("|")
    return draw(st.sampled_from(["", "\ufeff", "# é" + line_break])) + line_break.join([*lines, ""])


def check(manifest: Manifest) -> None:
    for problem in manifest.problems:
        assert 0 <= problem.span.start <= problem.span.end <= len(manifest.text)
        assert "\n" not in problem.message
    for document in manifest.documents:
        json.dumps(document.value).encode()
        for path in leaves(document.value):
            span = document.find(path)
            assert span is not None
            assert 0 <= span.start <= span.end <= len(manifest.text)
            assert document.find_key(path) is not None


def leaves(value: object, path: Path = ()) -> list[Path]:
    if isinstance(value, dict):
        return [found for key, part in value.items() for found in leaves(part, (*path, key))]
    if isinstance(value, list):
        return [found for index, part in enumerate(value) for found in leaves(part, (*path, index))]
    return [path]


def changed(value: Any, path: Path, change: Any) -> Any:
    """A copy of the value in which change was applied to the parent of the path."""
    result = copy.deepcopy(value)
    parent = result
    for element in path[:-1]:
        parent = parent[element]
    change(parent, path[-1])
    return result


def only(text: str) -> Document:
    manifest = read(text)
    assert manifest.problems == ()
    return manifest.documents[0]


@given(st.binary(max_size=200))
def test_any_bytes_are_read(source: bytes) -> None:
    check(read(source))


@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_any_text_is_read(source: str) -> None:
    check(read(source))


@given(mutations())
def test_any_mutation_of_a_valid_manifest_is_read(source: str) -> None:
    check(read(source))
    check(read("{" + source))


@given(mutations())
def test_any_mutation_is_read_without_libyaml(source: str) -> None:
    check(read(source, parser=PurePythonParser))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | names,
        lambda inner: st.lists(inner) | st.dictionaries(names, inner),
        max_leaves=8,
    )
)
def test_json_is_read_as_json(value: object) -> None:
    assert [document.value for document in read(json.dumps({"v": value})).documents] == [{"v": value}]


@given(manifests(), st.data())
def test_quoting_changes_one_value_into_its_text(text: str, data: st.DataObject) -> None:
    document = only(text)
    path = data.draw(st.sampled_from(leaves(document.value)))
    edit = quote_scalar(document, path)
    assert edit is not None
    after = apply_edits(text, [edit])
    assert after.startswith(text[: edit.start])
    assert after.endswith(text[edit.end :])

    def quote(parent: Any, key: Any) -> None:
        parent[key] = text[edit.start : edit.end]

    assert only(after).value == changed(document.value, path, quote)


@given(manifests(), names, st.data())
def test_renaming_changes_one_key(text: str, new: str, data: st.DataObject) -> None:
    document = only(text)
    assert isinstance(document.value, dict)
    path = (data.draw(st.sampled_from(sorted(document.value))),)
    edit = rename_key(document, path, new)
    assert (edit is None) == (new in document.value)
    if edit is None:
        return
    after = apply_edits(text, [edit])
    assert after.startswith(text[: edit.start])
    assert after.endswith(text[edit.end :])

    def rename(parent: Any, key: Any) -> None:
        parent[new] = parent.pop(key)

    assert only(after).value == changed(document.value, path, rename)


@given(manifests(), st.lists(names, min_size=1, max_size=4), st.data())
def test_splitting_puts_the_same_strings_in_place_of_one(
    text: str, parts: list[str], data: st.DataObject
) -> None:
    document = only(text)
    path = data.draw(st.sampled_from(leaves(document.value)))
    edit = split_item(document, path, parts)
    assert (edit is None) == isinstance(path[-1], str)
    if edit is None:
        return

    def split(parent: Any, index: Any) -> None:
        parent[index : index + 1] = parts

    assert only(apply_edits(text, [edit])).value == changed(document.value, path, split)
