"""Jobs as the controller reads them, whatever they are like."""

import msgspec
import pytest

from bireme.api.kinds import find_kind
from bireme.control.jobs import TOO_DEEP, JobObject, UnreadableJobError, Verdicts, decode_job
from support.jobs import generic

BATCH = "batch.tensorstack.dev/v1beta1"


def nested(levels: int) -> JobObject:
    """A job in whose pod template something is nested."""
    job = generic()
    job["metadata"]["namespace"] = "default"
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["strange"] = "HERE"
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    body = msgspec.json.encode(job).replace(b'"HERE"', deep)
    return msgspec.json.decode(body, type=JobObject)


@pytest.mark.parametrize("levels", [300, 500, 700, 900])
def test_a_job_that_is_nested_deeply_is_judged_all_the_same(levels: int) -> None:
    errors = Verdicts().errors(nested(levels))
    assert not errors or errors == (TOO_DEEP,)


def test_a_job_that_is_nested_too_deeply_is_refused_or_unreadable() -> None:
    job = msgspec.structs.replace(nested(1), spec=msgspec.Raw(b'{"a":' * 3000 + b"1" + b"}" * 3000))
    assert Verdicts().errors(job) == (TOO_DEEP,)
    kind = find_kind(BATCH, "GenericJob")
    assert kind is not None
    with pytest.raises(UnreadableJobError):
        decode_job(kind, job)
