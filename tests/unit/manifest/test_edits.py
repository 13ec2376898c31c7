"""Edits change one thing and leave every other byte alone."""

from collections.abc import Callable

import pytest

from bireme.manifest import (
    Document,
    Edit,
    Path,
    apply_edits,
    quote_scalar,
    read,
    rename_key,
    replace_scalar,
    split_item,
    wrap_scalar,
)

Maker = Callable[[Document, Path], Edit | None]


def rename(new: str) -> Maker:
    return lambda document, path: rename_key(document, path, new)


def replace(text: str) -> Maker:
    return lambda document, path: replace_scalar(document, path, text)


def split(*parts: str) -> Maker:
    return lambda document, path: split_item(document, path, parts)


def wrap(key: str) -> Maker:
    return lambda document, path: wrap_scalar(document, path, key)


DONE: dict[str, tuple[Maker, Path, str, str]] = {
    "rename-plain": (rename("new"), ("a", "old"), "a:\n  old:  1 # c\n", "a:\n  new:  1 # c\n"),
    "rename-double-quoted": (rename("new"), ("old",), '{"old":1, "b":2}', '{"new":1, "b":2}'),
    "rename-single-quoted": (rename("it's"), ("old",), "'old': 1\n", "'it''s': 1\n"),
    "rename-to-a-word": (rename("yes"), ("old",), "old: 1\n", '"yes": 1\n'),
    "rename-to-a-number": (rename("010"), ("old",), "{old: 1}\n", '{"010": 1}\n'),
    "rename-to-spaces": (rename("a b"), ("old",), "old: 1\n", '"a b": 1\n'),
    "rename-to-merge": (rename("<<"), ("old",), "old: {a: 1}\n", '"<<": {a: 1}\n'),
    "rename-to-control": (rename("a\x07\n😀"), ("old",), "old: 1\n", '"a\\u0007\\n😀": 1\n'),
    "rename-explicit": (rename("new"), ("old",), "? old\n: 1\n", "? new\n: 1\n"),
    "rename-flow": (rename("new"), (0, "old"), "[old: 1, {b}]\n", "[new: 1, {b}]\n"),
    "rename-override": (
        rename("k"),
        ("b", "x"),
        "a: &a {x: 1}\nb: {<<: *a, x: 2}\n",
        "a: &a {x: 1}\nb: {<<: *a, k: 2}\n",
    ),
    "rename-key-of-anchor": (rename("new"), ("a",), "a: &a {x: 1}\nb: *a\n", "new: &a {x: 1}\nb: *a\n"),
    "rename-key-of-alias": (rename("new"), ("b",), "a: &a {x: 1}\nb: *a\n", "a: &a {x: 1}\nnew: *a\n"),
    "rename-in-second-document": (rename("new"), ("é",), "é: 1\n", "new: 1\n"),
    "replace-plain": (replace("[1]"), ("a",), "a: x y # c\n", "a: [1] # c\n"),
    "replace-quoted": (replace("5"), ("a",), 'a: "5"\r\nb: 1\r\n', "a: 5\r\nb: 1\r\n"),
    "replace-empty": (replace("5"), ("a",), "a: # c\nb:\n", "a: 5 # c\nb:\n"),
    "replace-empty-item": (replace("5"), ("a", 0), "a:\n  -\n  - x\n", "a:\n  - 5\n  - x\n"),
    "replace-empty-in-flow": (replace("5"), ("a",), "{a: , b: 1}", "{a: 5, b: 1}"),
    "replace-root": (replace("a: 1"), (), "text # c\n", "a: 1 # c\n"),
    "quote-number": (quote_scalar, ("a",), "a: 0x1F # c\n", 'a: "0x1F" # c\n'),
    "quote-word": (quote_scalar, ("a", 0), "a: [yes, no]\n", 'a: ["yes", no]\n'),
    "quote-null": (quote_scalar, ("a",), "a: ~\n", 'a: "~"\n'),
    "quote-text": (quote_scalar, ("a",), "a: it's #1\n", 'a: "it\'s" #1\n'),
    "quote-backslash": (quote_scalar, ("a",), "a: c:\\d's\n", "a: 'c:\\d''s'\n"),
    "quote-quotes": (quote_scalar, ("a",), 'a: x "y" z\n', "a: 'x \"y\" z'\n"),
    "quote-json": (quote_scalar, ("a",), '{"a":8080}', '{"a":"8080"}'),
    "split-block": (
        split("--x", "1", "a b"),
        ("a", 0),
        "a:\n  -  --x 1 a b  # c\n  - z\n",
        'a:\n  -  --x\n  -  "1"\n  -  "a b"  # c\n  - z\n',
    ),
    "split-block-windows": (split("x", "z"), ("a", 0), "a:\r\n- x z\r\n", "a:\r\n- x\r\n- z\r\n"),
    "split-last-line": (split("x", "z"), ("a", 0), "a:\n- x z", "a:\n- x\n- z"),
    "split-quoted": (split("x", "it's"), (0,), "- 'x it''s'\n", "- 'x'\n- 'it''s'\n"),
    "split-nested": (split("x", "z"), (0, 0), "- - x z\n  - b\n", "- - x\n  - z\n  - b\n"),
    "split-flow": (split("x", "y"), ("a", 1), "a: [1, x y ,2]\n", 'a: [1, x, "y" ,2]\n'),
    "split-json": (split("x", "z"), ("a", 0), '{"a": ["x z",\n 2]}', '{"a": ["x", "z",\n 2]}'),
    "wrap-plain": (
        wrap("policy"),
        ("restartPolicy",),
        "restartPolicy: OnFailure # c\n",
        "restartPolicy: {policy: OnFailure} # c\n",
    ),
    "wrap-number": (wrap("a"), ("b",), "b: 010\n", "b: {a: 010}\n"),
    "wrap-text-with-comma": (wrap("a"), ("b",), "b: x, z\n", 'b: {a: "x, z"}\n'),
    "wrap-json": (wrap("a"), ("b",), '{"b":"x"}', '{"b":{"a": "x"}}'),
    "wrap-item": (wrap("a"), (0,), "- x\n- z\n", "- {a: x}\n- z\n"),
}

