"""What a client may ask of a pod's log."""

import pytest

from bireme.apiserver.errors import StatusError
from bireme.apiserver.serving.gateway import read_log_options

POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}}


@pytest.mark.parametrize(
    "text",
    [
        "9999-99-99", "x", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "20260102T030405Z",
        "2026-13-02T03:04:05Z", "2026-01-02T25:04:05Z", "2026-01-02T03:04:05+99:99", "0000-01-01T00:00:00Z",
        "2026-W01-1T03:04:05Z", "２０２６-01-02T03:04:05Z", "x" * 10_000, "\0", "2026-01-02T03:04:05Z\n",
    ],
    ids=lambda text: repr(text[:30]),
)  # fmt: skip
def test_a_time_that_is_none_is_a_bad_request(text: str) -> None:
    with pytest.raises(StatusError) as refusal:
        read_log_options(POD, {"sinceTime": text})
    assert (refusal.value.code, refusal.value.reason) == (400, "BadRequest")
    assert len(refusal.value.message) < 1000


@pytest.mark.parametrize(
    "text", ["", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05-11:30"]
)
def test_a_time_as_rfc_3339_writes_it_is_taken(text: str) -> None:
    assert read_log_options(POD, {"sinceTime": text}).since_time == text


@pytest.mark.parametrize("name", ["sinceSeconds", "tailLines", "limitBytes"])
@pytest.mark.parametrize(
    "text", ["x", "1_0", " 1", "１", "1.0", "9223372036854775808", "9" * 10_000], ids=lambda text: text[:20]
)
def test_a_number_that_is_none_is_a_bad_request(name: str, text: str) -> None:
    with pytest.raises(StatusError) as refusal:
        read_log_options(POD, {name: text})
    assert refusal.value.code == 400
    assert len(refusal.value.message) < 1000
