"""Reviews of admission: what the API server asks, and how it is answered. No I/O.

The objects of a review are as large and as strange as a tenant makes them, and admission works on Python
objects, which take far more memory than their JSON: three bytes of `[],` become a list of 56. So a review
is opened in two steps. `read_review` keeps both objects as bytes. `judge` refuses those that are too
large, too deep, or have too many elements, and decodes the others; so decoding and judging one review
takes at most about 50 MB and half a second.

An object that is on its way out, or whose spec stays, is let through even where it would be refused:
nothing may be in the way of finalizers, and what was let in earlier can still be labelled.

All functions here may take long. They run in the ReviewExecutor, not on the event loop.
"""

import base64
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from bireme.admission import Problem, default, is_valid, validate
from bireme.api.paths import format_path
from bireme.control.webhooks.bodies import MEBIBYTE
from bireme.kube.nesting import deep_nesting

T = TypeVar("T")
API_VERSION: Final = "admission.k8s.io/v1"
Object = dict[str, Any]
_MOST_TOLD: Final = 20
LARGEST_OBJECT: Final = 3 * MEBIBYTE
"""An API server's own limit of a request."""
MOST_MEMORY: Final = 16 * MEBIBYTE
"""Of a review when it is decoded, by an estimate that is rather too high."""
_WEIGHTS: Final = {b"{": 240, b"[": 72, b",": 64, b'":': 56, b"$(": 400}
"""Bytes that a dict, a list, one more element and a key take; those inside of texts are counted, too.

A variable such as `$(rank)` takes time instead: with this weight, 40,000 of them are the most.
"""
_NOTHING: Final = msgspec.Raw(b"null")


class MalformedReviewError(Exception):
    """What was sent is no review."""


class User(msgspec.Struct, frozen=True):
    """Who asks, as the API server knows them."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


class Request(msgspec.Struct, frozen=True):
    """One object that somebody wants to create or to change."""

    uid: str
    operation: str = ""
    name: str = ""
    namespace: str = ""
    user_info: User = User()
    object: Object | None = None
    old_object: Object | None = None


class Review(msgspec.Struct, frozen=True, rename="camel"):
    """A request whose objects are not decoded yet."""

    uid: str
    operation: str = ""
    name: str = ""
    namespace: str = ""
    user_info: msgspec.Raw = msgspec.Raw(b"{}")
    object: msgspec.Raw = _NOTHING
    old_object: msgspec.Raw = _NOTHING


class _Body(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: Review


def read_review(body: bytes | bytearray) -> Review:
    """Read what stands around the objects. Raises MalformedReviewError."""
    try:
        # To skip a value, too, a decoder goes into it.
        with deep_nesting():
            review = msgspec.json.decode(body, type=_Body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedReviewError(f"no AdmissionReview: {error}") from error
    if (review.api_version, review.kind) != (API_VERSION, "AdmissionReview"):
        raise MalformedReviewError(f"{review.api_version} {review.kind} is not {API_VERSION} AdmissionReview")
    return review.request


def judge(answer: Callable[[Request], T], body: bytes | bytearray) -> T | Object:
    """Open a review and answer it; or refuse it, where it can't be judged. Raises MalformedReviewError."""
    review = read_review(body)
    if trouble := _trouble(review, body):
        return _refuse_unread(review, trouble)
    try:
        return answer(_decoded(review))
    except RecursionError:
        return _refuse_unread(review, "the object is nested too deeply: no job needs hundreds of levels")


def _decoded(review: Review) -> Request:
    try:
        return Request(
            review.uid,
            review.operation,
            review.name,
            review.namespace,
            msgspec.json.decode(review.user_info, type=User),
            msgspec.json.decode(review.object, type=Object | None),
            msgspec.json.decode(review.old_object, type=Object | None),
        )
    except msgspec.DecodeError as error:
        raise MalformedReviewError(f"no AdmissionReview: {error}") from error


def _trouble(review: Review, body: bytes | bytearray) -> str:
    """Why the review is not decoded; empty if it is."""
    largest = max(memoryview(each).nbytes for each in (review.object, review.old_object))
    if largest > LARGEST_OBJECT:
        return f"the object has {largest} bytes, and at most {LARGEST_OBJECT} are judged"
    if sum(body.count(mark) * weight for mark, weight in _WEIGHTS.items()) > MOST_MEMORY:
        return "the object has too many elements: write long lists into a ConfigMap or a volume"
    return ""


class _Metadata(msgspec.Struct, rename="camel"):
    deletion_timestamp: str | None = None


class _Outline(msgspec.Struct):
    """What can be said of an object that is not decoded."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: msgspec.Raw = _NOTHING


def _refuse_unread(review: Review, trouble: str) -> Object:
    try:
        with deep_nesting():
            obj = msgspec.json.decode(review.object, type=_Outline | None)
            old = msgspec.json.decode(review.old_object, type=_Outline | None)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedReviewError(f"no object: {error}") from error
    request = Request(review.uid)
    if obj is None or obj.metadata.deletion_timestamp is not None:
        return allow(request)
    # An API server writes equal values alike.
    if old is not None and bytes(old.spec) == bytes(obj.spec):
        return allow(request)
    return deny(request, 422, "Invalid", trouble)


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
    if obj is None or is_leaving(obj):
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
    if obj is None or is_leaving(obj):
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


def is_leaving(obj: Object) -> bool:
    """Whether the object is being deleted: then only finalizers go, and nothing may be in their way."""
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))
