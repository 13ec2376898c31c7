from typing import Any

import pytest

from bireme.apiserver.managed.entries import (
    EntryError,
    applier,
    by_owner,
    cap,
    entry,
    is_reset,
    keep_times,
    read_entries,
    updater,
    written,
)

Object = dict[str, Any]
EARLY, LATE = "2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z"


def update(manager: str, *names: str, time: str | None = EARLY, version: str = "v1", sub: str = "") -> Object:
    return entry(updater(manager, version, sub), version, {f"f:{name}": {} for name in names}, time)


def test_an_entry_has_its_fields_in_order() -> None:
    assert list(update("m", "a", sub="status")) == [
        "manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource",
    ]  # fmt: skip


def test_a_writer_without_a_name_is_unknown() -> None:
    assert updater("", "v1", "").manager == "unknown"


def test_entries_are_sorted_by_operation_time_name_version_and_subresource() -> None:
    entries = [
        entry(applier("z", ""), "v1", {}, LATE),
        update("z", time=None),
        update("x"),
        update("x", version="v2"),
        update("x", version="v2", sub="status"),
        update("y"),
        update("a", time=LATE),
    ]
    assert written(by_owner(reversed(entries))) == entries


def test_an_applier_is_the_same_in_every_version() -> None:
    first, second = (entry(applier("a", ""), version, {}, EARLY) for version in ("v1", "v2"))
    assert list(by_owner([first, second]).values()) == [second]


def test_the_oldest_updaters_become_one() -> None:
    late = [update(f"m{number}", f"n{number}", time=LATE) for number in range(9)]
    old = [update("c", "c"), update("b", "b"), update("a", "a", time=None)]
    capped = written(cap(by_owner([*late, *old])))
    assert capped == [update("ancient-changes", "a", "b", "c"), *late]


def test_updaters_of_several_versions_have_several_heirs() -> None:
    entries = [update(f"m{number:02}", f"n{number}", version=f"v{number % 2}") for number in range(12)]
    capped = written(cap(by_owner(entries)))
    heirs = [
        (each["apiVersion"], list(each["fieldsV1"]))
        for each in capped
        if each["manager"] == "ancient-changes"
    ]
    assert heirs == [("v0", ["f:n0", "f:n2"]), ("v1", ["f:n1", "f:n3"])]
    assert len(capped) == 10


def test_appliers_are_never_merged() -> None:
    entries = [entry(applier(f"a{number}", ""), "v1", {"f:a": {}}, EARLY) for number in range(15)]
    assert len(cap(by_owner(entries))) == 15


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"operation": "Other"}, "operation must be `Apply` or `Update`", id="operation"),
        pytest.param({"operation": None}, "operation must be `Apply` or `Update`", id="no operation"),
        pytest.param({"apiVersion": ""}, "apiVersion must not be empty", id="version"),
        pytest.param({"fieldsType": ""}, "missing fieldsType in managed fields entry 0", id="no type"),
        pytest.param({"fieldsType": "V2"}, 'invalid fieldsType "V2" in managed fields entry 0', id="type"),
        pytest.param({"fieldsV1": {"x": {}}}, "error decoding versioned set: missing colon: x", id="fields"),
    ],
)
def test_entries_that_can_not_be_read_are_refused(change: Object, message: str) -> None:
    with pytest.raises(EntryError) as refusal:
        read_entries([update("m") | change])
    assert str(refusal.value) == message


def test_times_are_read_into_utc() -> None:
    [found] = read_entries([update("m", time="2030-01-01T02:00:00+02:00")]).values()
    assert found["time"] == "2030-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [([], True), ([{}], True), (None, False), ([{}, {}], False), ([{"manager": "m"}], False)],
)
def test_owners_are_forgotten_on_request(sent: Any, expected: bool) -> None:
    assert is_reset(sent) is expected


def tracked(size: int, *entries: Object) -> Object:
    return {"metadata": {"name": "x", "managedFields": list(entries)}, "spec": {"size": size}}


@pytest.mark.parametrize(
    ("new", "kept"),
    [
        pytest.param(tracked(1, update("m", "a", time=LATE)), True, id="nothing but the time"),
        pytest.param(tracked(2, update("m", "a", time=LATE)), False, id="a field"),
        pytest.param(tracked(1, update("m", "b", time=LATE)), False, id="its owner's fields"),
        pytest.param(tracked(1, update("m", "a", time=LATE), update("n", time=LATE)), False, id="the owners"),
        pytest.param(tracked(1), False, id="no owners any more"),
    ],
)
def test_a_write_that_changes_nothing_keeps_its_times(new: Object, kept: bool) -> None:
    old = tracked(1, update("m", "a"))
    assert keep_times(old, new) == (old if kept else new)
