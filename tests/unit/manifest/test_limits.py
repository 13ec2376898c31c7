"""Files that are large, deep or hostile are read, or refused, quickly."""

import time
import tracemalloc

import pytest

from bireme.manifest import read

POD = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: job-%d
  labels:
    app.kubernetes.io/name: train  # a comment
spec:
  parallelism: 4
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: registry.example/train:1.2.3
        command: ["python", "-m", "train", "--epochs=10"]
        args:
        - --lr
        - "0.1"
        env:
        - name: A
          value: "1"
        - name: B
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        resources:
          limits:
            cpu: 500m
            memory: 1Gi
"""


def pods(characters: int) -> str:
    return "---\n".join(POD % n for n in range(characters // len(POD) + 1))


def bomb(levels: int, width: int) -> str:
    uses = [", ".join([f"*l{level}"] * width) for level in range(levels - 1)]
    return "\n".join(["l0: &l0 [x, x, x]", *(f"l{n}: &l{n} [{use}]" for n, use in enumerate(uses, 1))])


def merge_bomb(levels: int, width: int) -> str:
    uses = [", ".join([f"*l{level}"] * width) for level in range(levels - 1)]
    return "\n".join(
        ["l0: &l0 {a: 1, b: 2}", *(f"l{n}: &l{n} {{<<: [{use}]}}" for n, use in enumerate(uses, 1))]
    )


def messages(source: str) -> list[str]:
    return [problem.message for problem in read(source).problems]


def test_five_megabytes_are_read_in_time_that_grows_with_their_number_alone() -> None:
    text = pods(5_000_000)
    before = time.process_time()
    manifest = read(text)
    # Some 3 s here; what grows with its square would take minutes.
    assert time.process_time() - before < 30
    assert manifest.problems == ()
    assert len(manifest.documents) == text.count("---\n") + 1
    last = manifest.documents[-1].find(("metadata", "name"))
    assert last is not None
    assert text[last.start : last.end] == f"job-{len(manifest.documents) - 1}"


@pytest.mark.parametrize(
    "source", [bomb(12, 9), bomb(40, 2), merge_bomb(12, 9)], ids=["wide", "high", "merges"]
)
def test_a_bomb_of_aliases_is_refused_in_little_memory(source: str) -> None:
    tracemalloc.start()
    manifest = read(source)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [problem.message for problem in manifest.problems] == [
        "aliases make this document far larger than its text"
    ]
    assert manifest.documents == ()
    assert peak < 20_000_000


def test_many_aliases_of_one_long_text_are_refused() -> None:
    source = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]\n"
    assert messages(source) == ["aliases make this document far larger than its text"]


def test_aliases_in_reasonable_number_are_read() -> None:
    uses = "".join(f"- {{<<: *common, name: c{n}, resources: *resources}}\n" for n in range(300))
    source = (
        "x: &common {image: a, env: [{name: b, value: c}]}\nr: &resources {limits: {cpu: 1}}\nlist:\n" + uses
    )
    (document,) = read(source).documents
    assert isinstance(document.value, dict)
    assert document.value["list"][299] == {
        "image": "a",
        "env": [{"name": "b", "value": "c"}],
        "name": "c299",
        "resources": {"limits": {"cpu": 1}},
    }


@pytest.mark.parametrize(
    "source",
    ["[" * 10_000, "{a: " * 10_000, "- " * 10_000, '{"a":' * 10_000, "? " * 10_000, "[" * 1_000_000],
    ids=["lists", "mappings", "blocks", "json", "keys", "a-million"],
)
def test_nesting_beyond_the_limit_is_a_problem(source: str) -> None:
    assert messages(source) == ["nested deeper than 200 levels"]


def test_nesting_within_the_limit_is_read() -> None:
    assert messages("[" * 200 + "]" * 200) == []


def test_aliases_do_not_nest_beyond_the_limit() -> None:
    lines = [f"a{n}: &a{n} {'[' * 30}*a{n - 1}{']' * 30}" for n in range(1, 10)]
    assert messages("\n".join(["a0: &a0 1", *lines])) == ["aliases nest deeper than 200 levels"]


def test_a_long_line_is_read_and_has_positions() -> None:
    text = "a: [" + "x" * 1_000_000 + ", last]\n"
    (document,) = read(text).documents
    found = document.find(("a", 1))
    assert found is not None
    assert text[found.start : found.end] == "last"


def test_a_key_too_long_for_yaml_is_a_problem_and_none_in_json() -> None:
    key = "k" * 2000
    assert messages(f"{key}: 1\n") == ["`:` is not allowed here"]
    assert messages(f'{{"{key}": 1}}') == []


def test_numbers_of_many_digits_are_read() -> None:
    digits = "1" * 5000
    (document,) = read(f"a: {digits}\nb: 0{digits}\nc: 0x{digits}\nd: {digits}.5\n").documents
    assert document.value == {"a": digits, "b": f"0{digits}", "c": f"0x{digits}", "d": f"{digits}.5"}
    assert messages('{"a": ' + digits + "}") == ["this number is too large for JSON readers"]
