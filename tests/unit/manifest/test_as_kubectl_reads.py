"""The scalars, keys and documents that kubectl reads, and read() beside the real kubectl."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bireme.manifest import read
from support.fixtures import unavailable

ROOT = Path(__file__).parents[3]

# Plain text that stays text, however much it looks like something else.
TEXT = """
yEs|oN|tRUE|t|f|yes no|nULL|~~|none|nil|NaN|nan|inf|Inf|-inf|+inf|.Infinity|..inf|--1|++1|+|+a|-a|12a|1 2
0o8|0o|o17|0x|0xG|0x1p-2|0x1.8p1|0x10000000000000000|0b|0b2|-0b+1|_1|.|..|._5|.5_|.5e|.e3|1.2.3|1.5.|1,000
1e|1e+|e3|1e309|-1e309|1e400|1f|1d|1e1.5|1:30|1:30:45|190:20:30.15|12:00|0:0|1:2:3:4|2001-12-14|2001-1-1
2001-12-14T21:59:43.10-05:00|2001-12-14t21:59:43.10-05:00|2001-12-14 21:59:43.10|2001-12-14 21:59:43.10 -5
2001-13-45|2001-12|12-14-2001|=|<<|<|a=b|100m|1Gi|1.5Gi|500u|0.5n|1k|10%|50 %|1/2|$5|a#b|a:b|/x|\\x|a\\nb|~/x
"""
# Plain forms of each value, separated by spaces.
PLAIN: list[tuple[object, str]] = [
    (True, "yes Yes YES on On ON y Y true True TRUE"),
    (False, "no No NO off Off OFF n N false False FALSE"),
    (None, "null Null NULL ~ &a"),
    (0, "0 -0 +0 00 -00 -0.0 0e0 00e1 1e-400"),
    (1, "1 1. 1.0 1_ +_1 +0b1 0b+1 0b_1"),
    (-1, "-_1 0b-1"),
    (8, "010 +010 08 0_10 0o10"),
    (-8, "-010"),
    (9, "09"),
    (-9, "-09"),
    (15, "0O17 0x_F"),
    (-15, "-0o17"),
    (16, "0_x10"),
    (31, "0x1F 0X1f"),
    (-31, "-0x1F"),
    (10, "+0xA 1__0"),
    (12, "+12"),
    (-12, "-12"),
    (2, "0b1_0"),
    (3, "0B11"),
    (5, "0b101"),
    (-5, "-0b101"),
    (500, ".5e3"),
    (1000, "1_000 1e3 1E3 1e+3"),
    (-1000, "-1e3"),
    (1500, "1.5e3"),
    (1_000_000, "1_000_000"),
    (20011214, "20011214"),
    (100_000_000_000, "1_0e1_0"),
    (9223372036854775807, "9223372036854775807 0777777777777777777777"),
    (-9223372036854775808, "-9223372036854775808 -0x8000000000000000"),
    (9007199254740993, "9007199254740993"),
    (9007199254740992, "9007199254740993.0"),
    (1234567890123456800, "1234567890123456789.0"),
    (9.223372036854776e18, "9223372036854775808"),
    (-9.223372036854776e18, "-9223372036854775809"),
    (-9.3e18, "-9.3e18"),
    (
        1.8446744073709552e19,
        "18446744073709551615 18446744073709551616 +18446744073709551615 0xFFFFFFFFFFFFFFFF",
    ),
    (1e20, "1e20"),
    (1.23e20, "123e18"),
    (1e21, "1e21"),
    (1e22, "1e22"),
    (1.7777777777777777e22, "017777777777777777777777"),
    (1e23, "100000000000000000000000"),
    (1.2345678901234568e29, "123456789012345678901234567890"),
    (1e308, "1e308"),
    (1.7976931348623157e308, "1.7976931348623157e308"),
    (5e-324, "5e-324"),
    (1e-7, "1e-7 0.0000001"),
    (1e-6, "0.000001"),
    (0.0005, ".5E-3"),
    (0.001, "1e-3"),
    (0.1, "0.1"),
    (0.5, ".5 +.5 .5_0"),
    (-0.5, "-.5"),
    (1.5, "1.5 +1.5 01.5"),
    (2.675, "2.675"),
    (4.35, "4.35"),
    (0.30000000000000004, "0.30000000000000004"),
    (3.14159265358979, "3.14159265358979"),
    (1000.5, "1_000.5"),
]
TAGGED_OR_QUOTED: list[tuple[object, str]] = [
    ("12", "!!str 12"),
    ("yes", "!!str yes"),
    ("", "!!str"),
    ("~", "!!str ~"),
    (12, "!!int 12"),
    (12, '!!int "12"'),
    (16, "!!int 0x10"),
    (8, "!!int 010"),
    (12, "!!float 12"),
    (1.5, "!!float 1.5"),
    (1, '!!float "1"'),
    (8, "!!float 010"),
    (True, "!!bool yes"),
    (False, '!!bool "no"'),
    (None, '!!null ""'),
    (None, "!!null ~"),
    (None, "!!null"),
    ("hello", "!!binary aGVsbG8="),
    ("", '!!binary ""'),
    ("\ufffd\ufffdA", "!!binary /v9B"),
    ("2001-12-14", "!!timestamp 2001-12-14"),
    ("2001-12-14", '!!timestamp "2001-12-14"'),
    ("12", "! 12"),
    ("yes", "! yes"),
    ("~", "! ~"),
    ("", '""'),
    ("", "''"),
    ("yes", '"yes"'),
    ("010", "'010'"),
    ("1\n2", '"1\\n2"'),
    ("it's", "'it''s'"),
    ("Aé😀", '"\\x41\\u00e9\\U0001F600"'),
    ('a\tb\\c"d', '"a\\tb\\\\c\\"d"'),
    ("\x1b\0\x07\x08", '"\\e\\0\\a\\b"'),
    ("\xa0\x85\u2028\u2029", '"\\_\\N\\L\\P"'),
    (None, ""),
    ("a b", "a\n  b"),
    ("a\n", "|\n  a"),
    ("a b", ">-\n  a\n  b\n"),
]
SCALARS: list[tuple[str, object]] = [
    *((form, form) for line in TEXT.strip().splitlines() for form in line.split("|")),
    *((form, value) for value, forms in PLAIN for form in forms.split()),
    *((form, value) for value, form in TAGGED_OR_QUOTED),
]

KEYS = {
    "1": "1",
    "010": "8",
    "0x10": "16",
    "-7": "-7",
    "1.0": "1",
    "1.5": "1.5",
    "-1.5": "-1.5",
    "0.1": "0.1",
    "-0.0": "-0",
    "1e6": "1e+06",
    "100000.0": "100000",
    "1234567.0": "1.234567e+06",
    "16777217.0": "1.6777216e+07",
    "123456.7": "123456.7",
    "0.00001": "1e-05",
    "0.0001": "0.0001",
    "3.4028235e38": "3.4028235e+38",
    "1e300": ".inf",
    "-1e300": "-.inf",
    ".nan": ".nan",
    "true": "true",
    "no": "false",
    "2001-01-01": "2001-01-01",
    "!!binary aGk=": "hi",
    "!!str 12": "12",
    "'null'": "null",
    "é": "é",
}

HEAD = "apiVersion: example.com/v1\nkind: Anything\nmetadata: {name: %s}\n"
JSON = '{"apiVersion": "example.com/v1", "kind": "Anything", "metadata": {"name": "%s"}, "spec": %s}'
DOCUMENTS: dict[str, str | bytes] = {
    "anchors": "a: &a {x: 1, z: [1, 2]}\nb: *a\nc: [*a, *a]\nd: &d text\ne: *d\n*d : key\n",
    "anchor-twice": "a: &a 1\nb: *a\nc: &a 2\nd: *a\n",
    "merge": "a: &a {x: 1, z: 2}\nb: {<<: *a, x: 9}\nc: {x: 9, <<: *a}\n",
    "merge-list": "a: &a {x: 1, z: 2}\nb: &b {x: 3, w: 4}\nc: {<<: [*a, *b]}\nd: {<<: [{x: 5}, *b]}\n",
    "merge-of-merge": "a: &a {x: 1}\nb: &b {<<: *a, v: 2}\nc: {<<: *b, x: 3}\nd:\n  <<: {p: 1}\n  q: 2\n",
    "merge-lookalikes": 'a: {"<<": {b: 1}}\nb: {!!merge <<: {d: 1}}\nc: {? <<: {d: 1}}\n',
    "explicit-keys": "? a\n: b\n? c\n",
    "tabs": "a:\t1\nb: 1\t# c\nc: [1,\t2]\nd: x\ty\ne:\n  - f\t\n",
    "comment-behind-separator": "a: 1\n--- # next\n" + HEAD % "second" + "b: 2\n",
    "empty-documents": "a: 1\n---\n---\n# nothing\n---\nnull\n---\n~\n---\n" + HEAD % "last",
    "end-mark": "a: 1\n...\n",
    "unicode": "a: é\nb: 😀 # ü\nc: 'x\u2028y'\nd: a\ufeffb\n",
    "folding": "a: >\n  x\n  y\n\n  z\nb: |+\n  x\n\nc: |2-\n   x\nd: 'x\n\n  y'\n",
    "escaped-break": 'a: "x\\\n   y"\n',
    "flow": "a: {b: [1, {c: d}], e: , f}\ng: {h:1}\n",
    "ignored-tags": "a: !!set {b, c}\nd: !!omap [{e: 1}]\n",
}
WHOLE_FILES: dict[str, str | bytes] = {
    "json": JSON
    % ("json", '{"a": 1.0, "b": 1e3, "c": -0, "d": 18446744073709551615, "e": 1234567890123456789}'),
    "json-text": JSON % ("json-text", r'{"a": "\ud83d\ude00", "b": "\ud800", "c": "\/\n", "d": "é"}'),
    "json-tabs": (JSON % ("json-tabs", '{"a": [1, 2]}')).replace(" ", "\n\t"),
    "json-stream": JSON % ("json-1", "1") + JSON % ("json-2", "2") + "\n" + JSON % ("json-3", "3") + "\n",
    "mark": b"\xef\xbb\xbf" + (HEAD % "mark").encode(),
    "mark-inside": (HEAD % "mark-1" + "---\n").encode() + b"\xef\xbb\xbf" + (HEAD % "mark-2").encode(),
    "utf-16-le": (HEAD % "utf-16-le" + "a: é😀\n").encode("utf-16"),
    "utf-16-be": b"\xfe\xff" + (HEAD % "utf-16-be" + "a: é😀\n").encode("utf-16-be"),
    "windows": (HEAD % "windows" + "a: |\n  x\n  y\nb: 'x\n  y'\n---\n" + HEAD % "windows-2").replace(
        "\n", "\r\n"
    ),
}
# Files that start with a brace and are not all JSON; kubectl 1.32 refuses them.
MIXED_FILES: dict[str, str | bytes] = {
    "json-separated": JSON % ("json-4", "1")
    + "\n---\n"
    + JSON % ("json-5", "010")
    + "\n---\n"
    + JSON % ("json-6", "3"),
    "json-trailing-comma": JSON % ("json-7", '{"a": 1,}'),
    "flow-file": "{apiVersion: example.com/v1, kind: Anything, metadata: {name: flow-file}, a: 010}",
}
REFUSED: dict[str, str | bytes] = {
    "nan": "a: .nan\n",
    "infinity": "a: [-.inf]\n",
    "infinite-alias": "&a .inf: 1\nb: *a\n",
    "null-key": "~: 1\n",
    "empty-key": "? \n: 1\n",
    "large-key": "18446744073709551615: 1\n",
    "list-key": "[a]: 1\n",
    "mapping-key": "? {a: b}\n: 1\n",
    "not-an-int": "a: !!int foo\n",
    "not-a-float": "a: !!float 18446744073709551615\n",
    "not-a-bool": "a: !!bool maybe\n",
    "not-null": "a: !!null x\n",
    "not-a-timestamp": "a: !!timestamp 2001-02-30\n",
    "not-base64": 'a: !!binary "?"\n',
    "merge-null": "<<:\na: 1\n",
    "merge-list-alias": "a: &a [{b: 1}]\nc: {<<: *a}\n",
    "unknown-anchor": "a: *a\n",
    "anchor-in-itself": "a: &a [*a]\n",
    "control-character": "a: \x01\n",
    "delete-character": "a: \x7f\n",
    "nul-character": "a: \0\n",
    "surrogate-escape": 'a: "\\ud83d\\ude00"\n',
    "unknown-escape": 'a: "\\d"\n',
    "tab": "a:\n\tb: 1\n",
    "tab-after-dash": "a:\n-\tb\n",
    "question-mark-in-flow": "a: [b?c]\n",
    "text-behind-separator": "a: 1\n--- b\n",
    "only-an-end-mark": "a: 1\n---\n...\n",
    "directive": "a: 1\n---\n%YAML 1.1\n---\nb: 1\n",
}


@pytest.fixture(scope="session")
def kubectl() -> str:
    built = subprocess.run(
        [ROOT / "hack/control-plane/build", "path"], capture_output=True, text=True, check=False
    )
    for name in (os.environ.get("BIREME_KUBECTL"), f"{built.stdout.strip()}/kubectl", "kubectl"):
        if name and (found := shutil.which(name)):
            return found
    raise unavailable("no kubectl: set BIREME_KUBECTL or run `make control-plane`")


def run_kubectl(program: str, folder: Path, files: dict[str, str | bytes]) -> tuple[dict[str, Any], str]:
    """Return the objects that kubectl reads from the files, by name, and what it complains about."""
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / f"{name}.yaml").write_bytes(data)
    command = [program, "patch", "--local", "-f", str(folder), "-o", "json", "--type=merge", "-p", "{}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    decoder = json.JSONDecoder(parse_int=_integer)
    objects, rest = {}, done.stdout.lstrip()
    while rest:
        value, end = decoder.raw_decode(rest)
        objects[value["metadata"]["name"]] = value
        rest = rest[end:].lstrip()
    return objects, done.stderr


def _integer(digits: str) -> int | float:
    value = int(digits)
    return value if -(2**63) <= value < 2**63 else float(value)


def same(left: object, right: object) -> bool:
    """Equal, where 1 is not True and 1.0 is 1."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def object_with(name: str, rest: str | bytes) -> str:
    assert isinstance(rest, str)
    return HEAD % name + rest


