"""Go's regular expressions in Python."""

import time

import pytest

from bireme.apiserver.crd_schemas import problems
from bireme.apiserver.structural.patterns import MOST_STEPS, compiled, problem
from bireme.apiserver.structural.validation import validate

SAME = {
    "the very end": (r"^a$", ["a"], ["a\n", "b"]),
    "the end of lines": (r"(?m)^a$", ["b\na\nc", "a\n"], ["ab"]),
    "z": (r"a\z", ["ba"], ["a\n"]),
    "classes": (r"^[[:alpha:][:digit:]_]+$", ["a1_"], ["-", "ä"]),
    "other classes": (r"^[[:^digit:]]+$", ["a-"], ["1"]),
    "words in ASCII": (r"^\w\d$", ["a1"], ["ä1", "a١"]),
    "spaces": (r"^\s[^\s]$", ["\ta"], ["\va", "\t "]),
    "flags in the middle": (r"^a(?i)b|c", ["aB", "C"], ["AB"]),
    "flags of a group": (r"^(?i:a)b(?-i:c)$", ["Abc"], ["AB", "abC"]),
    "flags end with their group": (r"^(a(?i)b)c$", ["aBc"], ["aBC"]),
    "quoted": (r"^\Qa.b(\E$", ["a.b("], ["axb("]),
    "codes": (r"^\x{e4}\x41$", ["äA"], ["aA"]),
    "names": (r"^(?<one>a)(?P<two>b)$", ["ab"], ["a"]),
    "braces": (r"^a{,2}{b}$", ["a{,2}{b}"], ["aab"]),
    "counts": (r"^a{2}b{1,}$", ["aabb"], ["ab"]),
    "categories": (r"^\p{Lu}\pN\P{L}$", ["Ä1-"], ["ä1-", "A1a"]),
    "brackets in a class": (r"^[[\]a]+$", ["[a]"], ["b"]),
    "ungreedy": (r"(?U)^a+$", ["aa"], ["b"]),
}


@pytest.mark.parametrize(("pattern", "good", "bad"), SAME.values(), ids=SAME)
def test_patterns_match_as_in_go(pattern: str, good: list[str], bad: list[str]) -> None:
    regex = compiled(pattern)
    assert regex is not None
    assert [text for text in good if not regex.search(text)] == []
    assert [text for text in bad if regex.search(text)] == []
    assert problem(pattern) == ""


CATASTROPHIC = (
    r"^(a+)+$", r"^(a*)*$", r"^(a|a)*$", r"^(a|aa)+$", r"^(a|a?)+$", r"^(.*a){20}$", r"^([a-zA-Z]+)*$",
    r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(x+x+)+y", r"^(?:a?){30}a{30}$", r"^(a+)+(b+)+(c+)+$", r"(a*)*b",
    r"^((ab)*)+$", r"^([a-z]+)+@([a-z]+\.)+com$", r"^(\w+\s?)*$", r"^(\d+)*x$", r"(.*)*=(.*)*;",
    r"^(([^,]*,)*)*$", r"\s+$", r"^(a{1,30}){1,30}$",
)  # fmt: skip


@pytest.mark.parametrize("pattern", CATASTROPHIC)
@pytest.mark.parametrize("text", ["a" * 30 + "!", "a" * 10_000 + "!", "x" * 10_000, " " * 10_000 + "!"])
def test_no_pattern_takes_long(pattern: str, text: str) -> None:
    regex = compiled(pattern)
    assert regex is not None
    begun = time.process_time()
    regex.search(text)
    assert time.process_time() - begun < 0.5


@pytest.mark.parametrize(
    "pattern", [r"[ab]{900}[ab]{900}c", r"(?:a?){500}a{500}c", r"(?:a|b)*a(?:a|b){900}c"]
)
def test_a_costly_match_takes_no_longer_than_its_cost_says(pattern: str) -> None:
    regex = compiled(pattern)
    assert regex is not None
    text = "ab" * 5_000
    begun = time.process_time()
    regex.search(text)
    # Ten times as long as measured, for a busy machine.
    assert time.process_time() - begun < regex.cost(text) * 200e-9


def test_scripts_are_understood() -> None:
    regex = compiled(r"^\p{Greek}+$")
    assert regex is not None
    assert regex.search("αβγ")
    assert not regex.search("abc")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "missing closing ): `(`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("*", "missing argument to repetition operator: `*`"),
        (r"(\pL|\pN){300}", "expression too large"),
    ],
)
def test_problems_are_told_as_go_does(pattern: str, words: str) -> None:
    assert problem(pattern) == f"error parsing regexp: {words}"


@pytest.mark.parametrize("pattern", ["(", "a**", "(?=a)", r"(a)\1", "[b-a]", "a{3,1}", r"\Z"])
def test_what_go_refuses_is_a_problem(pattern: str) -> None:
    assert problem(pattern).startswith("error parsing regexp: ")


def patterned(pattern: str) -> dict[str, object]:
    texts = {"type": "array", "items": {"type": "string", "pattern": pattern}}
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": {"texts": texts}}}}


def test_an_object_is_refused_if_its_patterns_would_take_too_long() -> None:
    text = "ab" * 1_000
    regex = compiled(r"[ab]{900}[ab]{900}c")
    assert regex is not None
    count = MOST_STEPS // regex.cost(text) + 2
    schema, begun = patterned(r"[ab]{900}[ab]{900}c"), time.process_time()
    found = validate(schema, {"spec": {"texts": [text] * count}})
    assert time.process_time() - begun < 20
    assert "is too long, with the other texts, to be matched" in found[-1].body


def test_a_long_text_may_have_a_simple_pattern() -> None:
    assert validate(patterned("^[a-z]*$"), {"spec": {"texts": ["a" * 1_000_000]}}) == []


def test_a_schema_is_refused_if_its_patterns_are_too_large_together() -> None:
    texts = {f"p{number}": {"type": "string", "pattern": f"x{number}.{{1000}}"} for number in range(5_000)}
    begun = time.process_time()
    found = list(problems({"type": "object", "properties": texts}, "schema", has_status=False))
    assert time.process_time() - begun < 5
    assert [each.body for each in found] == [
        "Forbidden: the patterns are too large, all together, to be checked here"
    ]
