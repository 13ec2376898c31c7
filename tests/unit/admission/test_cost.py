"""However large and wrong an object is, it is judged in little time: nobody may stop others by one."""

import random
import time
from typing import Any

import pytest

from bireme.admission import default, is_valid, validate
from bireme.admission.problems import MOST_ERRORS
from support.jobs import generic

MOST_SECONDS = 20.0
"""Of the processor; it takes about one here."""
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789abcdefghij"


def shuffled(seed: int) -> str:
    """Of the same letters all, so that they look alike, and have to be compared one by one."""
    return "a" + "".join(random.Random(seed).sample(LETTERS, len(LETTERS)))


def many_types(count: int) -> list[dict[str, Any]]:
    template = {"spec": {"containers": [{"name": "main", "image": "a"}]}}
    return [{"type": shuffled(seed), "replicas": 1, "template": template} for seed in range(count)]


def unresolved(count: int) -> dict[str, Any]:
    types = many_types(64)
    text = "".join(f"$(replicas[{shuffled(seed)}])" for seed in range(1000, 1000 + count))
    types[0]["template"] = {"spec": {"containers": [{"name": "main", "image": "a", "args": [text]}]}}
    return generic(replicaSpecs=types)


def unknown_rules(count: int) -> dict[str, Any]:
    rules = [{shuffled(seed): [0]} for seed in range(1000, 1000 + count)]
    return generic(replicaSpecs=many_types(1000), successRules=rules)


def unknown_fields(count: int) -> dict[str, Any]:
    container = {"name": "main", "image": "a", **{f"field{number}": 1 for number in range(count)}}
    template = {"spec": {"containers": [container]}}
    return generic(replicaSpecs=[{"type": "worker", "replicas": 1, "template": template}])


@pytest.mark.parametrize(
    "job",
    [unresolved(6000), unknown_rules(2000), unknown_fields(50_000)],
    ids=["variables", "rules", "fields"],
)
def test_a_large_and_wrong_object_is_judged_in_little_time(job: dict[str, Any]) -> None:
    begun = time.process_time()
    problems = validate(default(job))
    assert time.process_time() - begun < MOST_SECONDS
    assert len(problems) <= 201


def test_warnings_do_not_hide_an_error() -> None:
    job = unknown_fields(1000)
    assert is_valid(validate(default(job)))
    job["spec"]["successRules"] = [{"nobody": [0]}]
    assert not is_valid(validate(default(job)))


def test_that_there_may_be_more_is_told() -> None:
    *first, last = validate(default(unresolved(500)))
    assert (len(first), last.rule) == (MOST_ERRORS, "too-many")
