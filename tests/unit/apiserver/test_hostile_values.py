"""Values that Python and Go read differently, or that cost more than they look like."""

from datetime import datetime

import pytest

from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import CONFIG_MAP, NAMESPACE, POD
from bireme.apiserver.lists import read_version
from bireme.apiserver.patches import APPLY_PATCH, MOST_COPIED_BYTES, json_patch
from bireme.apiserver.routes import Request, answer
from bireme.apiserver.store import Store
from bireme.apiserver.typed import BySchema

MAPS = "/api/v1/namespaces/default/configmaps"

NUMBERS = {
    "1_0": "invalid syntax",
    " 1": "invalid syntax",
    "٣": "invalid syntax",
    "": "invalid syntax",
    "1.5": "invalid syntax",
    "9223372036854775808": "value out of range",
    "-9223372036854775809": "value out of range",
    "9" * 5000: "value out of range",
}


@pytest.mark.parametrize(("text", "why"), NUMBERS.items(), ids=lambda each: each[:24] or "empty")
def test_a_limit_is_a_number_as_go_reads_it(store: Store, now: datetime, text: str, why: str) -> None:
    refused = answer(store, Request("GET", MAPS, {"limit": text}), now)
    assert refused.code == 400
    assert refused.body["message"] == f'strconv.ParseInt: parsing "{text}": {why}'


@pytest.mark.parametrize("text", ["+5", "-1", "007", "9223372036854775807"])
def test_a_limit_may_be_written_in_any_way_that_go_reads(store: Store, now: datetime, text: str) -> None:
    assert answer(store, Request("GET", MAPS, {"limit": text}), now).code == 200


@pytest.mark.parametrize("text", ["18446744073709551616", "9" * 5000])
def test_a_version_beyond_64_bits_is_refused(text: str) -> None:
    with pytest.raises(StatusError, match="value out of range") as refused:
        read_version(text)
    assert refused.value.code == 400


@pytest.mark.parametrize(("text", "version"), [("", 0), ("0" * 5000, 0), ("0" * 5000 + "7", 7)])
def test_zeros_in_front_of_a_version_do_not_count(text: str, version: int) -> None:
    assert read_version(text) == version


def test_a_write_under_a_version_of_many_digits_is_stale(store: Store, now: datetime) -> None:
    store.create(CONFIG_MAP, {"metadata": {"name": "a"}}, now, namespace="default")
    patch = {"metadata": {"resourceVersion": "9" * 5000}}
    with pytest.raises(StatusError) as refused:
        store.patch(CONFIG_MAP, "a", patch, now=now, namespace="default")
    assert refused.value.code == 409


BODIES = {
    "no UTF-8": b'"\xff"',
    "too deep": b"[" * 100_000,
    "cut": b'{"gracePeriodSeconds":',
    "no object": b"7",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_delete_options_that_are_none_are_refused(store: Store, now: datetime, body: bytes) -> None:
    assert answer(store, Request("DELETE", f"{MAPS}/a", {}, body), now).code == 400


PATCHES: dict[str, list[object]] = {
    "a path that is no text": [{"op": "test", "path": {"a": 1}}],
    "a step into a text": [{"op": "copy", "from": "/kind/x/y", "path": "/a"}],
    "no path": [{"op": "remove"}],
    "a very long path": [{"op": "remove", "path": "/a" * 5000}],
}


@pytest.mark.parametrize("operations", PATCHES.values(), ids=PATCHES)
def test_a_json_patch_that_can_not_be_applied_is_unprocessable(operations: list[object]) -> None:
    with pytest.raises(StatusError) as refused:
        json_patch({"kind": "Pod"}, operations)
    assert refused.value.code == 422


def test_copies_that_double_what_is_there_are_stopped() -> None:
    copy = {"op": "copy", "from": "/a", "path": "/a/x"}
    with pytest.raises(StatusError) as refused:
        json_patch({"a": {"text": "x" * 1000}}, [copy, copy | {"path": "/a/y"}] * 40)
    assert refused.value.code == 422


def test_a_copy_may_be_large() -> None:
    text = "x" * (MOST_COPIED_BYTES - 10)
    assert json_patch({"a": text}, [{"op": "copy", "from": "/a", "path": "/b"}])["b"] == text


DIRECTED: dict[str, dict[str, object]] = {
    "keys to retain that are no keys": {"spec": {"$retainKeys": [{"name": "c"}]}},
    "an order of what has no key": {"spec": {"$setElementOrder/containers": ["c"]}},
    "items to delete that are none": {"metadata": {"$deleteFromPrimitiveList/finalizers": 5}},
}


@pytest.mark.parametrize("patch", DIRECTED.values(), ids=DIRECTED)
def test_directives_that_make_no_sense_are_refused(
    store: Store, now: datetime, patch: dict[str, object]
) -> None:
    spec = {"containers": [{"name": "c", "image": "x"}]}
    pod = {"metadata": {"name": "a", "finalizers": ["e.com/x"]}, "spec": spec}
    store.create(POD, pod, now, namespace="default")
    with pytest.raises(StatusError) as refused:
        store.patch(POD, "a", patch, "application/strategic-merge-patch+json", now, namespace="default")
    assert refused.value.code == 400


def test_a_dry_run_of_deleting_all_answers_with_the_list(store: Store, now: datetime) -> None:
    store.create(CONFIG_MAP, {"metadata": {"name": "a"}}, now, namespace="default")
    told = answer(store, Request("DELETE", MAPS, {"dryRun": "All"}), now)
    assert (told.code, [item["metadata"]["name"] for item in told.body["items"]]) == (200, ["a"])
    assert answer(store, Request("GET", f"{MAPS}/a"), now).code == 200


def test_an_apply_may_say_null_of_its_metadata(now: datetime) -> None:
    store = Store(intake=BySchema())
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, now)
    config = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": null}'
    applied = Request("PATCH", f"{MAPS}/a", {"fieldManager": "me"}, config, APPLY_PATCH)
    assert answer(store, applied, now).code == 201
