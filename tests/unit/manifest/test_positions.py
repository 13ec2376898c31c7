"""Where a value, a key or a missing field is said to be."""

import pytest

from bireme.manifest import Document, Path, Span, format_path, read

POD = """\
# one
kind: Pod
spec:
  containers:
    - name: a
      args: [--x, "é😀", {k: 1}]  # mixed
    - name: b
  note: |
    text
    text

  empty:
last: 'x'
"""


def only(source: str | bytes) -> Document:
    manifest = read(source)
    assert manifest.problems == ()
    assert len(manifest.documents) == 1
    return manifest.documents[0]


def shown(text: str, span: Span | None) -> str:
    assert span is not None
    return f"{span.line}:{span.column} {text[span.start : span.end]}"


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        (("kind",), "2:1 kind", "2:7 Pod"),
        (("spec", "containers", 0, "name"), "5:7 name", "5:13 a"),
        (("spec", "containers", 0, "args"), "6:7 args", '6:13 [--x, "é😀", {k: 1}]'),
        (("spec", "containers", 0, "args", 1), '6:19 "é😀"', '6:19 "é😀"'),
        (("spec", "containers", 0, "args", 2, "k"), "6:26 k", "6:29 1"),
        (("spec", "containers", 1), "7:7 name: b", "7:7 name: b"),
        (("spec", "note"), "8:3 note", "8:9 |\n    text\n    text"),
        (("spec", "empty"), "12:3 empty", "12:9 "),
        (("last",), "13:1 last", "13:7 'x'"),
    ],
    ids=lambda value: format_path(value) if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("line_break", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["bare", "mark"])
def test_a_value_and_its_key_are_found(path: Path, key: str, value: str, line_break: str, mark: str) -> None:
    text = mark + POD.replace("\n", line_break)
    document = only(text.encode())
    assert shown(text, document.find_key(path)) == key.replace("\n", line_break)
    assert shown(text, document.find(path)) == value.replace("\n", line_break)


def test_a_block_ends_with_its_last_value() -> None:
    document = only(POD)
    containers = document.find(("spec", "containers"))
    assert containers is not None
    assert (containers.line, containers.column, containers.end_line, containers.end_column) == (5, 5, 7, 14)
    assert document.span == document.find(())


@pytest.mark.parametrize(
    "path",
    [
        ("nothing",),
        ("spec", "containers", 2),
        ("spec", "containers", -1),
        ("spec", 0),
        ("kind", "x"),
        ("spec", "containers", "0"),
    ],
)
def test_a_path_that_does_not_exist_is_not_found(path: Path) -> None:
    document = only(POD)
    assert document.find(path) is None
    assert document.find_key(path) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("spec", "containers", 0, "image"), '5:7 name: a\n      args: [--x, "é😀", {k: 1}]'),
        (("spec", "containers", 7, "image"), "4:3 containers"),
        (("spec", "template", "spec", "x"), "3:1 spec"),
        (("metadata", "name"), "2:1 "),
        (("spec", "note"), "8:3 note"),
    ],
)
def test_a_missing_field_is_reported_at_the_nearest_key(path: Path, expected: str) -> None:
    assert shown(POD, only(POD).nearest(path)) == expected


def test_an_alias_is_found_where_it_is_used_and_its_inside_where_it_was_written() -> None:
    text = "a: &x\n  k: 1\nb: *x\nc: [*x]\n"
    document = only(text)
    assert shown(text, document.find(("b",))) == "3:4 *x"
    assert shown(text, document.find(("b", "k"))) == "2:6 1"
    assert shown(text, document.find_key(("c", 0, "k"))) == "2:3 k"
    assert shown(text, document.nearest(("b", "missing"))) == "3:1 b"


def test_a_merged_key_is_found_where_it_was_written() -> None:
    text = "a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  l: 3\n"
    document = only(text)
    assert document.value == {"a": {"k": 1, "l": 2}, "b": {"k": 1, "l": 3}}
    assert shown(text, document.find_key(("b", "k"))) == "1:8 k"
    assert shown(text, document.find(("b", "l"))) == "4:6 3"


def test_later_documents_have_positions_in_the_whole_file() -> None:
    text = "a: é\n---\n# c\n---\nb: 1\n...\n---\n\nc: 2\n"
    documents = read(text).documents
    assert [document.index for document in documents] == [0, 1, 2]
    assert shown(text, documents[1].find(("b",))) == "5:4 1"
    assert shown(text, documents[2].find_key(("c",))) == "9:1 c"
    assert shown(text, documents[2].span) == "9:1 c: 2"


def test_a_mark_before_a_later_document_is_no_part_of_it() -> None:
    text = "a: 1\n---\n\ufeffb: 2\n"
    documents = read(text).documents
    assert documents[1].value == {"b": 2}
    assert shown(text, documents[1].find(("b",))) == "3:5 2"


@pytest.mark.parametrize("between", ["", "\n", " ", "\n---\n", " --- # next\n"])
def test_json_has_positions_too(between: str) -> None:
    one = '{\n\t"a": "é",\n\t"b": [1, {"c": null}]\n}'
    text = one + between + one
    first, second = read(text).documents
    assert first.value == second.value == {"a": "é", "b": [1, {"c": None}]}
    assert shown(text, first.find_key(("b", 1, "c"))) == '3:12 "c"'
    assert shown(text, first.find(("b",))) == '3:7 [1, {"c": null}]'
    found = second.find(("b", 1, "c"))
    assert found is not None
    assert found.start == len(one + between) + one.index("null")


def test_text_decoded_from_utf_16_has_character_offsets() -> None:
    source = "a: 😀\nb: 2\n".encode("utf-16")
    manifest = read(source)
    assert manifest.text == "\ufeffa: 😀\nb: 2\n"
    assert shown(manifest.text, manifest.documents[0].find(("b",))) == "2:4 2"


def test_spans_count_carriage_returns_alone_as_lines() -> None:
    text = "a: 1\rb: 2\r"
    assert shown(text, only(text).find(("b",))) == "2:4 2"


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ((), ""),
        (("spec", "containers", 0, "name"), "spec.containers[0].name"),
        ((0, "a"), "[0].a"),
        (("metadata", "labels", "app.kubernetes.io/name"), "metadata.labels[app.kubernetes.io/name]"),
        (("a-b", "c_d", "0"), "a-b.c_d.0"),
        (("", "a b"), "[][a b]"),
    ],
)
def test_a_path_is_written_as_people_write_it(path: Path, written: str) -> None:
    assert format_path(path) == written
