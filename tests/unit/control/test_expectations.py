"""A job waits until its caches have seen our own writes."""

from datetime import UTC, datetime

import pytest

from bireme.api.meta import ObjectMeta
from bireme.control.expectations import Expectations, Written

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CREATED = Written("Pod", "default", "a", "uid-1", 7)
DELETED = Written("Pod", "default", "a", "uid-1", 0, deleted=True)


def shown(uid: str = "uid-1", version: str = "7", *, terminating: bool = False) -> ObjectMeta:
    return ObjectMeta(
        name="a", uid=uid, resource_version=version, deletion_timestamp=NOW if terminating else None
    )


@pytest.mark.parametrize(
    ("written", "found", "cache_version", "seen"),
    [
        (CREATED, None, 6, False),
        (CREATED, shown(), 6, True),
        (CREATED, shown(version="9"), 6, True),
        (CREATED, shown(version="5"), 6, False),
        (CREATED, shown(uid="older"), 6, False),
        (CREATED, None, 8, True),
        (DELETED, shown(), 6, False),
        (DELETED, shown(terminating=True), 6, True),
        (DELETED, None, 6, True),
        (DELETED, shown(uid="newer"), 6, True),
    ],
    ids=[
        "not there yet", "there", "changed since", "an older state", "the pod before it",
        "there and gone again",
        "not yet", "terminating", "gone", "replaced",
    ],
)  # fmt: skip
def test_a_write_counts_as_seen(
    written: Written, found: ObjectMeta | None, cache_version: int, seen: bool
) -> None:
    assert written.is_seen(found, cache_version) is seen


def test_a_job_waits_for_the_last_of_its_writes() -> None:
    expectations = Expectations()
    visible: dict[str, ObjectMeta] = {}

    def look(_kind: str, _namespace: str, name: str) -> tuple[ObjectMeta | None, int]:
        return visible.get(name), 0

    for name in ("a", "b"):
        expectations.add("job", Written("Pod", "default", name, "uid-1", 7))
    assert not expectations.are_met("job", look)
    visible["b"] = shown()
    assert not expectations.are_met("job", look)
    visible["a"] = shown()
    assert expectations.are_met("job", look)
    assert len(expectations) == 0


def test_other_jobs_do_not_wait() -> None:
    expectations = Expectations()
    expectations.add("job", CREATED)
    assert expectations.are_met("other", lambda *_: (None, 0))
    expectations.forget("job")
    assert expectations.are_met("job", lambda *_: (None, 0))
