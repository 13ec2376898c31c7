"""Bodies in Protobuf are read as what they would be in JSON."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.apiserver.objects import MalformedError
from bireme.apiserver.protobuf.messages import read_object
from bireme.apiserver.protobuf.wire import WireError, fields, signed


def number(value: int) -> bytes:
    """A varint."""
    value &= 2**64 - 1
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def at(place: int, value: int | bytes | str) -> bytes:
    """A field."""
    if isinstance(value, int):
        return number(place << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(place << 3 | 2) + number(len(data)) + data


def body(api_version: str, kind: str, content: bytes) -> bytes:
    return b"k8s\x00" + at(1, at(1, api_version) + at(2, kind)) + at(2, content) + at(3, "") + at(4, "")


def test_kubectl_asks_whether_it_may_create_pods() -> None:
    sent = (
        b"k8s\x00\n2\n\x17authorization.k8s.io/v1\x12\x17SelfSubjectAccessReview\x12?\n\x10\n\x00\x12\x00\x1a\x00"
        b'"\x00*\x002\x008\x00B\x00\x12!\n\x1f\n\x07default\x12\x06create\x1a\x00"\x00*\x04pods2\x00:\x00\x1a\x08'
        b'\x08\x00\x12\x00\x1a\x00 \x00\x1a\x00"\x00'
    )
    found = read_object(sent)
    assert (found["apiVersion"], found["kind"]) == ("authorization.k8s.io/v1", "SelfSubjectAccessReview")
    attributes = {key: value for key, value in found["spec"]["resourceAttributes"].items() if value}
    assert attributes == {"namespace": "default", "verb": "create", "resource": "pods"}
    assert "creationTimestamp" not in found["metadata"]


def test_maps_bytes_and_flags() -> None:
    data = at(2, at(1, "a") + at(2, b"\x00\xff")) + at(2, at(1, "empty")) + at(5, 0)
    assert read_object(body("v1", "Secret", data)) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "data": {"a": "AP8=", "empty": ""},
        "immutable": False,
    }


def test_what_is_inline_in_json_is_inline() -> None:
    volume = at(1, "v") + at(2, at(2, at(1, "Memory") + at(2, at(1, "1Gi"))))
    found = read_object(body("v1", "Pod", at(2, at(1, volume))))
    assert found["spec"]["volumes"] == [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]


@pytest.mark.parametrize(
    ("port", "expected"),
    [(at(1, 1) + at(2, 0) + at(3, "web"), "web"), (at(1, 0) + at(2, 80) + at(3, ""), 80), (b"", 0)],
    ids=["string", "int", "empty"],
)
def test_an_int_or_string_is_what_its_type_says(port: bytes, expected: int | str) -> None:
    found = read_object(body("v1", "Service", at(2, at(1, at(4, port)))))
    assert found["spec"]["ports"] == [{"targetPort": expected}]


@pytest.mark.parametrize("packed", [False, True], ids=["one by one", "packed"])
def test_a_list_of_numbers_comes_in_two_forms(*, packed: bool) -> None:
    groups = at(4, number(1) + number(-2)) if packed else at(4, 1) + at(4, -2)
    found = read_object(body("v1", "Pod", at(2, at(14, groups))))
    assert found["spec"]["securityContext"]["supplementalGroups"] == [1, -2]


def test_moments_are_written_as_json_has_them() -> None:
    spec = at(3, at(1, 1_767_323_045) + at(2, 123_456_000)) + at(4, b"")
    found = read_object(body("coordination.k8s.io/v1", "Lease", at(1, at(8, at(1, 1))) + at(2, spec)))
    assert found["spec"] == {"acquireTime": "2026-01-02T03:04:05.123456Z"}
    assert found["metadata"] == {"creationTimestamp": "1970-01-01T00:00:01Z"}


def test_options_are_known_in_every_group() -> None:
    for api_version in ("v1", "rbac.authorization.k8s.io/v1", "meta.k8s.io/v1"):
        found = read_object(body(api_version, "DeleteOptions", at(1, 0) + at(4, "Background")))
        assert (found["gracePeriodSeconds"], found["propagationPolicy"]) == (0, "Background")


def test_unknown_fields_are_dropped() -> None:
    assert read_object(body("v1", "ConfigMap", at(99, "x") + at(98, 1))) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"kind": "Pod"}',
        b"k8s\x00\xff",
        body("v1", "Nothing", b""),
        body("v1", "Pod", b"\x0a\x05abc"),
        body("v1", "Pod", b"\x0b"),
        body("v1", "Pod", at(1, at(1, b"\xff"))),
        body("v1", "Pod", at(1, 3)),
        body("v1", "Pod", at(1, at(8, at(1, 2**62)))),
    ],
    ids=[
        "nothing",
        "json",
        "cut off",
        "unknown kind",
        "too short",
        "group",
        "no text",
        "no message",
        "no moment",
    ],
)
def test_what_can_not_be_read_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedError):
        read_object(data)


def test_what_is_nested_without_end_is_malformed() -> None:
    schema = b""
    for _ in range(300):
        schema = at(27, schema)
    version = at(4, at(1, schema))
    with pytest.raises(MalformedError, match="depth"):
        read_object(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", at(2, at(7, version))))


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_keep_their_sign(value: int) -> None:
    [field] = fields(at(1, value))
    assert isinstance(field.value, int)
    assert signed(field.value) == value


@given(st.binary(max_size=40))
def test_any_bytes_are_fields_or_an_error(data: bytes) -> None:
    try:
        found = list(fields(data))
    except WireError:
        return
    assert all(field.number >= 0 for field in found)
