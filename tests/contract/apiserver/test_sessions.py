"""The tools of the comparison: they hide what is by chance, and nothing more."""

from pathlib import Path

import pytest

from support.masking import mask, without_lines
from support.session import load

SESSIONS = Path(__file__).parent / "sessions"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("uid: 0f8f9b7e-3c5e-4a53-9d0b-0a4b6f2b8f10", "uid: <uid>"),
        ('resourceVersion: "123"', 'resourceVersion: "<version>"'),
        ('"resourceVersion":"123"', '"resourceVersion":"<version>"'),
        ("Resource Version:  123", "Resource Version:  <version>"),
        ('time: "2026-01-02T03:04:05Z"', 'time: "<time>"'),
        ('renewTime: "2026-01-02T03:04:05.678901Z"', 'renewTime: "<time>"'),
        ("Start: Mon, 02 Jan 2026 03:04:05 +0000", "Start: <time>"),
        ("NAME   AGE    x", "NAME   AGE x"),
        ("web   0/1   Pending   0     12s", "web   0/1   Pending   0     <age>"),
        ("web   0/1   3s     x", "web   0/1   <age> x"),
        ("web   0/1   3m12s   x", "web   0/1   <age> x"),
        ("web   0/1   2m      x", "web   0/1   <age> x"),
        ("web   0/1   Pending   0     12m", "web   0/1   Pending   0     <age>"),
        ("event   6y318d   x", "event   <age> x"),
        ("running at https://127.0.0.1:6443", "running at <server>"),
        ("clusterIP: 10.0.0.17", "clusterIP: <ip>"),
        ("--- /tmp/LIVE-123/v1.ConfigMap", "--- LIVE/v1.ConfigMap"),
        ("I0102 03:04:05.123456   1 loader.go:1] Config loaded\nkept", "kept"),
    ],
)
def test_what_is_by_chance_is_hidden(text: str, masked: str) -> None:
    assert mask(text) == masked


def test_the_order_of_managers_is_by_chance_and_what_they_manage_is_not() -> None:
    one, two = (
        f"  - apiVersion: v1\n    fieldsV1:\n      f:{name}: {{}}\n    manager: {name}\n" for name in "ab"
    )
    begin, end = "metadata:\n  managedFields:\n", "  name: x\nspec:\n  managedFields: none\n"
    assert mask(begin + two + one + end) == mask(begin + one + two + end) == begin + one + two + end
    assert mask(begin + one + end) != mask(begin + two + end)


@pytest.mark.parametrize(
    "text", ["cpu: 250m", "memory:  1Gi", "address: 192.0.2.1", "--timeout=5s", "generation: 3", "port: 8080"]
)
def test_what_is_meant_stays(text: str) -> None:
    assert mask(text) == text


def test_lines_are_left_out_by_pattern() -> None:
    assert without_lines("one\ntwo\nthree", ["^t.o$", "e{2}"]) == "one"


@pytest.mark.parametrize("path", sorted(SESSIONS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_session_is_well_formed(path: Path) -> None:
    steps = load(path)
    started = [step.name for step in steps if step.background]
    joined = [step.join for step in steps if step.join]
    assert sorted(started) == sorted(joined)
    assert all(bool(step.run) != bool(step.join) for step in steps)
