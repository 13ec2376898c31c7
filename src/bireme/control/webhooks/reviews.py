"""Reviews of admission: what the API server asks, and how it is answered. No I/O."""

import base64
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from bireme.admission import Problem, default, is_valid, validate
from bireme.api.paths import format_path
from bireme.kube.nesting import deep_nesting

API_VERSION: Final = "admission.k8s.io/v1"
Object = dict[str, Any]
_MOST_TOLD: Final = 20


class MalformedReviewError(Exception):
    """What was sent is no review."""


class User(msgspec.Struct, frozen=True):
    """Who asks, as the API server knows them."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """One object that somebody wants to create or to change."""

    uid: str
    operation: str = ""
    name: str = ""
    namespace: str = ""
    user_info: User = User()
    object: Object | None = None
    old_object: Object | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: Request


def read_review(body: bytes) -> Request:
    """Raises MalformedReviewError."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except msgspec.DecodeError as error:
        raise MalformedReviewError(f"no AdmissionReview: {error}") from error
    if (review.api_version, review.kind) != (API_VERSION, "AdmissionReview"):
        raise MalformedReviewError(f"{review.api_version} {review.kind} is not {API_VERSION} AdmissionReview")
    return review.request


class _Metadata(msgspec.Struct, rename="camel"):
    deletion_timestamp: str | None = None


class _BareObject(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _BareRequest(msgspec.Struct):
    uid: str
    object: _BareObject | None = None


class _BareReview(msgspec.Struct):
    request: _BareRequest


def refuse_depth(body: bytes) -> Object:
    """The answer to a review of an object that is nested too deeply for us; one that is leaving may leave.

    Raises MalformedReviewError.
    """
    try:
        with deep_nesting():
            bare = msgspec.json.decode(body, type=_BareReview).request
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedReviewError(f"no AdmissionReview: {error}") from error
    request = Request(bare.uid)
    if bare.object is not None and bare.object.metadata.deletion_timestamp is not None:
        return allow(request)
    return deny(request, 422, "Invalid", "the object is nested too deeply: no job needs hundreds of levels")


def allow(request: Request, *, warnings: Sequence[str] = (), patch: Sequence[Object] = ()) -> Object:
    """The answer that lets the object in, with changes to it where there are any."""
    response: Object = {"uid": request.uid, "allowed": True}
    if warnings:
        response["warnings"] = list(warnings)
    if patch:
        encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
        response |= {"patchType": "JSONPatch", "patch": encoded}
    return _answer(response)


def deny(request: Request, code: int, reason: str, message: str, details: Object | None = None) -> Object:
    """The answer that refuses the object."""
    status = {"code": code, "reason": reason, "message": message}
    if details:
        status["details"] = details
    return _answer({"uid": request.uid, "allowed": False, "status": status})


def _answer(response: Object) -> Object:
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}


def answer_default(request: Request) -> Object:
    """Fill in what the object leaves out."""
    obj = request.object
    if obj is None or _is_leaving(obj):
        return allow(request)
    filled = default(obj)
    if filled.get("spec") == obj.get("spec"):
        return allow(request)
    # `add` also replaces: whether the object has a spec does not matter.
    return allow(request, patch=[{"op": "add", "path": "/spec", "value": filled["spec"]}])


def answer_validate(request: Request) -> Object:
    """Refuse an object that is wrong, and warn of what looks so.

    What was let in earlier, by an older version or while nobody was asked, can still be labelled, finished
    and deleted: only a change of its spec is judged.
    """
    obj, old = request.object, request.old_object
    if obj is None or _is_leaving(obj):
        return allow(request)
    if old is not None and old.get("spec") == obj.get("spec"):
        return allow(request)
    problems = validate(default(obj), old)
    warnings = [f"{format_path(p.path)}: {p.explained}" for p in problems if p.severity == "warning"]
    warnings = warnings[:_MOST_TOLD]
    if is_valid(problems):
        return allow(request, warnings=warnings)
    return _refusal(request, obj, [problem for problem in problems if problem.severity == "error"])


def _refusal(request: Request, obj: Object, errors: Sequence[Problem]) -> Object:
    kind, group = str(obj.get("kind")), str(obj.get("apiVersion")).partition("/")[0]
    more, errors = len(errors) - _MOST_TOLD, errors[:_MOST_TOLD]
    lines = [f"{format_path(problem.path)}: {problem.explained}" for problem in errors]
    lines += [f"and {more} more"] if more > 0 else []
    told = lines[0] if len(lines) == 1 else "".join(f"\n- {line}" for line in lines)
    causes = [
        {"reason": "FieldValueInvalid", "field": format_path(problem.path), "message": problem.explained}
        for problem in errors
    ]
    message = f'{kind}.{group} "{request.name}" is invalid: {told}'
    details = {"name": request.name, "group": group, "kind": kind, "causes": causes}
    return deny(request, 422, "Invalid", message, details)


def _is_leaving(obj: Object) -> bool:
    """Whether the object is being deleted: then only finalizers go, and nothing may be in their way."""
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))