@pytest.mark.parametrize(("form", "value"), SCALARS, ids=[repr(form) for form, _ in SCALARS])
def test_a_scalar_has_the_value_of_the_table(form: str, value: object) -> None:
    manifest = read(f"v: {form}\n")
    assert not manifest.problems
    found = manifest.documents[0].value
    assert isinstance(found, dict)
    assert same(found["v"], value)
    assert type(found["v"]) is type(value)


def test_kubectl_reads_every_scalar_of_the_table_alike(kubectl: str, tmp_path: Path) -> None:
    assert len(SCALARS) >= 150
    files = {"all": "---\n".join(object_with(f"s{n}", f"v: {form}\n") for n, (form, _) in enumerate(SCALARS))}
    objects, complaints = run_kubectl(kubectl, tmp_path, dict(files))
    assert complaints == ""
    assert [
        form for n, (form, value) in enumerate(SCALARS) if not same(objects[f"s{n}"].get("v"), value)
    ] == []


@pytest.mark.parametrize(("form", "name"), KEYS.items())
def test_a_key_becomes_the_name_of_the_table(form: str, name: str) -> None:
    manifest = read(f"{form}: v\n")
    assert not manifest.problems
    assert manifest.documents[0].value == {name: "v"}


def test_kubectl_reads_every_key_of_the_table_alike(kubectl: str, tmp_path: Path) -> None:
    documents = [object_with(f"k{n}", f"spec:\n  {form}: v\n") for n, form in enumerate(KEYS)]
    objects, complaints = run_kubectl(kubectl, tmp_path, {"all": "---\n".join(documents)})
    assert complaints == ""
    found = {form: next(iter(objects[f"k{n}"]["spec"])) for n, form in enumerate(KEYS)}
    assert found == KEYS


