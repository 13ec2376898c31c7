"""What decoding into structs, and encoding them again, makes of objects."""

from typing import Any

import pytest

from bireme.apiserver.decoding import decode, decode_known
from bireme.apiserver.kinds import CONFIG_MAP, CORE, EVENT, LEASE, NODE, POD, ROLE, SECRET, Kind
from bireme.apiserver.objects import MalformedError

Object = dict[str, Any]


def container(**fields: Any) -> Object:
    decoded = decode(POD, {"spec": {"containers": [{"name": "c", **fields}]}})
    made: Object = decoded["spec"]["containers"][0]
    return made


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"image": ""}, {}),
        ({"image": None}, {}),
        ({"stdin": False}, {}),
        ({"args": []}, {}),
        ({"args": ["", None]}, {"args": ["", ""]}),
        ({"securityContext": {}}, {"securityContext": {}}),
        ({"securityContext": {"runAsUser": 0}}, {"securityContext": {"runAsUser": 0}}),
        ({"securityContext": {"runAsUser": None}}, {"securityContext": {}}),
        ({"restartPolicy": ""}, {"restartPolicy": ""}),
        ({"ports": [{"containerPort": 1}]}, {"ports": [{"containerPort": 1, "protocol": "TCP"}]}),
        ({"ports": [None]}, {"ports": [{"containerPort": 0, "protocol": "TCP"}]}),
        ({"unknown": 1}, {}),
    ],
    ids=["text", "null", "boolean", "list", "nulls in a list", "pointer", "pointer to zero",
         "pointer to null", "pointer to nothing", "default of a type", "null object", "unknown"],
)  # fmt: skip
def test_what_is_empty_is_dropped_where_go_drops_it(given: Object, kept: Object) -> None:
    always = {
        "name": "c",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    assert container(**given) == always | kept


@pytest.mark.parametrize(
    ("given", "canonical"),
    [("0.5", "500m"), (0.25, "250m"), (2, "2"), ("1024Mi", "1Gi"), ("1e3", "1e3"), (" 1 ", "1"), ("1n", "1m"),
     (None, "0")],
)  # fmt: skip
def test_amounts_are_canonical_and_rounded_up_to_thousandths(given: Any, canonical: str) -> None:
    assert container(resources={"limits": {"cpu": given}})["resources"]["limits"] == {"cpu": canonical}


def test_an_amount_that_is_no_resource_is_not_rounded() -> None:
    volume = {"name": "v", "emptyDir": {"sizeLimit": "1n"}}
    assert decode(POD, {"spec": {"volumes": [volume]}})["spec"]["volumes"] == [volume]


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.999Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T01:04:05+02:00", "2026-01-01T23:04:05Z"),
        (None, None),
    ],
)
def test_moments_are_whole_seconds_in_utc(given: str | None, written: str | None) -> None:
    assert decode(EVENT, {"firstTimestamp": given})["firstTimestamp"] == written


def test_some_moments_have_microseconds() -> None:
    spec = decode(LEASE, {"spec": {"renewTime": "2026-01-02T05:04:05.000001+02:00"}})["spec"]
    assert spec == {"renewTime": "2026-01-02T03:04:05.000001Z"}


def test_bytes_are_encoded_in_one_way() -> None:
    assert decode(SECRET, {"data": {"a": "a2V5\n", "b": ""}}) == {
        "metadata": {},
        "data": {"a": "a2V5", "b": ""},
    }


def test_what_is_always_written_is_there() -> None:
    assert decode(ROLE, {}) == {"metadata": {}, "rules": None}
    node = decode(NODE, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    times = {"lastHeartbeatTime": None, "lastTransitionTime": None}
    assert node["status"]["conditions"] == [{"type": "Ready", "status": "True", **times}]
    assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}


@pytest.mark.parametrize(
    ("kind", "body", "path"),
    [
        (POD, {"spec": {"containers": {}}}, "Pod.spec.containers"),
        (POD, {"spec": {"containers": ["c"]}}, "Pod.spec.containers[0]"),
        (POD, {"spec": {"containers": [{"name": 5}]}}, "Pod.spec.containers[0].name"),
        (POD, {"spec": {"hostNetwork": "yes"}}, "Pod.spec.hostNetwork"),
        (POD, {"spec": {"priority": True}}, "Pod.spec.priority"),
        (POD, {"spec": {"priority": 1.0}}, "Pod.spec.priority"),
        (POD, {"spec": {"priority": 2**31}}, "Pod.spec.priority"),
        (POD, {"spec": {"activeDeadlineSeconds": 2**63}}, "Pod.spec.activeDeadlineSeconds"),
        (POD, {"spec": {"overhead": {"cpu": "1x"}}}, "Pod.spec.overhead.cpu"),
        (POD, {"spec": {"overhead": {"cpu": []}}}, "Pod.spec.overhead.cpu"),
        (CONFIG_MAP, {"data": {"a": 1}}, "ConfigMap.data.a"),
        (SECRET, {"data": {"a": "?"}}, "Secret.data.a"),
        (EVENT, {"firstTimestamp": "today"}, "Event.firstTimestamp"),
        (EVENT, {"firstTimestamp": "2026-13-01T00:00:00Z"}, "Event.firstTimestamp"),
        (LEASE, {"spec": {"renewTime": "2026-01-02T05:04:05Z"}}, "Lease.spec.renewTime"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_value_of_another_type_is_refused_with_its_path(kind: Kind, body: Object, path: str) -> None:
    with pytest.raises(MalformedError, match=r"^json: .*\((.*)\)$") as refused:
        decode(kind, body)
    assert str(refused.value).endswith(f"({path})")


@pytest.mark.parametrize("kind", CORE, ids=lambda kind: kind.plural)
def test_decoding_twice_is_decoding_once(kind: Kind) -> None:
    once = decode(kind, {"metadata": {"name": "a", "labels": {"b": None}}})
    assert decode(kind, once) == once


def test_the_given_object_stays_as_it_was() -> None:
    given = {"spec": {"containers": [{"name": "c", "image": "", "resources": {"limits": {"cpu": "0.5"}}}]}}
    decode(POD, given)
    assert given == {
        "spec": {"containers": [{"name": "c", "image": "", "resources": {"limits": {"cpu": "0.5"}}}]}
    }


@pytest.mark.parametrize(
    "body",
    [
        {"extra": 1},
        {"extra": None},
        {"metadata": {"extra": 1}},
        {"spec": {"containers": [{"name": "c", "extra": {}}]}},
        {"spec": {"nodeSelector": {"any": "thing"}, "volumes": [{"name": "v", "emptyDir": {"extra": 1}}]}},
    ],
    ids=["at the top", "null", "in metadata", "in a list", "deep"],
)
def test_what_a_kind_does_not_know_is_noticed_and_dropped(body: Object) -> None:
    assert decode_known(POD, body) is None
    assert "extra" not in str(decode(POD, body))


def test_keys_of_maps_are_never_unknown() -> None:
    body = {"metadata": {"labels": {"extra": "1"}}, "spec": {"nodeSelector": {"extra": "1"}}}
    assert decode_known(POD, body) == decode(POD, body)
