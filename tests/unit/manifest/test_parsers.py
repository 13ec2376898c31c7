"""libyaml and PyYAML's own parser lead to the same values, places and problems."""

import pytest
import yaml

from bireme.manifest import Path, read
from bireme.manifest.parsers import DEFAULT_PARSER, PurePythonParser

TEXTS = {
    "block": "a: 1\nb:\n  - c: d\n    e: |\n      x\n       y\n\n    f: >-\n      z\n\n  - g\n# end\n",
    "flow": "a: {b: [1, 'x', \"y\\u00e9\"], c: {d: e}, f}\ng: [h: i, j]\n",
    "anchors": "a: &a {b: 1}\nc: *a\nd: {<<: *a, e: &f [1]}\ng: !!str &h 12\n? *h\n: 1\n",
    "empty-values": "a:\nb: # c\n-x:\nd: [ , ]\n",
    "empty-values-2": "a:\n  b:\nc: ''\nd:\n  -\n  - ~\n",
    "tabs": "a:\t1\nb: x\ty\t# c\nc: [1,\t2]\nd: x\n  \ty\ne: 'a\n\tb'\nf:\n  - g\t\n",
    "windows": "a: 1\r\nb: |\r\n  x\r\n  y\r\nc: 'x\r\n  y'\r\n",
    "unicode": "é: 😀\nb: a\u2028c\nd: a\x85e\n",
    "plain": "a: b c\n  d\n\n  e\nf: -g ?h :i\nj: k#l #m\nn: http://o\n",
    "documents": "a: 1\n---\nb: 2\n...\n---\n# c\n---\nd: 3\n",
    "top-level": "just\n  text\n",
    "escapes": 'a: "\\ud800"\n---\nb: "\\U00110000"\n---\nc: "\\d"\n---\nd: "\\x1"\n',
    "unclosed": "a: 'x\n---\nb: [1\n---\nc: {d: 1\n---\ne: [1\nf: 2\n",
    "indentation": "a:\n  b: 1\n c: 2\n---\n  d: 1\ne: 2\n---\n- f\ng: 1\n---\nh: 1\n- i\n",
    "tab-errors": "a:\n\tb: 1\n---\nc: 1\n\td: 2\n---\ne: |\n\tf\n---\n-\tg\n",
    "misplaced": "a: b: c\n---\nd: - e\n---\nf: @g\n---\nh: ]\n---\ni: 'j' k\n---\n{l: m} n\n",
    "misplaced-2": "o: ?\n---\np\nq: r\n---\ns: `t\n---\nu: %v\n---\nw: [x, ,z]\n",
    "names": "a: *\n---\nb: & c\n---\nd: !<e\n---\nf: !g!h i\n---\nj: |k\n---\nl: |0\n  m\n",
    "question-mark": "a: [b?c]\n---\nd: b?c\n---\n{e: [f, g?]}\n",
    "end": "a: 1\n...\nb: 2\n---\n...\n",
}


def paths(value: object, path: Path = ()) -> list[Path]:
    found = [path]
    if isinstance(value, dict):
        found += [deeper for key, part in value.items() for deeper in paths(part, (*path, key))]
    elif isinstance(value, list):
        found += [deeper for index, part in enumerate(value) for deeper in paths(part, (*path, index))]
    return found


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_both_parsers_read_the_same(text: str) -> None:
    one, other = read(text, parser=DEFAULT_PARSER), read(text, parser=PurePythonParser)
    assert one.problems == other.problems
    assert [document.value for document in one.documents] == [document.value for document in other.documents]
    for left, right in zip(one.documents, other.documents, strict=True):
        for path in paths(left.value):
            assert (path, left.find(path)) == (path, right.find(path))
            assert (path, left.find_key(path)) == (path, right.find_key(path))


def test_libyaml_is_used_where_pyyaml_has_it() -> None:
    assert (DEFAULT_PARSER is not PurePythonParser) == yaml.__with_libyaml__
