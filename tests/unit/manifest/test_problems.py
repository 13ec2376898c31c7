"""YAML that bites: each mistake is a problem at the right place, said in plain words."""

import pytest

from bireme.manifest import SyntaxProblem, read


def problems(source: str | bytes) -> list[str]:
    return [shown(problem) for problem in read(source).problems]


def shown(problem: SyntaxProblem) -> str:
    return f"{problem.span.line}:{problem.span.column}: {problem.message}"


BROKEN = {
    "a: 'x\nb: 1\n": "1:4: this quote is never closed",
    'a: "x\nb: 1\n': "1:4: this quote is never closed",
    "a:\n  - [1, 2\n": "2:5: `[` is never closed",
    "a: [1, 2\nb: 3\n": "2:2: expected `,` or `]`",
    "a: {x: 1\nb: 3\n": "2:2: expected `,` or `}`",
    "a: é\n b: 2\n": "2:3: `:` is not allowed here",
    "a: b: c\n": "1:5: `:` is not allowed here",
    "a:\n  b: 1\n c: 2\n": "3:2: this line does not fit the block it is in",
    "- a\nb: 1\n": "2:1: this line does not fit the block it is in",
    "a: 1\n- b\n": "2:1: this line does not fit the block it is in",
    "a: 'b' c\n": "1:8: unexpected text after the value",
    "a: 1\nb\nc: 1\n": "2:1: expected `:` after this key",
    "a: - b\n": "1:4: a list item is not allowed here",
    "a: @x\n": "1:4: `@` cannot start a value",
    "a: *\n": "1:4: expected a name after `*` or `&`",
    "a: |x\n  b\n": "1:5: unexpected text after `|` or `>`",
    'a: "\\d"\n': "1:5: unknown escape `\\d`",
    'a: "\\x1"\n': "1:5: `\\x1` needs more hexadecimal digits",
    'a: "\\ud800"\n': "1:5: `\\ud800` is not a character",
    "a: ]\n": "1:4: unexpected `]`",
    "a: [b, ,c]\n": "1:8: unexpected `,`",
    "a: !x!y z\n": "1:4: unknown tag",
    "a: ![ z\n": "1:4: this is not a tag",
    "  a: 1\nb: 2\n": "2:1: unexpected text after the end of the document",
    "a: [b?c]\n": "1:6: `?` is not allowed in unquoted text inside brackets",
    "a:\n\tb: 1\n": "2:1: a tab in the indentation",
    "a:\n  b: 1\n\tc: 1\n": "3:1: a tab in the indentation",
    "a: |\n\tx\n": "2:1: a tab in the indentation",
    "-\tb\n": "1:2: a tab is not allowed here",
    "x: 1\n...\ny: 2\n": "3:1: kubectl ignores what follows `...`",
    "%YAML 1.2\n---\na: 1\n": "1:1: kubectl cannot read a file with the directive `%YAML`",
    "a: 1\n--- b\n": "2:4: kubectl allows only a comment after `---`",
    "a: b\x00\n": "1:5: the control character U+0000 is not allowed",
    "a: é\x1b\n": "1:5: the control character U+001B is not allowed",
    '{"a": 1': "1:1: `{` is never closed",
    '{"a": [1, 2}': "1:12: expected `,` or `]`",
    '{"a" 1}': "1:6: expected `:` after the key",
    '{"a": tru}}': "1:7: expected a value",
    '{"a": "x"}\n{"b: 1}': "2:2: this string is not closed, or holds a control character",
    "a: !Ref b\n": "1:4: unknown tag `!Ref`",
    "a: !!python/name:x b\n": "1:4: unknown tag `!!python/name:x`",
    "a: !Sub [b]\n": "1:4: unknown tag `!Sub`",
    "a: *b\n": "1:4: `*b` has no anchor `&b` before it in this document",
    "a: &b [*b]\n": "1:8: the anchor `&b` contains itself",
    "a: &b {c: {<<: *b}}\n": "1:16: the anchor `&b` contains itself",
    "? [a]\n: 1\n": "1:3: a list cannot be a key",
    "<<: 1\n": "1:5: `<<` takes a mapping or a list of mappings",
    "~: 1\n": "1:1: a mapping key cannot be null",
    "a: .inf\n": "1:4: infinity has no form in JSON",
    "&a .nan: 1\nb: *a\n": "1:1: not a number has no form in JSON",
    "a: !!int x\n": "1:4: `x` is not a valid !!int",
}


@pytest.mark.parametrize(("source", "problem"), BROKEN.items(), ids=map(repr, BROKEN))
def test_a_mistake_is_said_in_plain_words_where_it_is(source: str, problem: str) -> None:
    assert problems(source) == [problem]


@pytest.mark.parametrize("source", [source for source in BROKEN if source[0] not in "{%"], ids=repr)
def test_other_documents_of_a_broken_file_are_read(source: str) -> None:
    manifest = read(f"first: 1\n---\n{source}\n---\nlast: 1\n")
    assert manifest.documents[0].value == {"first": 1}
    assert manifest.documents[-1].value == {"last": 1}
    assert [problem.span.line - 2 for problem in manifest.problems] == [
        problem.span.line for problem in read(source).problems
    ]


