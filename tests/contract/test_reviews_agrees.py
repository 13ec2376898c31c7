"""Access reviews are answered as a real API server answers them, and refused in its words."""

import json
from typing import Any, Final

import pytest

from bireme.apiserver import reviews
from bireme.apiserver.errors import StatusError
from support.control_plane import ControlPlane
from support.raw_client import RawClient

pytestmark = pytest.mark.xdist_group("control_plane")

Object = dict[str, Any]
USER: Final = reviews.User("admin", (reviews.MASTERS, "system:authenticated"))
PODS: Final = {"namespace": "default", "verb": "get", "resource": "pods"}
SELF: Final = "selfsubjectaccessreviews"
LOCAL: Final = "namespaces/default/localsubjectaccessreviews"


def of(kind: str, spec: object, **more: Any) -> Object:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec, **more}


REVIEWS: Final[dict[str, tuple[str, object]]] = {
    "a resource": (SELF, of("SelfSubjectAccessReview", {"resourceAttributes": PODS})),
    "a path": (SELF, of("SelfSubjectAccessReview", {"nonResourceAttributes": {"path": "/", "verb": "get"}})),
    "no kind": (SELF, {"spec": {"resourceAttributes": PODS}}),
    "empty attributes": (SELF, of("SelfSubjectAccessReview", {"resourceAttributes": {}})),
    "an unknown field": (SELF, of("SelfSubjectAccessReview", {"resourceAttributes": PODS | {"a": 1}})),
    "a namespace": (
        SELF,
        of("SelfSubjectAccessReview", {"resourceAttributes": {}}, metadata={"namespace": "x"}),
    ),
    "no attributes": (SELF, of("SelfSubjectAccessReview", {})),
    "an empty body": (SELF, {}),
    "both": (
        SELF,
        of("SelfSubjectAccessReview", {"resourceAttributes": PODS, "nonResourceAttributes": {"path": "/"}}),
    ),
    "a name": (SELF, of("SelfSubjectAccessReview", {}, metadata={"name": "x"})),
    "an empty selector": (
        SELF,
        of("SelfSubjectAccessReview", {"resourceAttributes": PODS | {"labelSelector": {}}}),
    ),
    "a user": ("subjectaccessreviews", of("SubjectAccessReview", {"user": "x", "resourceAttributes": PODS})),
    "a master": (
        "subjectaccessreviews",
        of("SubjectAccessReview", {"groups": [reviews.MASTERS], "resourceAttributes": PODS}),
    ),
    "nobody": ("subjectaccessreviews", of("SubjectAccessReview", {})),
    "a local user": (LOCAL, of("LocalSubjectAccessReview", {"user": "x", "resourceAttributes": PODS})),
    "another namespace": (
        LOCAL,
        of("LocalSubjectAccessReview", {"user": "x", "resourceAttributes": PODS | {"namespace": "y"}}),
    ),
    "a mismatch": (LOCAL, of("LocalSubjectAccessReview", {}, metadata={"namespace": "y"})),
    "rules without a namespace": ("selfsubjectrulesreviews", of("SelfSubjectRulesReview", {})),
}


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> RawClient:
    if control_plane.is_existing_cluster:
        pytest.skip("BIREME_TEST_KUBECONFIG: that cluster may be of another version")
    return RawClient(control_plane)


def asked(server: RawClient, path: str, body: object) -> tuple[int, Object]:
    code, data = server.send(f"apis/authorization.k8s.io/v1/{path}", body)
    return code, json.loads(data)


@pytest.mark.parametrize(("path", "body"), REVIEWS.values(), ids=REVIEWS.keys())
def test_a_review_is_answered_as_the_server_answers(server: RawClient, path: str, body: object) -> None:
    theirs = asked(server, path, body)
    assert plain(reviewed(path, body)) == plain(theirs)


@pytest.mark.parametrize(
    "body",
    [
        [],
        of("SubjectAccessReview", {}),
        of("SelfSubjectAccessReview", "x"),
        of("SelfSubjectAccessReview", {"resourceAttributes": {"verb": 3}}),
    ],
    ids=["no object", "another kind", "no spec", "a wrong type"],
)
def test_a_body_that_can_not_be_read_is_refused_alike(server: RawClient, body: object) -> None:
    (our_code, ours), (code, theirs) = (
        reviewed(SELF, body),
        asked(server, SELF, body),
    )
    assert (our_code, ours["reason"]) == (code, theirs["reason"])


def reviewed(path: str, body: object) -> tuple[int, Object]:
    *place, resource = path.split("/")
    try:
        return 201, reviews.answer(resource, body, place[1] if place else "", USER)
    except StatusError as error:
        return error.code, error.status


def plain(answer: tuple[int, Object]) -> tuple[int, Object]:
    """Without who wrote the fields, and without the reason, which the server has none for."""
    code, review = answer
    status = review["status"]
    if isinstance(status, dict):
        status = {key: value for key, value in status.items() if key != "reason"}
    metadata = {key: value for key, value in review["metadata"].items() if key != "managedFields"}
    return code, review | {"metadata": metadata, "status": status}
