"""Go's regular expressions in Python."""

import pytest

from bireme.apiserver.structural.patterns import compiled, problem

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


def test_scripts_are_not_understood_and_no_problem() -> None:
    assert compiled(r"\p{Greek}") is None
    assert problem(r"\p{Greek}") == ""


@pytest.mark.parametrize("pattern", ["(", "a**", "(?=a)", r"(a)\1", "[b-a]", "a{3,1}", r"\Z"])
def test_what_go_refuses_is_a_problem(pattern: str) -> None:
    assert problem(pattern).startswith("error parsing regexp: ")
