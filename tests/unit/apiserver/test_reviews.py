"""Who may do what, and who is asking."""

from typing import Any

import pytest

from bireme.apiserver.errors import StatusError
from bireme.apiserver.reviews import MASTERS, User, answer

USER = User("local", (MASTERS, "system:authenticated"), "7")
PODS = {"namespace": "default", "verb": "get", "resource": "pods"}
EITHER = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def review(kind: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec, **more}


def asked(kind: str, spec: dict[str, Any], namespace: str = "", **more: Any) -> dict[str, Any]:
    return answer(f"{kind.lower()}s", review(kind, spec, **more), namespace, USER)


@pytest.mark.parametrize(
    "spec",
    [{"resourceAttributes": PODS}, {"nonResourceAttributes": {"path": "/x"}}, {"resourceAttributes": {}}],
    ids=["resource", "path", "anything"],
)
def test_the_caller_may_do_everything(spec: dict[str, Any]) -> None:
    found = asked("SelfSubjectAccessReview", spec)
    assert (found["spec"], found["status"]["allowed"]) == (spec, True)
    assert found["status"]["reason"]


@pytest.mark.parametrize(
    ("subject", "allowed"),
    [
        pytest.param({"user": "local"}, True, id="the caller"),
        pytest.param({"user": "jane"}, False, id="another user"),
        pytest.param({"groups": ["a", MASTERS]}, True, id="a master"),
        pytest.param({"user": "jane", "groups": ["a"]}, False, id="another group"),
    ],
)
@pytest.mark.parametrize(
    ("kind", "namespace"), [("SubjectAccessReview", ""), ("LocalSubjectAccessReview", "default")]
)
def test_others_may_only_as_masters(
    kind: str, namespace: str, subject: dict[str, Any], *, allowed: bool
) -> None:
    found = asked(kind, {**subject, "resourceAttributes": PODS}, namespace)
    assert found["status"]["allowed"] is allowed
    assert found["status"]["reason"]
    assert "denied" not in found["status"]


def test_a_review_may_leave_out_what_it_is() -> None:
    found = answer("selfsubjectaccessreviews", {"spec": {"resourceAttributes": PODS}}, "", USER)
    assert (found["kind"], found["apiVersion"]) == ("SelfSubjectAccessReview", "authorization.k8s.io/v1")


def test_a_local_review_gets_the_namespace_of_its_path() -> None:
    found = asked("LocalSubjectAccessReview", {"user": "x", "resourceAttributes": PODS}, "default")
    assert found["metadata"] == {"namespace": "default"}


def test_unknown_fields_and_a_given_status_are_dropped() -> None:
    spec = {"resourceAttributes": PODS | {"unknown": 1}}
    found = asked("SelfSubjectAccessReview", spec, status={"allowed": False, "denied": True})
    assert found["spec"] == {"resourceAttributes": PODS}
    assert (found["status"]["allowed"], "denied" in found["status"]) == (True, False)


def test_the_rules_of_the_caller_are_one_that_permits_all() -> None:
    assert asked("SelfSubjectRulesReview", {"namespace": "default"})["status"] == {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


@pytest.mark.parametrize(
    "body", [{}, {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}]
)
def test_the_caller_is_told_who_it_is(body: dict[str, Any]) -> None:
    assert answer("selfsubjectreviews", body, "", USER) == {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "status": {
            "userInfo": {"username": "local", "uid": "7", "groups": [MASTERS, "system:authenticated"]}
        },
    }


@pytest.mark.parametrize(
    ("kind", "spec", "more", "problems"),
    [
        pytest.param("SelfSubjectAccessReview", {}, {}, [("spec.resourceAttributes", EITHER)], id="nothing"),
        pytest.param(
            "SelfSubjectAccessReview",
            {"resourceAttributes": PODS, "nonResourceAttributes": {"path": "/x", "verb": "get"}},
            {},
            [("spec.nonResourceAttributes", '{"Path":"/x","Verb":"get"}: cannot be specified in comb')],
            id="both",
        ),
        pytest.param(
            "SubjectAccessReview",
            {},
            {"metadata": {"name": "x"}},
            [
                ("spec.resourceAttributes", EITHER),
                ("spec.user", "at least one of user or group must be specified"),
                ("metadata", 'Invalid value: {"name":"x"}: must be empty'),
            ],
            id="all wrong",
        ),
        pytest.param(
            "SelfSubjectAccessReview",
            {"resourceAttributes": PODS | {"labelSelector": {}}},
            {},
            [("spec.resourceAttributes.labelSelector.requirements", "or rawSelector is required")],
            id="an empty selector",
        ),
        pytest.param(
            "SelfSubjectAccessReview",
            {"resourceAttributes": PODS | {"fieldSelector": {
                "rawSelector": "a=b", "requirements": [{"key": "a", "operator": "Exists"}]}}},
            {},
            [("spec.resourceAttributes.fieldSelector.rawSelector", "may not specified at the same time")],
            id="two selectors",
        ),
        pytest.param(
            "LocalSubjectAccessReview",
            {"user": "x", "nonResourceAttributes": {"path": "/x"}},
            {"metadata": {"name": "x"}},
            [
                ("metadata", "must be empty except for namespace"),
                ("spec.nonResourceAttributes", "disallowed on this kind of request"),
            ],
            id="a path in a namespace",
        ),
        pytest.param(
            "LocalSubjectAccessReview",
            {"user": "x", "resourceAttributes": {"namespace": "default"}},
            {},
            [("spec.resourceAttributes.namespace", "must match metadata.namespace")],
            id="another namespace",
        ),
    ],
)  # fmt: skip
def test_a_review_that_makes_no_sense_is_invalid(
    kind: str, spec: dict[str, Any], more: dict[str, Any], problems: list[tuple[str, str]]
) -> None:
    with pytest.raises(StatusError) as caught:
        asked(kind, spec, "other" if kind.startswith("Local") else "", **more)
    causes = caught.value.status["details"]["causes"]
    assert caught.value.code == 422
    assert [cause["field"] for cause in causes] == [field for field, _ in problems]
    assert all(text in cause["message"] for (_, text), cause in zip(problems, causes, strict=True))


@pytest.mark.parametrize(
    ("resource", "body"),
    [
        ("selfsubjectaccessreviews", []),
        ("selfsubjectaccessreviews", review("SubjectAccessReview", {"resourceAttributes": PODS})),
        ("selfsubjectaccessreviews", review("SelfSubjectAccessReview", {"resourceAttributes": {"verb": 3}})),
        ("selfsubjectrulesreviews", review("SelfSubjectRulesReview", {})),
        ("localsubjectaccessreviews", review("LocalSubjectAccessReview", {}, metadata={"namespace": "x"})),
    ],
    ids=["no object", "another kind", "a wrong type", "no namespace", "two namespaces"],
)
def test_a_body_that_can_not_be_read_is_a_bad_request(resource: str, body: object) -> None:
    with pytest.raises(StatusError) as caught:
        answer(resource, body, "default" if resource.startswith("local") else "", USER)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


def test_what_is_no_review_is_not_found() -> None:
    with pytest.raises(StatusError) as caught:
        answer("tokenreviews", {}, "", USER)
    assert caught.value.code == 404
