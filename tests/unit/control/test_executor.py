"""What is told of an action that the API server refused."""

import json

import pytest

from bireme.control.executor import stages, trouble_of
from bireme.kube.errors import error_from
from bireme.planning.actions import Create, CreatePod, DeletePod


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (403, 'pods "x" is forbidden: exceeded quota: small', "QuotaExceeded"),
        (403, 'pods "x" is forbidden: User "u" cannot create resource "pods"', "Forbidden"),
        (
            403,
            'pods "x" is forbidden: failed quota: small: must specify limits.cpu for: main',
            "QuotaMustSpecify",
        ),
        (
            403,
            'pods "x" is forbidden: violates PodSecurity "restricted:latest": unrestricted capabilities',
            "PodSecurityViolation",
        ),
        (
            403,
            'pods "x" is forbidden: error looking up service account a/b: serviceaccount "b" not found',
            "ServiceAccountNotFound",
        ),
        (
            403,
            'pods "x" is forbidden: unable to create content in namespace a because it is being terminated',
            "NamespaceTerminating",
        ),
        (403, 'pods "x" is forbidden: maximum cpu usage per Container is 1, but limit is 2', "Refused"),
        (403, 'admission webhook "policy.example" denied the request: no', "Refused"),
        (400, 'admission webhook "policy.example" denied the request: no', "Refused"),
        (422, 'Pod "x" is invalid: spec.containers: Required value', "Refused"),
    ],
    ids=[
        "quota exceeded",
        "rbac",
        "quota must specify",
        "pod security",
        "service account",
        "namespace",
        "limit range",
        "webhook",
        "webhook with its own code",
        "invalid",
    ],
)
def test_a_refusal_is_named_after_who_refused(code: int, message: str, reason: str) -> None:
    error = error_from(code, {}, json.dumps({"kind": "Status", "message": message}).encode())
    assert trouble_of(DeletePod("x", "uid"), error).reason == reason


def test_a_role_binding_follows_its_role() -> None:
    """The API server answers 404 to a RoleBinding whose Role does not exist yet."""
    actions = [Create({"kind": kind, "metadata": {"name": "a"}}) for kind in ("RoleBinding", "Role")]
    pod = CreatePod({"kind": "Pod", "metadata": {"name": "a"}})
    kinds = [[each.kind for each in stage if isinstance(each, Create)] for stage in stages([pod, *actions])]
    assert kinds == [["Role"], ["RoleBinding"], ["Pod"]]
