"""Reviews of admission, as an API server sends them."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.admission import default
from bireme.control.webhooks.reviews import (
    MalformedReviewError,
    answer_default,
    answer_validate,
    judge,
    read_review,
)
from support.jobs import generic


def review(obj: Any, old: Any = None) -> bytes:
    request: dict[str, Any] = {
        "uid": "1",
        "operation": "UPDATE" if old else "CREATE",
        "name": "job",
        "namespace": "n",
    }
    request |= {"userInfo": {"username": "ann"}, "object": obj, "oldObject": old}
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


def wrong() -> dict[str, Any]:
    return generic(service={"ports": [{"port": 80, "nodePort": 30000}]})


def validated(obj: Any, old: Any = None) -> dict[str, Any]:
    answer: dict[str, Any] = judge(answer_validate, review(obj, old))["response"]
    return answer


def test_what_is_left_out_is_filled_in_by_a_patch() -> None:
    job = generic()
    answer = judge(answer_default, review(job))["response"]
    assert answer["patchType"] == "JSONPatch"
    (operation,) = json.loads(base64.b64decode(answer["patch"]))
    assert operation == {"op": "add", "path": "/spec", "value": default(job)["spec"]}
    assert judge(answer_default, review(default(job)))["response"] == {"uid": "1", "allowed": True}


def test_a_refusal_names_every_problem_with_its_field() -> None:
    job = wrong()
    job["spec"]["successRules"] = [{}]
    answer = validated(job)
    assert not answer["allowed"]
    status = answer["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    fields = [cause["field"] for cause in status["details"]["causes"]]
    assert len(fields) == 2
    assert all(f"\n- {field}: " in status["message"] for field in fields)
    assert status["message"].startswith('GenericJob.batch.tensorstack.dev "job" is invalid: ')


def test_warnings_let_an_object_in() -> None:
    job = generic()
    job["spec"]["replicaSpecs"][0]["template"]["spec"] = {
        **job["spec"]["replicaSpecs"][0]["template"]["spec"],
        "restartPolicy": "Always",
    }
    answer = validated(job)
    assert answer["allowed"]
    assert answer["warnings"][0].startswith("spec.replicaSpecs[0].template.spec.restartPolicy: ")


def test_what_was_let_in_wrong_can_still_be_labelled_and_deleted() -> None:
    job = wrong()
    labelled = {**job, "metadata": {**job["metadata"], "labels": {"a": "b"}}}
    assert validated(labelled, job)["allowed"]
    changed = {**job, "spec": {**job["spec"], "cleanUpPolicy": "All"}}
    assert not validated(changed, job)["allowed"]
    leaving = {**changed, "metadata": {**job["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}}
    assert validated(leaving, job)["allowed"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"1"}}',
    ],
    ids=["empty", "object", "list", "version"],
)
def test_what_is_no_review_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(MalformedReviewError):
        read_review(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.fixed_dictionaries(
    {
        "apiVersion": st.just("batch.tensorstack.dev/v1beta1"),
        "kind": st.sampled_from(["GenericJob", "MPIJob"]),
    },
    optional={
        "metadata": st.dictionaries(st.text(max_size=5), JSON, max_size=3),
        "spec": JSON,
        "status": JSON,
    },
)


@given(obj=OBJECTS, old=st.none() | OBJECTS)
def test_any_object_gets_an_answer(obj: Any, old: Any) -> None:
    body = review(obj, old)
    assert judge(answer_default, body)["response"]["uid"] == "1"
    assert judge(answer_validate, body)["response"]["uid"] == "1"
