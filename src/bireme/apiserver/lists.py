"""Lists: in pages, each of the same version as the first."""

import base64
import bisect
import itertools
from typing import Final, NamedTuple

import msgspec

from bireme.apiserver import errors
from bireme.apiserver.errors import forbidden_value, not_supported
from bireme.apiserver.records import Record
from bireme.apiserver.rules import Object
from bireme.apiserver.selectors import Selection
from bireme.apiserver.tables import Table

LATEST: Final = -1
"""Instead of a version: continue at whatever version there is."""
_ENCODING: Final = "meta.k8s.io/v1"
_MATCHES: Final = ("Exact", "NotOlderThan")
_LONGEST_VERSION: Final = 20


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a list or a watch, as the parameters of the request say it."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    send_initial_events: bool | None = None
    allow_bookmarks: bool = False


class Page(NamedTuple):
    """One page of a list.

    A page may be the last but for objects that do not match; `remaining` is told only where all do.
    """

    records: list[Record]
    version: int
    continue_token: str = ""
    remaining: int | None = None

    @property
    def metadata(self) -> Object:
        """What a list says of itself."""
        metadata: Object = {"resourceVersion": str(self.version)}
        if self.continue_token:
            metadata["continue"] = self.continue_token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata

    @property
    def items(self) -> list[Object]:
        """Decoded anew at each call."""
        return [record.object() for record in self.records]


class _Token(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


def list_page(table: Table, selection: Selection, query: Query, current: int) -> Page:
    """One page of a table, at the version that the query wants."""
    version, start = _position(query, current)
    if version == LATEST:
        version = current
    elif version < table.history.horizon:
        raise _expired(query, start)
    records = table.records if version == current else table.at(version)
    keys = table.keys() if records is table.records else sorted(records)
    prefix = f"{selection.namespace}/" if selection.namespace else ""
    inside = keys[bisect.bisect_left(keys, prefix + start) : bisect.bisect_left(keys, f"{prefix}\U0010ffff")]
    matching = (records[key] for key in inside if selection.matches(records[key]))
    # A list of any version is answered whole: the limit is not looked at there.
    if query.limit <= 0 or (query.resource_version == "0" and not query.continue_token):
        return Page(list(matching), version)
    found = list(itertools.islice(matching, query.limit))
    rest = len(inside) - bisect.bisect_right(inside, found[-1].key) if found else 0
    if len(found) < query.limit or not rest:
        return Page(found, version)
    token = _encode(version, f"/{found[-1].key.removeprefix(prefix)}\0")
    return Page(found, version, token, rest if selection.is_unselective else None)


def _position(query: Query, current: int) -> tuple[int, str]:
    """The version that a query wants, and the key that its page starts at."""
    check_list(query)
    if query.continue_token:
        token = _decode(query.continue_token)
        asked, start = token.rv, token.start.removeprefix("/")
    else:
        asked, start = read_version(query.resource_version), ""
    if asked > current:
        raise errors.version_too_large(asked, current)
    exact = query.continue_token or query.resource_version_match == "Exact"
    # Without a match, a version with a limit means the very same version; alone, that one or a later one.
    pinned = query.limit > 0 and asked > 0 and not query.resource_version_match
    return (asked if exact or pinned else current), start


def check_list(query: Query) -> None:
    """Refuse what a list can't be asked for."""
    match = query.resource_version_match
    if query.continue_token and query.resource_version not in ("", "0"):
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    if match and not query.resource_version:
        sentence = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise errors.invalid_options("ListOptions", forbidden_value("resourceVersionMatch", sentence))
    if match and match not in _MATCHES:
        problem = not_supported("resourceVersionMatch", match, (*_MATCHES, ""))
        raise errors.invalid_options("ListOptions", problem)
    if match == "Exact" and query.resource_version == "0":
        sentence = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise errors.invalid_options("ListOptions", forbidden_value("resourceVersionMatch", sentence))


def check_watch(query: Query) -> None:
    match, initial = query.resource_version_match, query.send_initial_events
    sentence = ""
    if initial is None and match:
        sentence = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    elif initial is not None and match != "NotOlderThan":
        sentence = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    if sentence:
        raise errors.invalid_options("ListOptions", forbidden_value("resourceVersionMatch", sentence))


def read_version(text: str) -> int:
    """A resourceVersion; empty is 0."""
    why = ""
    if text and not (text.isascii() and text.isdigit()):
        why = "invalid syntax"
    elif len(text.lstrip("0")) > _LONGEST_VERSION or int(text.lstrip("0") or 0) >= 1 << 64:
        why = "value out of range"
    if why:
        raise errors.bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}":'
            f' strconv.ParseUint: parsing "{text}": {why}'
        )
    return int(text.lstrip("0") or 0)


def _expired(query: Query, start: str) -> errors.StatusError:
    return (
        errors.expired_continue(_encode(LATEST, f"/{start}"))
        if query.continue_token
        else errors.expired_list()
    )


def _encode(version: int, start: str) -> str:
    text = msgspec.json.encode(_Token(_ENCODING, version, start))
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _decode(text: str) -> _Token:
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (ValueError, msgspec.MsgspecError) as error:
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    if token.v != _ENCODING:
        why = f"server does not recognize this encoded version {token.v}"
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {why}")
    if token.rv == 0 or not token.start:
        raise errors.bad_request("invalid continue token: continue key is not valid")
    return token
