"""Refusals as a Kubernetes API server words them.

    StatusError             any refusal; `status` is the object that goes over the wire
    FieldError              one cause inside of an Invalid

The functions below are named after the reason that a client reads, and take what the sentence needs.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

_OPTIMISTIC_LOCK: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_EXPIRED_CONTINUE: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new"
    " list without the continue parameter, or use the continue token in this response to retrieve the"
    " remainder of the results. Continuing with the provided token results in an inconsistent list - objects"
    " that were created, modified, or deleted between the time the first chunk was returned and now may show"
    " up in the list."
)


class Named(Protocol):
    """What an error says of a kind: `configmaps`, or `genericjobs.batch.tensorstack.dev`."""

    @property
    def group(self) -> str: ...
    @property
    def plural(self) -> str: ...
    @property
    def kind(self) -> str: ...


class StatusError(Exception):
    """A request was refused; nothing was written."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status["message"])
        self.status = status
        self.warnings: tuple[str, ...] = ()
        """What else the writer is told."""

    @property
    def code(self) -> int:
        code: int = self.status["code"]
        return code

    @property
    def reason(self) -> str:
        """Empty where the server gives none."""
        reason: str = self.status.get("reason", "")
        return reason

    @property
    def message(self) -> str:
        message: str = self.status["message"]
        return message


class FieldError(NamedTuple):
    """One field, and what is wrong with it."""

    type: str
    field: str
    body: str


def invalid_value(field: str, value: object, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, f"Invalid value: {_printed(value)}: {detail}")


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, f"Required value: {detail}".removesuffix(": "))


