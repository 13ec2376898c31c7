"""Patches: JSON merge patch (RFC 7386) and JSON patch (RFC 6902). The third sort is in `strategic`.

Every function returns a new document and leaves the old one as it was; what did not change is shared.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from bireme.apiserver import errors, strategic
from bireme.apiserver.kinds import Kind
from bireme.apiserver.objects import same
from bireme.apiserver.rules import Object
from bireme.apiserver.structural.strictness import duplicate_fields

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
MOST_OPERATIONS: Final = 10_000
MOST_COPIED_BYTES: Final = 3 * 1024 * 1024
"""By all operations of a patch: each copy may double what is there."""

Change = Callable[[Any, str], None]


def check_media_type(kind: Kind, media_type: str) -> None:
    """Refuse what a kind can't be patched with; of our own kinds nobody knows the merge keys."""
    if kind.custom and media_type not in (JSON_PATCH, MERGE_PATCH):
        raise errors.unknown_format([JSON_PATCH, MERGE_PATCH, APPLY_PATCH])
    if media_type not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH):
        raise errors.unsupported_media_type()


def repeated_fields(patch: object, media_type: str) -> tuple[str, ...]:
    """What a strict reader says of fields that stand twice in a patch; it must be JSON in bytes."""
    found = duplicate_fields(patch) if isinstance(patch, bytes) else ()
    return tuple(f"json patch {each}" for each in found) if media_type == JSON_PATCH else found


def apply_patch(kind: Kind, document: Object, patch: object, media_type: str) -> Any:
    """Patch a document; what the patch makes of it need not be an object of its kind."""
    if media_type == JSON_PATCH:
        return json_patch(document, patch)
    if not isinstance(patch, dict):
        raise errors.bad_request("error decoding patch: json: cannot unmarshal into Go value of type map")
    return merge_patch(document, patch) if media_type == MERGE_PATCH else _strategic(kind, document, patch)


def _strategic(kind: Kind, document: Object, patch: Object) -> Any:
    try:
        return strategic.merge(kind, document, patch)
    except (LookupError, TypeError, AttributeError) as error:
        # Lists where maps must be, keys that are none: there are as many ways as there are directives.
        raise errors.bad_request(f"invalid patch format: {error}") from error


def merge_patch(document: object, patch: object) -> Any:
    """RFC 7386: objects are merged, null removes, anything else replaces."""
    if not isinstance(patch, dict):
        # Beyond the RFC, null removes in lists too, unless these take the place of an object.
        return patch if isinstance(document, dict) else _without_nulls(patch)
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def _without_nulls(value: object) -> Any:
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return value


def json_patch(document: Any, operations: object) -> Any:
    """RFC 6902: all operations, or an error that does not say which one failed."""
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise errors.bad_request(
            "error decoding patch: json: cannot unmarshal into Go value of type []handlers.jsonPatchOp"
        )
    if len(operations) > MOST_OPERATIONS:
        sentence = (
            f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        )
        raise errors.StatusError(
            errors.status(413, "RequestEntityTooLarge", f"Request entity too large: {sentence}")
        )
    try:
        copied_bytes = 0
        for operation in operations:
            copied_bytes += _copied_bytes(document, operation)
            if copied_bytes > MOST_COPIED_BYTES:
                raise ValueError("too much is copied")
            document = _apply(document, operation)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise errors.unprocessable() from error
    return document


def _copied_bytes(document: Any, operation: Object) -> int:
    if operation.get("op") != "copy":
        return 0
    return len(msgspec.json.encode(_read(document, _steps(operation["from"]))))


def _apply(document: Any, operation: Object) -> Any:
    path = _steps(operation["path"])
    match operation["op"]:
        case "add":
            return _edit(document, path, _adding(operation["value"]))
        case "replace":
            return _edit(document, path, _replacing(operation["value"]))
        case "remove":
            return _edit(document, path, _remove)
        case "test":
            if not same(_read(document, path), operation.get("value")):
                raise ValueError("test failed")
            return document
        case "move":
            source = _steps(operation["from"])
            return _edit(_edit(document, source, _remove), path, _adding(_read(document, source)))
        case "copy":
            return _edit(document, path, _adding(_read(document, _steps(operation["from"]))))
    raise ValueError("unexpected operation")


def _steps(pointer: str) -> list[str]:
    """The steps of a JSON pointer; none at all name the whole document."""
    if pointer and not pointer.startswith("/"):
        raise ValueError("not a pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _read(document: Any, steps: list[str]) -> Any:
    """What stands at the end of the steps; a field that is not there is null, as the server has it."""
    for place, step in enumerate(steps, 1):
        if isinstance(document, list):
            document = document[_index(document, step)]
        else:
            document = document.get(step) if place == len(steps) else document[step]
    return document


def _edit(document: Any, steps: list[str], change: Change) -> Any:
    """The document with a change at the end of the steps, copied along them."""
    if not steps:
        whole = {"": document}
        change(whole, "")
        return whole[""]
    step, *rest = steps
    copy = list(document) if isinstance(document, list) else dict(document)
    if not rest:
        change(copy, step)
    else:
        place: Any = _index(copy, step) if isinstance(copy, list) else step
        copy[place] = _edit(copy[place], rest, change)
    return copy


def _index(sequence: list[Any], step: str) -> int:
    index = int(step)
    if not -len(sequence) <= index < len(sequence):
        raise IndexError(step)
    return index


def _adding(value: Any) -> Change:
    def add(container: Any, step: str) -> None:
        if not isinstance(container, list):
            container[step] = value
        elif step == "-":
            container.append(value)
        else:
            container.insert(_index([*container, None], step) % (len(container) + 1), value)

    return add


def _replacing(value: Any) -> Change:
    def replace(container: Any, step: str) -> None:
        # Against the RFC, a field that is not there can be replaced: the server's library allows it.
        place: Any = _index(container, step) if isinstance(container, list) else step
        container[place] = value

    return replace


def _remove(container: Any, step: str) -> None:
    del container[_index(container, step) if isinstance(container, list) else step]
