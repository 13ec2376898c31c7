"""metadata.managedFields: who wrote which fields, by which operation, and when.

An entry is one manager's; in memory and on the wire it is the same dict. Its fields stand in the order in
which a server writes them.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from bireme.apiserver.managed.compare import equal
from bireme.apiserver.managed.elements import ElementError
from bireme.apiserver.managed.paths import Fields, read, union
from bireme.apiserver.rules import Object
from bireme.apiserver.times import read_time, write_time

UPDATE: Final = "Update"
APPLY: Final = "Apply"
_FIELDS_TYPE: Final = "FieldsV1"
_MOST_UPDATES: Final = 10
_ANCIENT: Final = "ancient-changes"
_UNKNOWN: Final = "unknown"


class EntryError(ValueError):
    """Somebody wrote managedFields that can't be read."""


class Owner(NamedTuple):
    """What tells entries apart. An applier is one and the same in every version."""

    manager: str
    operation: str
    api_version: str
    subresource: str

    def __str__(self) -> str:
        """As it stands in a sentence."""
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text

    @property
    def identifier(self) -> bytes:
        """What a server sorts owners by."""
        parts = zip(("manager", "operation", "apiVersion", "subresource"), self, strict=True)
        return msgspec.json.encode({name: part for name, part in parts if part})


Owners = dict[Owner, Object]
"""The entries by their owners."""


def updater(manager: str, api_version: str, subresource: str) -> Owner:
    return Owner(manager or _UNKNOWN, UPDATE, api_version, subresource)


def applier(manager: str, subresource: str) -> Owner:
    return Owner(manager or _UNKNOWN, APPLY, "", subresource)


def entry(owner: Owner, api_version: str, fields: Fields, time: str | None) -> Object:
    made: Object = {"manager": owner.manager} if owner.manager else {}
    made |= {"operation": owner.operation, "apiVersion": api_version}
    if time is not None:
        made["time"] = time
    made |= {"fieldsType": _FIELDS_TYPE, "fieldsV1": fields}
    if owner.subresource:
        made["subresource"] = owner.subresource
    return made


def by_owner(entries: Iterable[Object]) -> Owners:
    """The owners of entries that were written here."""
    return {_owner(each): each for each in entries}


def _owner(each: Object) -> Owner:
    operation = each["operation"]
    version = "" if operation == APPLY else each["apiVersion"]
    return Owner(each.get("manager", ""), operation, version, each.get("subresource", ""))


def written(owners: Owners) -> list[Object]:
    """The entries in their order: appliers first, then by time, name, version and subresource."""
    return sorted(owners.values(), key=_order)


def _order(each: Object) -> tuple[str, ...]:
    return (
        each["operation"],
        each.get("time", ""),
        each.get("manager", ""),
        each["apiVersion"],
        each.get("subresource", ""),
    )


def read_entries(entries: Iterable[Object]) -> Owners:
    """The owners of entries that somebody sent. Raises EntryError."""
    read_ones = [_read(place, each) for place, each in enumerate(entries)]
    return by_owner(read_ones)


def _read(place: int, each: Object) -> Object:
    operation, version = each.get("operation"), each.get("apiVersion")
    if operation not in (APPLY, UPDATE):
        raise EntryError("operation must be `Apply` or `Update`")
    if not version:
        raise EntryError("apiVersion must not be empty")
    sort = each.get("fieldsType")
    if not sort:
        raise EntryError(f"missing fieldsType in managed fields entry {place}")
    if sort != _FIELDS_TYPE:
        raise EntryError(f'invalid fieldsType "{sort}" in managed fields entry {place}')
    try:
        fields = read(each.get("fieldsV1"))
        time = None if each.get("time") is None else write_time(read_time(each["time"]))
    except (ElementError, TypeError, ValueError) as error:
        raise EntryError(f"error decoding versioned set: {error}") from error
    owner = Owner(each.get("manager") or "", operation, version, each.get("subresource") or "")
    return entry(owner, version, fields, time)


def is_reset(entries: object) -> bool:
    """Whether a writer asks to forget all owners."""
    return entries in ([], [{}])


def cap(owners: Owners) -> Owners:
    """The owners with no more than ten updaters: the oldest become one."""
    if len(owners) <= _MOST_UPDATES:
        return owners
    updaters = sorted(
        (owner for owner in owners if owner.operation == UPDATE),
        key=lambda owner: (owners[owner].get("time", ""), owner.identifier),
    )
    surplus = len(updaters) - _MOST_UPDATES
    if surplus <= 0:
        return owners
    capped, first = dict(owners), dict[str, Owner]()
    for owner in updaters:
        if surplus == 0:
            break
        version = owner.api_version
        if version not in first:
            first[version] = owner
            continue
        bucket = Owner(_ANCIENT, UPDATE, version, "")
        start = capped[bucket] if bucket in capped else capped.pop(first[version])
        moved = capped.pop(owner)
        fields = union(moved["fieldsV1"], start["fieldsV1"])
        capped[bucket] = entry(bucket, version, fields, moved.get("time"))
        surplus -= 1
    return capped


def keep_times(old: Object, new: Object) -> Object:
    """`new`, but with the times of `old` where nothing else differs: such a write changes nothing.

    For the moment before an object is stored: defaults and canonical forms may undo what a writer changed.
    """
    before, after = _entries(old), _entries(new)
    if not after or len(before) != len(after) or list(map(_timeless, before)) != list(map(_timeless, after)):
        return new
    kept = new | {"metadata": new["metadata"] | {"managedFields": before}}
    return kept if equal(kept, old) else new


def _entries(obj: Object) -> list[Any]:
    entries: list[Any] = obj["metadata"].get("managedFields") or []
    return entries


def _timeless(each: Object) -> Object:
    return {key: value for key, value in each.items() if key != "time"}