def test_a_tab_comes_with_a_hint() -> None:
    assert read("a:\n\tb: 1\n").problems[0].hint == "YAML is indented with spaces only"


def test_a_variable_with_brackets_in_a_list_is_to_be_quoted() -> None:
    (problem,) = read("a: [sh, $(service.port[http])]\n").problems
    assert problem.hint == "put the variable in quotes: a `[` begins a list here"


def test_an_unclosed_bracket_names_the_line_that_opened_it() -> None:
    problem = read("a: 1\nb: [1,\nc: 2\nd: 3\n").problems[0]
    assert problem.hint == "the `[` of line 2 is not closed before this"
    assert problem.related is not None
    assert (problem.related.line, problem.related.column) == (2, 4)


@pytest.mark.parametrize(
    "source",
    ["a: 1\nimage: x\nb: 2\nimage: z\n", '{"a": 1,\n"image": "x",\n"b": 2,\n"image": "z"}'],
    ids=["yaml", "json"],
)
def test_a_duplicate_key_names_both_places(source: str) -> None:
    manifest = read(source)
    (problem,) = manifest.problems
    assert problem.message == "duplicate key `image` (first at line 2)"
    assert problem.span.line == 4
    assert problem.related is not None
    assert problem.related.line == 2
    assert manifest.documents[0].value == {"a": 1, "image": "z", "b": 2}


def test_keys_that_become_the_same_name_are_duplicates() -> None:
    assert problems("1: a\n'1': b\n") == ["2:1: duplicate key `1` (first at line 1)"]


def test_every_duplicate_is_reported() -> None:
    assert problems("a: 1\na: 2\nb: {c: 1, c: 2}\na: 3\n") == [
        "2:1: duplicate key `a` (first at line 1)",
        "3:11: duplicate key `c` (first at line 3)",
        "4:1: duplicate key `a` (first at line 2)",
    ]


def test_overriding_a_merged_key_is_no_duplicate() -> None:
    source = "a: &a {x: 1}\nb: &b {x: 2}\nc: {<<: *a, x: 3}\nd: {<<: [*a, *b]}\ne: {<<: *a, <<: *b}\n"
    assert problems(source) == []


def test_a_key_after_an_overridden_merge_can_still_be_duplicate() -> None:
    source = "a: &a {x: 1}\nb:\n  <<: *a\n  x: 3\n  x: 4\n"
    assert problems(source) == ["5:3: duplicate key `x` (first at line 4)"]


@pytest.mark.parametrize("key", ["k" * 900, '"a\\nb\\e"'])
def test_an_odd_key_is_shown_short_and_on_one_line(key: str) -> None:
    (problem,) = read(f"{key}: 1\n{key}: 2\n").problems
    assert len(problem.message) < 110
    assert problem.message.isprintable()


def test_invalid_utf_8_names_the_byte_and_the_line() -> None:
    manifest = read("é: 1\nb: ".encode() + b"\xff\xfe\n")
    (problem,) = manifest.problems
    assert shown(problem) == "2:4: invalid UTF-8 at byte 9 (line 2)"
    assert problem.hint == "save the file as UTF-8"
    assert manifest.documents[0].value == {"é": 1, "b": "\ufffd\ufffd"}


def test_invalid_utf_16_is_a_problem() -> None:
    assert problems(b"\xff\xfea\x00:\x00 \x00\x00\xd8\n\x00") == ["1:4: invalid UTF-16 at byte 8 (line 1)"]


def test_a_lone_surrogate_in_a_string_is_a_problem() -> None:
    assert problems("a: \ud800\n") == ["1:4: the control character U+D800 is not allowed"]
    assert problems('{"a": "\ud800"}') != []


EMPTY = {
    "nothing": "",
    "blank": " \n\n",
    "mark": "\ufeff",
    "comments": "# a\n  # b\n",
    "separators": "---\n---\n",
    "all": "# a\n---\n# b\n--- # c\n\n---\nnull\n---\n~\n---",
}


@pytest.mark.parametrize("source", EMPTY.values(), ids=EMPTY)
def test_a_file_without_content_has_no_documents_and_no_problems(source: str) -> None:
    manifest = read(source)
    assert manifest.documents == ()
    assert manifest.problems == ()


@pytest.mark.parametrize(
    ("source", "value"), [("text\n", "text"), ("- 1\n- a\n", [1, "a"]), ("5", 5), ("[]", [])]
)
def test_a_document_need_not_be_a_mapping(source: str, value: object) -> None:
    (document,) = read(source).documents
    assert document.value == value


def test_the_document_after_a_directive_is_still_read() -> None:
    assert [document.value for document in read("%YAML 1.2\n%TAG ! x\n---\na: 1\n").documents] == [{"a": 1}]


def test_a_document_with_a_value_that_json_cannot_hold_is_still_read() -> None:
    assert [document.value for document in read("a: .nan\nb: !Ref c\n").documents] == [
        {"a": ".nan", "b": "c"}
    ]
