"""Strategic merge patches: lists of things with names are merged by name, where the kind says so.

The order of a merged list is the API server's: what the patch names comes in the patch's order, what only the
server has keeps its place before the first that stood behind it, and what is new comes first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from bireme.apiserver import errors
from bireme.apiserver.kinds import Kind
from bireme.apiserver.rules import Object

DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
SET_ORDER: Final = "$setElementOrder/"
DELETE_FROM: Final = "$deleteFromPrimitiveList/"

# By the name of the field: no two lists of one name and different keys are in one kind.
_KEYS: Final[Mapping[str, str]] = {
    "addresses": "type",
    "allocatedResourcesStatus": "name",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "resourceClaimStatuses": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
_OF_KIND: Final[Mapping[str, Mapping[str, str]]] = {"Service": {"ports": "port"}}
_SETS: Final = ("finalizers", "podCIDRs")


def merge(kind: Kind, document: Object, patch: Object) -> Object:
    """The document with the patch merged in."""
    return _Merge({**_KEYS, **_OF_KIND.get(kind.kind, {})}).map(document, patch)


class _Merge:
    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = keys

    def map(self, original: Object, patch: Object) -> Object:
        if DIRECTIVE in patch:
            return _directed(patch)
        merged = _retained(original, patch)
        orders = {
            key.removeprefix(SET_ORDER): value for key, value in patch.items() if key.startswith(SET_ORDER)
        }
        for field, order in orders.items():
            self._reorder(merged, field, patch.get(field), order)
        for key, value in patch.items():
            if key.startswith(DELETE_FROM):
                _delete_from(merged, key.removeprefix(DELETE_FROM), value)
            elif not key.startswith("$") and key not in orders:
                self._set(merged, key, value)
        return merged

    def _set(self, merged: Object, key: str, value: Any) -> None:
        old = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(old, dict) and isinstance(value, dict):
            merged[key] = self.map(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            merged[key] = self._list(key, old, value)
        elif _is_directive(value):
            merged.pop(key, None)
        else:
            merged[key] = _plain(value)

    def _list(self, field: str, old: list[Any], patch: list[Any]) -> list[Any]:
        if field in _SETS:
            _check_alike(old, patch)
            return _in_order(list(dict.fromkeys([*old, *patch])), patch, old, lambda item: item)
        key = self._keys.get(field)
        if key is None:
            return _plain(patch)  # type: ignore[no-any-return]
        _check_alike(old, patch)
        kept, added = _without_directives(old, patch, key)
        for item in (*kept, *added):
            _check_key(item, key)
        merged = self._merged_by_key(kept, added, key)
        return _in_order(merged, added, kept, lambda item: item[key])

    def _merged_by_key(self, old: list[Object], patch: list[Object], key: str) -> list[Object]:
        merged = list(old)
        for item in patch:
            place = next((i for i, each in enumerate(merged) if each[key] == item[key]), None)
            if place is None:
                merged.append(_plain(item))
            else:
                merged[place] = self.map(merged[place], item)
        return merged

    def _reorder(self, merged: Object, field: str, patch: list[Any] | None, order: Any) -> None:
        if not isinstance(order, list):
            raise errors.bad_request("invalid patch format of setElementOrder list")
        old = merged.get(field)
        if old is None and patch is None:
            return
        items = old or []
        if patch is not None:
            items = _plain(patch) if old is None else self._list(field, old, patch)
        key = self._keys.get(field)
        merged[field] = _in_order(items, order, old or [], lambda item: item[key] if key else item)


def _directed(patch: Object) -> Object:
    match patch[DIRECTIVE]:
        case "replace":
            return {key: value for key, value in patch.items() if key != DIRECTIVE}
        case "delete":
            return {}
    raise errors.internal(f"unknown patch type: {patch[DIRECTIVE]} in map: {patch}")


def _retained(original: Object, patch: Object) -> Object:
    """A copy of the original with the keys that the patch lets it keep."""
    retained = patch.get(RETAIN_KEYS)
    if retained is None:
        return dict(original)
    named = [key for key, value in patch.items() if value is not None and not key.startswith("$")]
    if not isinstance(retained, list) or not set(named) <= set(retained):
        raise errors.bad_request("invalid patch format of retainKeys")
    return {key: value for key, value in original.items() if key in retained}


def _delete_from(merged: Object, field: str, items: list[Any]) -> None:
    if isinstance(merged.get(field), list):
        merged[field] = [item for item in merged[field] if item not in items]


def _without_directives(
    old: list[Object], patch: list[Object], key: str
) -> tuple[list[Object], list[Object]]:
    """The old items without those that the patch deletes, and what of the patch is no directive."""
    directives = [item for item in patch if DIRECTIVE in item]
    added = [item for item in patch if DIRECTIVE not in item]
    if any(item[DIRECTIVE] == "replace" for item in directives):
        return added, []
    for item in directives:
        if item[DIRECTIVE] != "delete":
            raise errors.internal(f"unknown patch type: {item[DIRECTIVE]} in map: {item}")
        _check_key(item, key)
    gone = [item[key] for item in directives]
    return [item for item in old if item.get(key) not in gone], added


def _in_order(
    items: Iterable[Any], patch: Sequence[Any], old: Sequence[Any], key: Callable[[Any], Any]
) -> list[Any]:
    named, before = [key(item) for item in patch], [key(item) for item in old]
    of_patch = sorted((item for item in items if key(item) in named), key=lambda item: named.index(key(item)))
    of_server = [item for item in items if key(item) not in named]
    merged: list[Any] = []
    for item in of_patch:
        ahead = before[: before.index(key(item))] if key(item) in before else []
        while of_server and key(of_server[0]) in ahead:
            merged.append(of_server.pop(0))
        merged.append(item)
    return merged + of_server


def _check_alike(old: list[Any], patch: list[Any]) -> None:
    if len({isinstance(item, dict) for item in [*old, *patch]}) > 1:
        raise errors.internal(f"list element types are not identical: {[old, patch]}")


def _check_key(item: Object, key: str) -> None:
    if key not in item:
        raise errors.internal(f"map: {item} does not contain declared merge key: {key}")


def _is_directive(value: object) -> bool:
    return isinstance(value, dict) and DIRECTIVE in value


def _plain(value: Any) -> Any:
    """A value of the patch as it is stored where nothing was: without nulls and directives."""
    if isinstance(value, dict):
        return {
            key: _plain(each)
            for key, each in value.items()
            if each is not None and not key.startswith("$") and not _is_directive(each)
        }
    if isinstance(value, list):
        return [_plain(item) for item in value if not _is_directive(item)]
    return value