REFUSED: dict[str, tuple[Maker, Path, str]] = {
    "rename-missing": (rename("new"), ("b",), "a: 1\n"),
    "rename-item": (rename("new"), ("a", 0), "a: [1]\n"),
    "rename-taken": (rename("b"), ("a",), "a: 1\nb: 2\n"),
    "rename-through-alias": (rename("new"), ("b", "x"), "a: &a {x: 1}\nb: *a\n"),
    "rename-inside-used-anchor": (rename("new"), ("a", "x"), "a: &a {x: 1}\nb: *a\n"),
    "rename-merged": (rename("new"), ("b", "x"), "a: &a {x: 1}\nb: {<<: *a}\n"),
    "rename-alias-key": (rename("new"), ("x",), "a: &a x\n*a : 1\n"),
    "rename-tagged-key": (rename("new"), ("x",), "!!str x: 1\n"),
    "rename-to-surrogate": (rename("\ud800"), ("x",), "x: 1\n"),
    "rename-to-endless": (rename("k" * 2000), ("x",), "x: 1\n"),
    "replace-mapping": (replace("1"), ("a",), "a: {b: 1}\n"),
    "replace-block-scalar": (replace("1"), ("a",), "a: |\n  x\n"),
    "replace-anchored": (replace("1"), ("a",), "a: &a x\nb: *a\n"),
    "replace-alias": (replace("1"), ("b",), "a: &a x\nb: *a\n"),
    "replace-key-without-value": (replace("1"), ("a-",), "{a-, b: 1}\n"),
    "quote-quoted": (quote_scalar, ("a",), "a: '1'\n"),
    "quote-tagged": (quote_scalar, ("a",), "a: !!int 1\n"),
    "quote-lines": (quote_scalar, ("a",), "a: x\n  z\n"),
    "quote-empty": (quote_scalar, ("a",), "a:\n"),
    "quote-list": (quote_scalar, ("a",), "a: [1]\n"),
    "quote-through-merge": (quote_scalar, ("b", "x"), "a: &a {x: 1}\nb: {<<: *a}\n"),
    "split-into-nothing": (split(), (0,), "- x\n"),
    "split-value": (split("x", "z"), ("a",), "a: x z\n"),
    "split-item-on-next-line": (split("x", "z"), (0,), "-\n  x z\n"),
    "split-block-scalar": (split("x", "z"), (0,), "- >-\n  x z\n"),
    "split-surrogate": (split("x", "\ud800"), (0,), "- x\n"),
    "wrap-mapping": (wrap("a"), ("b",), "b: {c: 1}\n"),
    "wrap-empty": (wrap("a"), ("b",), "b:\n"),
    "wrap-missing": (wrap("a"), ("c",), "b: 1\n"),
}


@pytest.mark.parametrize(("maker", "path", "before", "after"), DONE.values(), ids=DONE)
@pytest.mark.parametrize("prefix", ["", "\ufeff# é\n", "x: 😀\n---\n"], ids=["alone", "comment", "document"])
def test_an_edit_changes_what_it_says(maker: Maker, path: Path, before: str, after: str, prefix: str) -> None:
    manifest = read(prefix + before)
    assert manifest.problems == ()
    edit = maker(manifest.documents[-1], path)
    assert edit is not None
    assert apply_edits(manifest.text, [edit]) == prefix + after
    assert read(prefix + after).problems == ()


@pytest.mark.parametrize(("maker", "path", "text"), REFUSED.values(), ids=REFUSED)
def test_an_edit_that_is_not_safe_is_not_made(maker: Maker, path: Path, text: str) -> None:
    manifest = read(text)
    assert manifest.problems == ()
    assert maker(manifest.documents[0], path) is None


def test_edits_are_applied_together_with_offsets_of_the_old_text() -> None:
    edits = [Edit(4, 5, "E"), Edit(0, 2, ""), Edit(3, 3, "<"), Edit(3, 3, ">")]
    assert apply_edits("abcdef", edits) == "c<>dEf"


@pytest.mark.parametrize(
    "edits",
    [
        [Edit(0, 2, ""), Edit(1, 3, "")],
        [Edit(0, 3, ""), Edit(1, 1, "")],
        [Edit(2, 9, "")],
        [Edit(-1, 0, "")],
        [Edit(2, 1, "")],
    ],
    ids=["overlap", "inside", "beyond", "before", "backwards"],
)
def test_edits_that_overlap_or_leave_the_text_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match="overlaps another or leaves the text"):
        apply_edits("abcdef", edits)


def test_no_edits_leave_the_text_as_it_is() -> None:
    assert apply_edits("a: 1\r\n", []) == "a: 1\r\n"