def test_kubectl_reads_whole_documents_alike(kubectl: str, tmp_path: Path) -> None:
    files = {name: object_with(name, rest) for name, rest in DOCUMENTS.items()} | WHOLE_FILES | MIXED_FILES
    objects, complaints = run_kubectl(kubectl, tmp_path, files)
    refused = {name for name in files if f"/{name}.yaml" in complaints}
    assert refused <= MIXED_FILES.keys(), complaints
    ours = dict(pair for name in files for pair in read_objects(files[name]))
    assert {name: ours[name] for name in objects} == objects
    assert refused or objects.keys() == ours.keys()


def read_objects(source: str | bytes) -> list[tuple[str, Any]]:
    manifest = read(source)
    assert manifest.problems == ()
    values: list[Any] = [document.value for document in manifest.documents]
    return [(value["metadata"]["name"], value) for value in values]


@pytest.mark.parametrize("name", REFUSED)
def test_what_kubectl_refuses_is_a_problem(name: str) -> None:
    assert read(object_with(name, REFUSED[name])).problems


def test_kubectl_refuses_what_the_table_says(kubectl: str, tmp_path: Path) -> None:
    files = {name: object_with(name, rest) for name, rest in REFUSED.items()}
    _, complaints = run_kubectl(kubectl, tmp_path, dict(files))
    assert [name for name in REFUSED if f"/{name}.yaml" not in complaints] == []
