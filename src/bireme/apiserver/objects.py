"""The metadata of an object: what the server fills in, what a writer may set, and what is valid."""

from collections.abc import Iterator
from typing import Any, Final, NoReturn

import msgspec

from bireme.apiserver import errors, formats
from bireme.apiserver.errors import FieldError, forbidden_value, invalid_value, required
from bireme.apiserver.kinds import Kind
from bireme.apiserver.rules import Object
from bireme.apiserver.times import is_time

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
MOST_ANNOTATION_BYTES: Final = 256 * 1024
_LONGEST_GENERATED: Final = 63
_FIELDS: Final = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences",
    "finalizers", "managedFields",
)  # fmt: skip
_OF_THE_SERVER: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_IMMUTABLE: Final = ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
STANDARD_FINALIZERS: Final = ("kubernetes", ORPHAN, FOREGROUND)


class _OwnerReference(msgspec.Struct):
    apiVersion: str | None = None  # noqa: N815 - as it is on the wire
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None  # noqa: N815


class _Metadata(msgspec.Struct):
    """The types of what stands in metadata; unknown fields are dropped later."""

    name: str | None = None
    generateName: str | None = None  # noqa: N815
    namespace: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815
    generation: int | None = None
    creationTimestamp: str | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    deletionGracePeriodSeconds: int | None = None  # noqa: N815
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    ownerReferences: list[_OwnerReference] | None = None  # noqa: N815
    finalizers: list[str] | None = None
    managedFields: list[dict[str, Any]] | None = None  # noqa: N815


class MalformedError(Exception):
    """A body is not of the shape of its kind."""


def copied(body: object) -> Any:
    """A deep copy, so that the writer can't reach what is stored. Bytes are JSON, and need no copy.

    What JSON can't say is a MalformedError.
    """
    try:
        return msgspec.json.decode(body if isinstance(body, bytes) else msgspec.json.encode(body))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise MalformedError(str(error)) from error


def json_text(value: object) -> str:
    """A value as an error shows it."""
    return msgspec.json.encode(value, order="sorted").decode()


def same(one: object, other: object) -> bool:
    """Whether two values are the same JSON; Python takes 1, 1.0 and True for equal."""
    if one is other:
        return True
    return one == other and _canonical(one) == _canonical(other)


