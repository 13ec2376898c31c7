"""Who may do what, and who is asking: the reviews behind `kubectl auth`.

Whoever reaches an embedded server may do everything; so may the members of system:masters. Of anybody else
nothing is known, and that is not permission: Roles and RoleBindings are kept, but nobody is held to them.

Where the answers differ from a kube-apiserver's (1.36): they give a reason, have no managedFields, the
SelfSubjectReview has no moment, and single requirements of selectors are not checked.
"""

from typing import Final, NamedTuple

from bireme.apiserver import errors, objects
from bireme.apiserver.decoding import decode
from bireme.apiserver.errors import FieldError, invalid_value, required
from bireme.apiserver.kinds import Kind
from bireme.apiserver.objects import MalformedError
from bireme.apiserver.rules import Object

MASTERS: Final = "system:masters"
_AUTHORIZATION: Final = "authorization.k8s.io"
_EVERYTHING: Final = "everything is permitted to whoever reaches this server"
_OF_MASTERS: Final = f"everything is permitted to members of {MASTERS}"
_UNKNOWN: Final = "this server knows no permissions of other users: Roles and RoleBindings are not looked at"


class User(NamedTuple):
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


def _kind(group: str, name: str, *, namespaced: bool = False) -> Kind:
    package = group.removesuffix(".k8s.io")
    return Kind(
        group=group,
        plural=f"{name.lower()}s",
        kind=name,
        namespaced=namespaced,
        definition=f"io.k8s.api.{package}.v1.{name}",
    )


SELF_SUBJECT_REVIEW: Final = _kind("authentication.k8s.io", "SelfSubjectReview")
LOCAL_SUBJECT_ACCESS_REVIEW: Final = _kind(_AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True)
SELF_SUBJECT_ACCESS_REVIEW: Final = _kind(_AUTHORIZATION, "SelfSubjectAccessReview")
SELF_SUBJECT_RULES_REVIEW: Final = _kind(_AUTHORIZATION, "SelfSubjectRulesReview")
SUBJECT_ACCESS_REVIEW: Final = _kind(_AUTHORIZATION, "SubjectAccessReview")
REVIEWS: Final = (
    SELF_SUBJECT_REVIEW,
    LOCAL_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_RULES_REVIEW,
    SUBJECT_ACCESS_REVIEW,
)
"""What can be created, and is answered at once: none is ever stored."""
_BY_PLURAL: Final = {kind.plural: kind for kind in REVIEWS}


def answer(resource: str, body: object, namespace: str, user: User) -> Object:
    """The review with its status, to be sent with 201; `resource` is its plural. Raises StatusError."""
    kind = _BY_PLURAL.get(resource)
    if kind is None:
        raise errors.no_such_path()
    review = _read(kind, body, namespace)
    if kind is SELF_SUBJECT_REVIEW:
        return _answered(kind, {"status": {"userInfo": _user_info(user)}})
    if kind is SELF_SUBJECT_RULES_REVIEW:
        return _answered(kind, {"spec": {}, "status": _rules(review["spec"])})
    if problems := _problems(kind, review):
        # A server forgets the kind on the way.
        raise errors.invalid("", kind.group, "", problems)
    return review | {"status": _decision(kind, review["spec"], user)}


def _read(kind: Kind, body: object, namespace: str) -> Object:
    """A body as a review, with what is empty or unknown left out, and the namespace of its path."""
    if not isinstance(body, dict):
        why = "couldn't get version/kind"
        raise errors.bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): {why}")
    try:
        objects.check_type(kind, body)
        review = decode(kind, body)
    except MalformedError as error:
        objects.refuse_body(kind, str(error))
    metadata = {field: value for field, value in review["metadata"].items() if field != "managedFields"}
    objects.check_namespace(kind, namespace, metadata)
    return _answered(kind, {"metadata": metadata, "spec": review.get("spec", {})})


def _answered(kind: Kind, fields: Object) -> Object:
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {}} | fields


def _user_info(user: User) -> Object:
    info = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    return {field: value for field, value in info.items() if value}


def _rules(spec: Object) -> Object:
    if not spec.get("namespace"):
        raise errors.bad_request("no namespace on request")
    return {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


def _decision(kind: Kind, spec: Object, user: User) -> Object:
    if kind is SELF_SUBJECT_ACCESS_REVIEW or spec.get("user") == user.name:
        return {"allowed": True, "reason": _EVERYTHING}
    if MASTERS in spec.get("groups", ()):
        return {"allowed": True, "reason": _OF_MASTERS}
    return {"allowed": False, "reason": _UNKNOWN}


def _problems(kind: Kind, review: Object) -> list[FieldError]:
    spec, metadata = review["spec"], review["metadata"]
    problems = [*_attribute_problems(spec)]
    if kind is not SELF_SUBJECT_ACCESS_REVIEW and not spec.get("user") and not spec.get("groups"):
        problems.append(invalid_value("spec.user", "", "at least one of user or group must be specified"))
    for selector in ("fieldSelector", "labelSelector"):
        problems += _selector_problems(spec.get("resourceAttributes", {}), selector)
    if set(metadata) - {"namespace"}:
        detail = "must be empty except for namespace" if kind.namespaced else "must be empty"
        problems.append(invalid_value("metadata", metadata, detail))
    return problems + (_local_problems(spec, metadata["namespace"]) if kind.namespaced else [])


def _attribute_problems(spec: Object) -> list[FieldError]:
    """A review is about a resource or about a path."""
    match "resourceAttributes" in spec, "nonResourceAttributes" in spec:
        case True, True:
            detail = "cannot be specified in combination with resourceAttributes"
            return [invalid_value("spec.nonResourceAttributes", _path_attributes(spec), detail)]
        case False, False:
            detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            return [invalid_value("spec.resourceAttributes", None, detail)]
    return []


def _path_attributes(spec: Object) -> Object:
    """As a server prints them: in the words of its Go type."""
    given = spec["nonResourceAttributes"]
    return {"Path": given.get("path", ""), "Verb": given.get("verb", "")}


def _selector_problems(attributes: Object, name: str) -> list[FieldError]:
    if name not in attributes:
        return []
    path, selector = f"spec.resourceAttributes.{name}", attributes[name]
    raw, requirements = selector.get("rawSelector"), selector.get("requirements")
    if raw and requirements:
        detail = "may not specified at the same time as requirements"
        return [invalid_value(f"{path}.rawSelector", raw, detail)]
    if not raw and not requirements:
        detail = f"when {path} is specified, requirements or rawSelector is required"
        return [required(f"{path}.requirements", detail)]
    return []


def _local_problems(spec: Object, namespace: str) -> list[FieldError]:
    """What is wrong with a review inside of a namespace."""
    problems = []
    if "resourceAttributes" in spec:
        given = spec["resourceAttributes"].get("namespace", "")
        if given != namespace:
            field = "spec.resourceAttributes.namespace"
            problems.append(invalid_value(field, given, "must match metadata.namespace"))
    if "nonResourceAttributes" in spec:
        detail = "disallowed on this kind of request"
        problems.append(invalid_value("spec.nonResourceAttributes", _path_attributes(spec), detail))
    return problems
