"""What is told of an action that the API server refused."""

import json

import pytest

from bireme.control.executor import PASS_BYTES, PASS_PODS, limit_bytes, limit_pods, stages, trouble_of
from bireme.kube.errors import error_from
from bireme.planning.actions import Action, Create, CreatePod, DeletePod


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
    pod = CreatePod("a", dict)
    kinds = [
        [each.kind for each in stage if isinstance(each, Create | CreatePod)]
        for stage in stages([pod, *actions])
    ]
    assert kinds == [["Role"], ["RoleBinding"], ["Pod"]]


def pods(count: int, size: int) -> list[Action]:
    return [CreatePod(f"pod-{number}", dict, size) for number in range(count)]


@pytest.mark.parametrize(
    ("sizes", "count"), [((3, 3, 4), 3), ((3, 3, 5), 2), ((20, 1), 1), ((1, 20), 1), ((), 0)]
)
def test_a_batch_has_a_limit_in_bytes_and_at_least_one_action(sizes: tuple[int, ...], count: int) -> None:
    batch = [CreatePod(f"pod-{number}", dict, size) for number, size in enumerate(sizes)]
    assert len(limit_bytes(batch, 10)) == count


@pytest.mark.parametrize(
    ("count", "size", "kept"),
    [
        (PASS_PODS, 10, PASS_PODS),
        (PASS_PODS + 1, 10, PASS_PODS),
        (9, PASS_BYTES // 4, 4),
        (2, PASS_BYTES * 2, 1),
    ],
    ids=["as many as allowed", "one more", "large ones", "too large a one comes alone"],
)
def test_a_pass_creates_a_limited_number_of_pods_and_does_all_else(count: int, size: int, kept: int) -> None:
    deletion = DeletePod("other", "uid")
    limited = limit_pods([*pods(count, size), deletion])
    assert sum(isinstance(action, CreatePod) for action in limited) == kept
    assert deletion in limited
