"""Server-side apply: an object that takes what a configuration says, and drops what it said before."""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from bireme.apiserver import errors
from bireme.apiserver.errors import FieldError, StatusError
from bireme.apiserver.managed import entries
from bireme.apiserver.managed.blanks import blank
from bireme.apiserver.managed.compare import Change, compare, equal
from bireme.apiserver.managed.configs import owned, problems, with_named
from bireme.apiserver.managed.entries import EntryError, Owner, Owners
from bireme.apiserver.managed.merging import merge, remove
from bireme.apiserver.managed.paths import (
    Fields,
    contains,
    difference,
    intersection,
    of_fields,
    outside,
    paths,
    sentence,
    union,
)
from bireme.apiserver.managed.shapes import Schema, Shape, UnkeyedError, shape_of
from bireme.apiserver.managed.track import NEVER_OWNED, Path, take, write
from bireme.apiserver.objects import MOST_ANNOTATION_BYTES
from bireme.apiserver.rules import Object
from bireme.apiserver.times import write_time

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_BEFORE: Final = "before-first-apply"
_KUBECTL: Final = "kubectl"


class Conflict(NamedTuple):
    owner: Owner
    path: Path


def apply(
    schema: Schema,
    old: Object | None,
    config: Object,
    *,
    manager: str,
    force: bool,
    api_version: str,
    now: datetime,
    subresource: str = "",
    ignored: Collection[Path] = (),
    custom: bool = False,
) -> Object:
    """The object that server-side apply makes of `old` and `config`, with its managedFields.

    `config` is what the applier sent, not pruned: an unknown field is refused. The result is still to be
    decoded, defaulted and checked. `ignored` and `custom` are as in `track`. Raises StatusError: 409 with a
    cause for each field that others own, 400 and 500 for a configuration that can't be applied. That it names
    the right kind is for the caller to see (`check_type`).
    """
    shape = shape_of(schema)
    _check(shape, config)
    start = {} if custom else blank(schema)
    run = _Run(shape, start, old, config, api_version, of_fields(*ignored), now)
    owner = entries.applier(manager, subresource)
    owners = _owners_before(old)
    try:
        if not owners:
            owners = run.own_all(entries.updater(_BEFORE, api_version, subresource))
        force = force or (manager == _KUBECTL and run.may_force(owners, owner))
        made = run.apply(owners, owner, force=force)
    except UnkeyedError as error:
        raise errors.internal(f"failed to merge config: {error}") from error
    return _with_last_applied(made, config) if manager == _KUBECTL else made


def check_type(group: str, version: str, kind: str, config: Object) -> None:
    """Refuse a configuration of another kind, or of none."""
    said_group, _, said_version = str(config.get("apiVersion") or "").rpartition("/")
    said = (said_group, said_version, config.get("kind") or "")
    if said != (group, version, kind):
        raise errors.bad_request(f"invalid object type: {_type_name(config)}")