def forbidden_value(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def not_supported(field: str, value: object, supported: Iterable[str]) -> FieldError:
    choice = ", ".join(f'"{each}"' for each in supported)
    return FieldError(
        "FieldValueNotSupported", field, f"Unsupported value: {_printed(value)}: supported values: {choice}"
    )


def too_long(field: str, most_bytes: int) -> FieldError:
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {most_bytes} bytes")


def _printed(value: object) -> str:
    return msgspec.json.encode(value).decode()


def status(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """A Status object; an empty reason and absent details are left out."""
    made: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    made |= {"status": "Failure", "message": message}
    if reason:
        made["reason"] = reason
    if details is not None:
        made["details"] = details
    return made | {"code": code}


def success(code: int | None = None, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """The Status that answers where there is no object to answer with."""
    made: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        made["details"] = details
    return made if code is None else made | {"code": code}


def _details(name: str, group: str, kind: str, causes: Sequence[FieldError] = ()) -> dict[str, Any]:
    details: dict[str, Any] = {key: value for key, value in _pairs(name, group, kind) if value}
    if causes:
        details["causes"] = [
            {"reason": each.type, "message": each.body, "field": each.field} for each in causes
        ]
    return details


def _pairs(name: str, group: str, kind: str) -> tuple[tuple[str, str], ...]:
    return ("name", name), ("group", group), ("kind", kind)


def qualified(name: str, group: str) -> str:
    """How a kind or a resource stands in a sentence."""
    return f"{name}.{group}" if group else name


def not_found(kind: Named, name: str) -> StatusError:
    message = f'{qualified(kind.plural, kind.group)} "{name}" not found'
    return StatusError(status(404, "NotFound", message, _details(name, kind.group, kind.plural)))


def no_such_path() -> StatusError:
    """The path names no resource that is served."""
    message = "the server could not find the requested resource"
    return StatusError(status(404, "NotFound", message, {}))


def already_exists(kind: Named, name: str, *, being_deleted: bool = False) -> StatusError:
    message = f'{qualified(kind.plural, kind.group)} "{name}" already exists'
    if being_deleted:
        message = f"object is being deleted: {message}"
    return StatusError(status(409, "AlreadyExists", message, _details(name, kind.group, kind.plural)))


def name_not_generated(kind: Named, name: str) -> StatusError:
    """Every name that was made from a generateName is taken."""
    message = (
        f'{qualified(kind.plural, kind.group)} "{name}" already exists,'
        " the server was not able to generate a unique name for the object"
    )
    details = _details(name, kind.group, kind.plural) | {"retryAfterSeconds": 1}
    return StatusError(status(409, "AlreadyExists", message, details))


def conflict(resource: str, group: str, name: str, why: str) -> StatusError:
    """The object is not the one, or not as, the writer thinks. `resource` is a plural, or a Kind."""
    message = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {why}'
    return StatusError(status(409, "Conflict", message, _details(name, group, resource)))


def stale(kind: Named, name: str) -> StatusError:
    """The writer's resourceVersion is not the latest."""
    return conflict(kind.plural, kind.group, name, _OPTIMISTIC_LOCK)


def wrong_uid(kind: Named, key: str, name: str, given: str, actual: str) -> StatusError:
    """An object is replaced by its UID, and another one has taken its name. `key` is where etcd has it."""
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg:"
        f" Precondition failed: UID in precondition: {given}, UID in object meta: {actual}"
    )
    return conflict(kind.plural, kind.group, name, why)


def nothing_with_uid(kind: Named, name: str, given: str) -> StatusError:
    """An apply names the UID of an object, and would create another one."""
    why = f"uid mismatch: the provided object specified uid {given}, and no existing object was found"
    return conflict(kind.plural, kind.group, name, why)


def forbidden(kind: Named, name: str, why: str, causes: Sequence[FieldError] = ()) -> StatusError:
    named = f' "{name}"' if name else ""
    message = f"{qualified(kind.plural, kind.group)}{named} is forbidden: {why}"
    return StatusError(status(403, "Forbidden", message, _details(name, kind.group, kind.plural, causes)))


def namespace_terminating(kind: Named, name: str, namespace: str) -> StatusError:
    cause = FieldError(
        "NamespaceTerminating", "metadata.namespace", f"namespace {namespace} is being terminated"
    )
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    return forbidden(kind, name, why, [cause])


def invalid(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """`kind` is the Kind, or what the server takes for one; errors are joined as Go's aggregates are."""
    sentences = list(dict.fromkeys(f"{each.field}: {each.body}" for each in errors))
    joined = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    message = f'{qualified(kind, group)} "{name}" is invalid: {joined}'
    return StatusError(status(422, "Invalid", message, _details(name, group, kind, errors)))


def version_missing(kind: Named, name: str) -> StatusError:
    """A kind that can only be replaced with a resourceVersion was sent without one."""
    error = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    return invalid(kind.plural, kind.group, name, [error])


def invalid_options(options: str, *errors: FieldError) -> StatusError:
    """`options` is ListOptions, DeleteOptions, …"""
    return invalid(options, "meta.k8s.io", "", errors)


def unprocessable() -> StatusError:
    """A JSON patch that can't be applied; the server does not say why."""
    message = "the server rejected our request due to an error in our request"
    return StatusError(status(422, "Invalid", message, {}))


def bad_request(message: str) -> StatusError:
    return StatusError(status(400, "BadRequest", message))


def method_not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(status(405, "MethodNotAllowed", message, {}))


def unsupported_media_type() -> StatusError:
    return StatusError(status(415, "UnsupportedMediaType", "415: Unsupported Media Type", {}))


def not_acceptable(served: Iterable[str]) -> StatusError:
    message = f"only the following media types are accepted: {', '.join(served)}"
    return StatusError(status(406, "NotAcceptable", message))


def unauthorized() -> StatusError:
    return StatusError(status(401, "Unauthorized", "Unauthorized"))


def refused_origin(why: str) -> StatusError:
    return StatusError(status(403, "Forbidden", f"forbidden: {why}", {}))


def body_too_large(most: int) -> StatusError:
    message = f"Request entity too large: limit is {most}"
    return StatusError(status(413, "RequestEntityTooLarge", message))


def body_too_slow(seconds: float) -> StatusError:
    message = f"Timeout: the body of the request did not arrive within {seconds:g} s"
    return StatusError(status(504, "Timeout", message))


def too_many(what: str) -> StatusError:
    """The client shall come again later."""
    message = f"too many {what} at once, please try again later"
    return StatusError(status(429, "TooManyRequests", message, {"retryAfterSeconds": 1}))


def unknown_format(accepted: Iterable[str]) -> StatusError:
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(
        accepted
    )
    return StatusError(status(415, "UnsupportedMediaType", message))


def expired_list() -> StatusError:
    """A list of an exact version that the history no longer has."""
    return StatusError(status(410, "Expired", "The resourceVersion for the provided list is too old."))


def expired_version(asked: int, oldest: int) -> StatusError:
    """A watch from a version that the history no longer has."""
    return StatusError(status(410, "Expired", f"too old resource version: {asked} ({oldest})"))


def expired_continue(token: str) -> StatusError:
    """`token` continues the list at the latest version."""
    made = status(410, "Expired", _EXPIRED_CONTINUE)
    made["metadata"] = {"continue": token}
    return StatusError(made)


def version_too_large(asked: int, current: int) -> StatusError:
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(status(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1}))


def internal(message: str) -> StatusError:
    """What the server did not expect; it gives no reason."""
    return StatusError(status(500, "", message))


def storage_failed(why: str) -> StatusError:
    """A write could not be saved, and was not done."""
    return StatusError(status(507, "InsufficientStorage", f"the write was not saved, and not done: {why}"))
