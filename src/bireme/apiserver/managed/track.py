"""An ordinary write: who owns what after it."""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from bireme.apiserver.managed import entries
from bireme.apiserver.managed.blanks import blank
from bireme.apiserver.managed.compare import Change, compare
from bireme.apiserver.managed.configs import problems
from bireme.apiserver.managed.entries import EntryError, Owner, Owners
from bireme.apiserver.managed.paths import Fields, difference, of_fields, union
from bireme.apiserver.managed.shapes import Schema, Shape, UnkeyedError, shape_of
from bireme.apiserver.rules import Object
from bireme.apiserver.times import write_time

Path = tuple[str, ...]

NEVER_OWNED: Final = of_fields(
    ("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace"),
    ("metadata", "creationTimestamp"), ("metadata", "selfLink"), ("metadata", "uid"),
    ("metadata", "clusterName"), ("metadata", "generation"), ("metadata", "managedFields"),
    ("metadata", "resourceVersion"),
)  # fmt: skip
_NO_OBJECT: Final[Object] = {}


def track(
    schema: Schema,
    old: Object | None,
    new: Object,
    *,
    manager: str,
    api_version: str,
    now: datetime,
    subresource: str = "",
    ignored: Collection[Path] = (),
    custom: bool = False,
) -> list[Object]:
    """The managedFields of `new` once it was written by an ordinary write (create, replace, patch).

    `new` is what the writer wants: decoded and defaulted, before admission and before the server puts back
    what such a write may not change; `ignored` is what it will put back (`resets`), `custom` whether a CRD
    defines the kind. The managedFields in `new` are those that the writer sent: absent or unreadable ones
    leave the old ones, an empty list or `[{}]` forgets all. An object that nobody is known to own is not
    tracked until somebody applies to it: the result is empty.
    """
    owners = _owners_before(old, new, subresource)
    if old is None:
        old = _NO_OBJECT if custom else blank(schema)
    elif not owners:
        return []
    if custom and any(each["apiVersion"] != api_version for each in owners.values()):
        # Nothing converts to a version that is not served: there a server gives up on all owners.
        return []
    if custom and subresource and _is_mistyped(shape_of(schema), new):
        # What a status write says beside the status is not checked, but tracked.
        return []
    try:
        change = compare(shape_of(schema), old, new).besides(of_fields(*ignored))
    except UnkeyedError:
        # A server drops what it can't track.
        return []
    owner = entries.updater(manager, api_version, subresource)
    return entries.written(write(owners, change, owner, now))


def _is_mistyped(shape: Shape, obj: Object) -> bool:
    return any(not text.startswith("duplicate entries") for _, text in problems(shape, obj))


def _owners_before(old: Object | None, new: Object, subresource: str) -> Owners:
    ours = [] if old is None else old["metadata"].get("managedFields") or []
    sent = new["metadata"].get("managedFields")
    if subresource or sent is None or sent == ours:
        return entries.by_owner(ours)
    if entries.is_reset(sent):
        return {}
    try:
        return entries.read_entries(sent)
    except EntryError:
        return entries.by_owner(ours)


def write(owners: Owners, change: Change, owner: Owner, now: datetime) -> Owners:
    """The owners after one of them, an updater, made a change."""
    gained = difference(change.changed, NEVER_OWNED)
    if not gained:
        return entries.cap(take(owners, change, owner.api_version))
    mine: Fields = owners[owner]["fieldsV1"] if owner in owners else {}
    fields = union(difference(mine, change.removed), gained)
    others = {each: found for each, found in owners.items() if each != owner}
    left = take(others, change, owner.api_version)
    left[owner] = entries.entry(owner, owner.api_version, fields, write_time(now))
    return entries.cap(left)


def take(owners: Owners, change: Change, api_version: str) -> Owners:
    """The owners without what was changed or removed, and without those of versions that are not served."""
    left: Owners = {}
    for owner, each in owners.items():
        if each["apiVersion"] != api_version:
            continue
        fields = each["fieldsV1"]
        kept = difference(difference(fields, change.changed), change.removed)
        if kept:
            left[owner] = each if kept is fields else each | {"fieldsV1": kept}
    return left