def _type_name(config: Object) -> str:
    group, _, version = str(config.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={config.get('kind') or ''}"


def _check(shape: Shape, config: Object) -> None:
    metadata = config.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    if metadata.get("managedFields") is not None:
        raise errors.bad_request("metadata.managedFields must be nil")
    found = [f"{path}: {text}" if path else text for path, text in problems(shape, config)]
    if found:
        listed = found[0] if len(found) == 1 else "\n  ".join(["errors:", *found])
        name = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
        raise errors.internal(f"failed to create typed patch object ({name}; {_type_name(config)}): {listed}")


def _owners_before(old: Object | None) -> Owners:
    ours = [] if old is None else old["metadata"].get("managedFields") or []
    try:
        return entries.read_entries(ours)
    except EntryError as error:
        raise errors.internal(f"failed to decode managed fields: {error}") from error


class _Run:
    """One apply, whoever owns what before."""

    def __init__(
        self,
        shape: Shape,
        start: Object,
        old: Object | None,
        config: Object,
        api_version: str,
        ignored: Fields,
        now: datetime,
    ) -> None:
        self._shape = shape
        self._start = start
        self._old = None if old is None else _without_owners(old)
        self._config = config
        self._api_version = api_version
        self._ignored = ignored
        self._now = now

    @property
    def _live(self) -> Object:
        return self._start if self._old is None else self._old

    def own_all(self, owner: Owner) -> Owners:
        """The owner of an object that was never tracked."""
        return write({}, self._change(self._start, self._live), owner, self._now)

    def apply(self, owners: Owners, owner: Owner, *, force: bool) -> Object:
        merged, others, change = self._merged(owners, owner)
        if not force and (found := list(_conflicts(others, change))):
            raise _refusal(found)
        mine = difference(self._claimed(), NEVER_OWNED)
        is_noop = self._old is not None and equal(self._old, merged)
        left = take(others, change, self._api_version)
        if mine:
            before = owners.get(owner, {}).get("time")
            time = before if is_noop else write_time(self._now)
            left[owner] = entries.entry(owner, self._api_version, mine, time)
        written = entries.written(left)
        if not written:
            return merged
        return merged | {"metadata": (merged.get("metadata") or {}) | {"managedFields": written}}

    def may_force(self, owners: Owners, owner: Owner) -> bool:
        """Whether all conflicts are with what the same user applied on the client's side.

        Raises the refusal where only some are: it leaves those out.
        """
        _, others, change = self._merged(owners, owner)
        found = list(_conflicts(others, change))
        allowed = self._applied_before() if found else None
        if allowed is None:
            return False
        serious = [each for each in found if not contains(allowed, each.path)]
        if serious:
            raise _refusal(serious)
        return True

    def _merged(self, owners: Owners, owner: Owner) -> tuple[Object, Owners, Change]:
        """The object as it will be, the other owners, and what changes for them."""
        others = {each: found for each, found in owners.items() if each != owner}
        others = {each: found for each, found in others.items() if found["apiVersion"] == self._api_version}
        merged = merge(self._shape, self._old or {}, self._config)
        last = owners.get(owner)
        if last is not None and last["apiVersion"] == self._api_version and last["fieldsV1"]:
            merged = self._pruned(merged, last["fieldsV1"], others)
        return merged, others, self._change(self._live, merged)

    def _pruned(self, merged: Object, last: Fields, others: Owners) -> Object:
        """An object without what its applier applied last time, not this time, and nobody else owns."""
        kept = self._claimed()
        for each in others.values():
            kept = union(kept, each["fieldsV1"])
        pruned = remove(self._shape, merged, self._named(last))
        there = self._named(owned(self._shape, merged))
        still = union(self._named(owned(self._shape, pruned)), self._named(kept))
        pruned = remove(self._shape, merged, difference(there, still))
        gone = difference(there, self._named(owned(self._shape, pruned)))
        return remove(self._shape, merged, intersection(gone, self._named(last)))

    def _named(self, fields: Fields) -> Fields:
        return with_named(self._shape, fields)

    def _claimed(self) -> Fields:
        return outside(owned(self._shape, self._config), self._ignored)

    def _change(self, old: Object, new: Object) -> Change:
        return compare(self._shape, old, new).besides(self._ignored)

    def _applied_before(self) -> Fields | None:
        """What the annotation of client-side apply says, as far as it still holds; None without one."""
        annotations = self._live.get("metadata", {}).get("annotations") or {}
        try:
            said: Any = msgspec.json.decode(annotations.get(LAST_APPLIED) or "null")
        except msgspec.DecodeError:
            return None
        if not isinstance(said, dict) or said.get("apiVersion") != self._api_version:
            return None
        if any(problems(self._shape, said)):
            return None
        change = compare(self._shape, said, self._live)
        return difference(difference(owned(self._shape, said), change.changed), change.removed)


def _without_owners(old: Object) -> Object:
    metadata = {key: value for key, value in old["metadata"].items() if key != "managedFields"}
    return old | {"metadata": metadata}


def _conflicts(others: Owners, change: Change) -> Iterator[Conflict]:
    for owner in sorted(others, key=lambda each: each.identifier):
        for path in paths(intersection(others[owner]["fieldsV1"], change.changed)):
            yield Conflict(owner, path)


def _refusal(conflicts: list[Conflict]) -> StatusError:
    causes = [
        FieldError("FieldManagerConflict", sentence(path), f"conflict with {owner}")
        for owner, path in conflicts
    ]
    if len(conflicts) == 1:
        owner, path = conflicts[0]
        return _conflict(f"Apply failed with 1 conflict: conflict with {owner}: {sentence(path)}", causes)
    lines = []
    for owner in dict.fromkeys(each.owner for each in conflicts):
        lines.append(f"conflicts with {owner}:")
        lines += [f"- {sentence(each.path)}" for each in conflicts if each.owner == owner]
    return _conflict(f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines), causes)


def _conflict(message: str, causes: list[FieldError]) -> StatusError:
    listed = [{"reason": each.type, "message": each.body, "field": each.field} for each in causes]
    return StatusError(errors.status(409, "Conflict", message, {"causes": listed}))


def _with_last_applied(obj: Object, config: Object) -> Object:
    """An object whose annotation of client-side apply, if it has one, says what was applied now."""
    annotations = obj["metadata"].get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return obj
    metadata = dict(config.get("metadata") or {})
    if metadata.get("annotations") is not None:
        said = metadata["annotations"]
        metadata["annotations"] = {key: value for key, value in said.items() if key != LAST_APPLIED}
    text = msgspec.json.encode(config | {"metadata": metadata}, order="sorted").decode() + "\n"
    updated = annotations | {LAST_APPLIED: text}
    if sum(len(key.encode()) + len(value.encode()) for key, value in updated.items()) > MOST_ANNOTATION_BYTES:
        del updated[LAST_APPLIED]
    return obj | {"metadata": obj["metadata"] | {"annotations": updated}}
