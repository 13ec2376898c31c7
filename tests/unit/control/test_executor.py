"""What is told of an action that the API server refused."""

import json

import pytest

from bireme.control.executor import trouble_of
from bireme.kube.errors import error_from
from bireme.planning.actions import DeletePod


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (403, 'pods "x" is forbidden: exceeded quota: small', "QuotaExceeded"),
        (403, 'pods "x" is forbidden: User "u" cannot create resource "pods"', "Forbidden"),
        (403, 'admission webhook "policy.example" denied the request: no', "Refused"),
        (400, 'admission webhook "policy.example" denied the request: no', "Refused"),
        (422, 'Pod "x" is invalid: spec.containers: Required value', "Refused"),
    ],
    ids=["quota", "rbac", "webhook", "webhook with its own code", "invalid"],
)
def test_a_refusal_is_named_after_who_refused(code: int, message: str, reason: str) -> None:
    error = error_from(code, {}, json.dumps({"kind": "Status", "message": message}).encode())
    assert trouble_of(DeletePod("x", "uid"), error).reason == reason