def _canonical(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def check_shape(kind: Kind, body: object) -> None:
    """Raise MalformedError for what is no object, or has metadata of wrong types."""
    if not isinstance(body, dict):
        raise MalformedError(f"json: cannot unmarshal into Go value of type {kind.kind}")
    try:
        msgspec.convert({} if body.get("metadata") is None else body["metadata"], _Metadata)
    except msgspec.ValidationError as error:
        raise MalformedError(f"metadata: {error}") from error
    for field in ("creationTimestamp", "deletionTimestamp"):
        _check_time((body.get("metadata") or {}).get(field))


def _check_time(text: str | None) -> None:
    if text and not is_time(text):
        raise MalformedError(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse')


def shaped(kind: Kind, body: Object) -> Object:
    """A body of right shape as an object of its kind: new at its top and in its metadata, cleaned."""
    metadata = body.get("metadata") or {}
    shaped = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": _cleaned(metadata)}
    return shaped | {key: value for key, value in body.items() if key not in shaped}


def without_empty(kind: Kind, body: Object) -> Object:
    """A body without what is as good as absent: structs, which a server has of its own kinds, forget it."""
    kept = ("metadata", "spec", "status")
    return {
        key: value
        for key, value in body.items()
        if value is not None and (kind.custom or key in kept or value not in ({}, []))
    }


def _cleaned(metadata: Object) -> Object:
    """Metadata without what is empty, unknown or managed: as it comes back from a server."""
    cleaned = {
        field: value
        for field in _FIELDS
        if (value := metadata.get(field)) or (field in metadata and value == 0)
    }
    if cleaned.get("generation") == 0:
        del cleaned["generation"]
    for field in ("labels", "annotations"):
        if field in cleaned and None in cleaned[field].values():
            cleaned[field] = {key: text or "" for key, text in cleaned[field].items()}
    if "ownerReferences" in cleaned:
        cleaned["ownerReferences"] = _unique(cleaned["ownerReferences"])
    return cleaned


def _unique(references: list[Object]) -> list[Object]:
    return [each for index, each in enumerate(references) if each not in references[:index]]


def check_type(kind: Kind, body: Object) -> None:
    """Refuse a body that says it is something else; our own kinds must say what they are."""
    said, version = body.get("kind"), body.get("apiVersion")
    if kind.custom and not said:
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is missing"
        )
    if kind.custom and said != kind.kind:
        name = (body.get("metadata") or {}).get("name", "")
        problem = invalid_value("kind", said, f"must be {kind.kind}")
        raise errors.invalid(str(said), kind.group, name, [problem])
    if said not in (None, "", kind.kind) or version not in (None, "", kind.api_version):
        raise MalformedError(f'no kind "{said}" is registered for version "{version}"')


def refuse_body(kind: Kind, why: str) -> NoReturn:
    """Say that a body is not of its kind."""
    said = f'{kind.kind} in version "{kind.version}"'
    raise errors.bad_request(f"{said} cannot be handled as a {kind.kind}: {why}")


def check_namespace(kind: Kind, namespace: str, metadata: Object) -> None:
    """Put the request's namespace into the metadata; another one there already is refused."""
    expected = namespace if kind.namespaced else ""
    if metadata.get("namespace", expected) != expected and expected:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata.pop("namespace", None)
    if expected:
        metadata["namespace"] = expected


def check_name(name: str, metadata: Object) -> None:
    given = metadata.get("name", "")
    if not given:
        raise errors.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise errors.bad_request(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )


def without_system_fields(metadata: Object) -> Object:
    """What a creator may say."""
    return {field: value for field, value in metadata.items() if field not in _OF_THE_SERVER}


def generated_name(prefix: str, suffix: str) -> str:
    """As long as a DNS label may be; a longer prefix is cut."""
    return prefix[: _LONGEST_GENERATED - len(suffix)] + suffix


def in_order(metadata: Object) -> Object:
    """Metadata with its fields in the order that a server writes them."""
    return {field: metadata[field] for field in _FIELDS if field in metadata}


def carry_over(metadata: Object, old: Object) -> None:
    """Put back what an update can't change, and need not repeat."""
    for field in ("generation", "creationTimestamp"):
        metadata.pop(field, None)
        if field in old:
            metadata[field] = old[field]
    metadata.setdefault("uid", old["uid"])
    if "deletionTimestamp" in old:
        metadata["deletionTimestamp"] = old["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in old:
        metadata.setdefault("deletionGracePeriodSeconds", old["deletionGracePeriodSeconds"])


def metadata_problems(kind: Kind, metadata: Object, *, is_new: bool = True) -> list[FieldError]:
    # The name of a custom kind's object is looked at closely once.
    name_format = kind.name_format if is_new or not kind.custom else formats.path_segment
    return [
        *_name_problems(name_format, metadata),
        *_map_problems(metadata),
        *_reference_problems(metadata),
        *_finalizer_problems(kind, metadata.get("finalizers", [])),
    ]


def changed_problems(kind: Kind, new: Object, old: Object) -> list[FieldError]:
    """What is wrong with the metadata of an update, and with the change of it."""
    metadata = new["metadata"]
    return [*metadata_problems(kind, metadata, is_new=False), *update_problems(metadata, old["metadata"])]


def only_owners(metadata: Object, old: Object) -> Object:
    """The old metadata, with the new owners of fields: all that a custom kind's status write may change."""
    kept = {field: value for field, value in old.items() if field != "managedFields"}
    owners = metadata.get("managedFields")
    return kept | {"managedFields": owners} if owners else kept


def update_problems(metadata: Object, old: Object) -> list[FieldError]:
    """What an update may not do to metadata."""
    problems = []
    if "deletionTimestamp" in old:
        extra = sorted(set(metadata.get("finalizers", ())) - set(old.get("finalizers", ())))
        if extra:
            listed = ", ".join(f'"{each}"' for each in extra)
            problems.append(
                forbidden_value(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, found new finalizers"
                    f" []string{{{listed}}}",
                )
            )
    problems += [
        invalid_value(f"metadata.{field}", metadata.get(field), "field is immutable")
        for field in _IMMUTABLE
        if metadata.get(field) != old.get(field)
    ]
    return problems


def _name_problems(name_format: formats.NameFormat, metadata: Object) -> Iterator[FieldError]:
    if prefix := metadata.get("generateName"):
        for problem in name_format(formats.name_prefix(prefix)):
            yield invalid_value("metadata.generateName", prefix, problem)
    if "name" not in metadata:
        yield required("metadata.name", "name or generateName is required")
        return
    for problem in name_format(metadata["name"]):
        yield invalid_value("metadata.name", metadata["name"], problem)


def _map_problems(metadata: Object) -> Iterator[FieldError]:
    for key, value in metadata.get("labels", {}).items():
        for problem in formats.label_key(key):
            yield invalid_value("metadata.labels", key, problem)
        for problem in formats.label_value(value):
            yield invalid_value("metadata.labels", value, problem)
    annotations: dict[str, str] = metadata.get("annotations", {})
    for key in annotations:
        for problem in formats.label_key(key.lower()):
            yield invalid_value("metadata.annotations", key, problem)
    if (
        sum(len(key.encode()) + len(text.encode()) for key, text in annotations.items())
        > MOST_ANNOTATION_BYTES
    ):
        yield errors.too_long("metadata.annotations", MOST_ANNOTATION_BYTES)


def _reference_problems(metadata: Object) -> Iterator[FieldError]:
    references: list[Object] = metadata.get("ownerReferences", [])
    controller = ""
    for reference in references:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(field):
                sentence = "version must not be empty" if field == "apiVersion" else "must not be empty"
                yield invalid_value(f"metadata.ownerReferences.{field}", reference.get(field, ""), sentence)
        if reference.get("controller"):
            this = f"{reference.get('kind')}/{reference.get('name')}"
            if controller:
                yield invalid_value(
                    "metadata.ownerReferences",
                    references,
                    'Only one reference can have Controller set to true. Found "true" in references for'
                    f" {controller} and {this}",
                )
            controller = controller or this


def _finalizer_problems(kind: Kind, finalizers: list[str]) -> Iterator[FieldError]:
    for finalizer in finalizers:
        for problem in formats.label_key(finalizer):
            yield invalid_value("metadata.finalizers", finalizer, problem)
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        sentence = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        yield invalid_value("metadata.finalizers", finalizers, sentence)
    if kind.custom or kind.free_finalizers:
        return
    for index, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            sentence = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid_value(f"metadata.finalizers[{index}]", finalizer, sentence)
