"""What a request to delete an object comes to: at once, after a grace, or when its finalizers are gone."""

from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple

import msgspec

from bireme.apiserver import errors
from bireme.apiserver.errors import invalid_value, not_supported
from bireme.apiserver.kinds import Kind
from bireme.apiserver.objects import FOREGROUND, ORPHAN
from bireme.apiserver.rules import Object
from bireme.apiserver.times import read_time, write_time

Policy = Literal["Foreground", "Background", "Orphan"]
_POLICIES: Final = ("Foreground", "Background", "Orphan")


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """How to delete; nothing of it set is the way of the kind."""

    grace_period_seconds: int | None = None
    preconditions: Preconditions = Preconditions()
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: tuple[str, ...] = ()

    def without_version(self) -> "DeleteOptions":
        """The same for an object that was written since its version was checked."""
        return msgspec.structs.replace(self, preconditions=Preconditions(self.preconditions.uid))


class Decision(NamedTuple):
    """The object as it stays or as it was last seen, and whether it goes.

    An object that goes may have to be written once more before: watchers of a pod see its deletionTimestamp.
    """

    obj: Object
    goes: bool


class _Grace(NamedTuple):
    """What grace makes of an object: `seconds` are those that were asked for."""

    obj: Object
    seconds: int


def read_options(body: object) -> DeleteOptions:
    """Options from the body of a request."""
    fields = (
        {key: value for key, value in body.items() if value is not None} if isinstance(body, dict) else body
    )
    try:
        options = msgspec.convert(fields, DeleteOptions)
    except msgspec.ValidationError as error:
        raise errors.bad_request(f"DeleteOptions: {error}") from error
    check_options(options)
    return options


def check_options(options: DeleteOptions) -> None:
    policy = options.propagation_policy
    if policy is not None and options.orphan_dependents is not None:
        sentence = "orphanDependents and deletionPropagation cannot be both set"
        raise errors.invalid_options("DeleteOptions", invalid_value("propagationPolicy", policy, sentence))
    if policy is not None and policy not in _POLICIES:
        raise errors.invalid_options(
            "DeleteOptions", not_supported("propagationPolicy", policy, (*_POLICIES, "nil"))
        )


def check_preconditions(kind: Kind, obj: Object, preconditions: Preconditions) -> None:
    """Refuse to delete an object that is not the one, or not as, the caller thinks."""
    metadata = obj["metadata"]
    for given, actual, word, guess in (
        (preconditions.uid, metadata["uid"], "UID", "deleted and then recreated"),
        (preconditions.resource_version, metadata["resourceVersion"], "ResourceVersion", "modified"),
    ):
        if given is not None and given != actual:
            why = (
                f"the {word} in the precondition ({given}) does not match the {word} in record ({actual})."
                f" The object might have been {guess}"
            )
            raise errors.conflict(kind.kind, kind.group, metadata["name"], why)


def decide(kind: Kind, obj: Object, options: DeleteOptions, now: datetime) -> Decision:
    """What becomes of an object that is asked to go."""
    check_preconditions(kind, obj, options.preconditions)
    if (held := kind.rules.hold(obj, now)) is not None:
        if kind.kind == "Namespace" and held is not obj:
            held = _with(held, finalizers=_finalizers(kind, held["metadata"], options))
        return Decision(held, goes=False)
    grace = _graceful(kind, obj, options, now)
    if grace is None:
        return Decision(obj, goes=False)
    finalizers = _finalizers(kind, obj["metadata"], options)
    left = _with(grace.obj, finalizers=finalizers) if finalizers != _listed(obj) else grace.obj
    if grace.obj is not obj:
        return Decision(left, goes=not finalizers and grace.seconds == 0)
    if finalizers:
        return Decision(_marked(left, now), goes=False)
    return Decision(obj, goes=True)


def _graceful(kind: Kind, obj: Object, options: DeleteOptions, now: datetime) -> _Grace | None:
    """The object with the grace it gets, itself if there is none; None if an earlier grace still runs."""
    metadata, asked = obj["metadata"], options.grace_period_seconds
    asked = 1 if asked is not None and asked < 0 else asked
    grace = kind.rules.grace_seconds(obj, asked)
    if grace is None:
        return _Grace(obj, 0)
    if "deletionTimestamp" not in metadata:
        moment = write_time(now + timedelta(seconds=grace))
        marked = _bumped(obj, deletionTimestamp=moment, deletionGracePeriodSeconds=grace)
        return _Grace(marked, grace)
    running: int = metadata.get("deletionGracePeriodSeconds", 0)
    if running == 0:
        return _Grace(obj, 0)
    return None if asked is None or asked >= running else _shortened(obj, running, asked, now)


def _shortened(obj: Object, running: int, asked: int, now: datetime) -> _Grace:
    end = read_time(obj["metadata"]["deletionTimestamp"]) - timedelta(seconds=running - asked)
    # Somebody else still has to see that a grace runs, however little of it is left.
    seconds = asked if end >= now else min(asked, 1)
    moment = write_time(max(end, now))
    return _Grace(_with(obj, deletionTimestamp=moment, deletionGracePeriodSeconds=seconds), asked)


def _marked(obj: Object, now: datetime) -> Object:
    """The object waiting for its finalizers."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata:
        return _bumped(obj, deletionTimestamp=write_time(now), deletionGracePeriodSeconds=0)
    end = min(read_time(metadata["deletionTimestamp"]), now)
    return _with(obj, deletionTimestamp=write_time(end), deletionGracePeriodSeconds=0)


def _finalizers(kind: Kind, metadata: Object, options: DeleteOptions) -> list[str]:
    """The finalizers with those of the garbage collector as the options want them."""
    old: list[str] = metadata.get("finalizers", [])
    if not kind.collected:
        return old
    others = [each for each in old if each not in (ORPHAN, FOREGROUND)]
    match options.orphan_dependents, options.propagation_policy:
        case (True, _) | (_, "Orphan"):
            new = [*others, ORPHAN]
        case (_, "Foreground"):
            new = [*others, FOREGROUND]
        case (None, None):
            new = old
        case _:
            new = others
    return old if set(new) == set(old) else new


def _listed(obj: Object) -> list[str]:
    finalizers: list[str] = obj["metadata"].get("finalizers", [])
    return finalizers


def _with(obj: Object, **fields: Any) -> Object:
    metadata = {key: value for key, value in (obj["metadata"] | fields).items() if value != []}
    return obj | {"metadata": metadata}


def _bumped(obj: Object, **fields: Any) -> Object:
    """With a higher generation, where there is one: deletion changes what controllers are to do."""
    generation = obj["metadata"].get("generation", 0)
    return _with(obj, **fields, **({"generation": generation + 1} if generation else {}))
