"""The objects of an API server as they are kept: found, listed and watched; staged, published and taken back.

What a write has to go through before is `store`'s.
"""

import bisect
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from bireme.apiserver import errors
from bireme.apiserver.crds import kind_of
from bireme.apiserver.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from bireme.apiserver.lists import Page, Query, check_list, check_watch, list_page, read_version
from bireme.apiserver.records import Record
from bireme.apiserver.registry import Registry
from bireme.apiserver.rules import Object
from bireme.apiserver.selectors import Selection, parse_fields, parse_labels
from bireme.apiserver.tables import Snapshot, Staged, Tables
from bireme.apiserver.watch import Event, Watcher, bookmark

DEFAULT_QUERY: Final = Query()


class Shelves:
    """What is there of each kind. `history` is how many changes of each a watch can begin behind."""

    def __init__(self, kinds: Sequence[Kind], history: int, *, publishes: bool) -> None:
        self.registry = Registry(kinds)
        self._tables = Tables(kinds, history)
        self._publishes, self._attempts = publishes, 0

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """All that are served, those of CustomResourceDefinitions too."""
        return self.registry.kinds

    @property
    def version(self) -> int:
        """The resourceVersion of the latest write."""
        return self._tables.version

    @property
    def published(self) -> int:
        """The resourceVersion of the latest write that watchers may know of."""
        return self._tables.published

    # ---- reading

    def find(self, kind: Kind, name: str, *, namespace: str = "") -> Object | None:
        record = self.record(kind, name, namespace=namespace)
        return None if record is None else record.object()

    def record(self, kind: Kind, name: str, *, namespace: str = "") -> Record | None:
        """An object as it is kept."""
        return self._tables[kind].records.get(kind.key(namespace, name))

    def record_at(self, kind: Kind, key: str) -> Record | None:
        return self._tables[kind].records.get(key)

    def records(self, kind: Kind) -> list[Record]:
        """Every object of a kind as it is kept, in no order."""
        return list(self._tables[kind].records.values())

    def place(self, uid: str) -> tuple[str, str] | None:
        """The resource and key of the object with a UID."""
        return self._tables.place(uid)

    def dependents(self, uid: str) -> list[tuple[str, str]]:
        """The resource and key of each object that names a UID as an owner."""
        return self._tables.dependents(uid)

    def get(self, kind: Kind, name: str, *, namespace: str = "") -> Object:
        found = self.find(kind, name, namespace=namespace)
        if found is None:
            raise errors.not_found(kind, name)
        return found

    def all(self, kind: Kind) -> Iterator[Object]:
        """Every object of a kind, in the order of lists; what is written meanwhile is not seen."""
        table = self._tables[kind]
        found = [table.records[key] for key in table.keys()]  # noqa: SIM118 - a table is no dict
        return (record.object() for record in found)

    def is_empty(self, kind: Kind, *, namespace: str = "") -> bool:
        """Whether there is nothing of a kind, in a namespace or anywhere."""
        keys, prefix = self._tables[kind].keys(), f"{namespace}/" if namespace else ""
        place = bisect.bisect_left(keys, prefix)
        return place == len(keys) or not keys[place].startswith(prefix)

    def list(self, kind: Kind, query: Query = DEFAULT_QUERY, *, namespace: str = "") -> Page:
        """One page; `Query(continue_token=page.continue_token)` brings the next of the same version."""
        parse_labels(query.label_selector)
        check_list(query)
        selection = _selection(kind, query, namespace)
        return list_page(self._tables[kind], selection, query, self.version)

    def watch(
        self,
        kind: Kind,
        query: Query = DEFAULT_QUERY,
        *,
        namespace: str = "",
        wake: Callable[[], None] | None = None,
    ) -> Watcher:
        """Follow a kind: after the version of the query, or from all that is there if it names none.

        `wake` is called after each change of the kind, before it is clear whether the watcher cares.
        """
        parse_labels(query.label_selector)
        check_watch(query)
        selection = _selection(kind, query, namespace)
        version = read_version(query.resource_version)
        initial: list[Event] = []
        if query.send_initial_events or (version == 0 and query.send_initial_events is None):
            page = list_page(self._tables[kind], selection, Query(), self.version)
            initial, version = [Event("ADDED", record.raw) for record in page.records], page.version
        if query.send_initial_events and query.allow_bookmarks:
            initial.append(bookmark(kind, version, ends_initial=True))
        history = self._tables[kind].history
        return Watcher(kind, history, selection, version, lambda: self.published, initial, wake)

    # ---- staged and published

    @contextlib.contextmanager
    def attempt(self, *, dry_run: bool = False) -> Iterator[None]:
        """Several writes as one: if one is refused, all are taken back; so they are after a dry run."""
        kept = len(self._tables.staged())
        self._attempts += 1
        try:
            yield
        except BaseException:
            self.take_back(kept)
            raise
        finally:
            self._attempts -= 1
        if dry_run:
            self.take_back(kept)
        self._written()

    def staged(self) -> Sequence[Staged]:
        """The writes that wait to be published, oldest first."""
        return self._tables.staged()

    def publish(self) -> None:
        """Make what is staged final, and tell the watchers."""
        self._tables.publish()

    def take_back(self, kept: int = 0) -> None:
        """Undo what is staged, but for the first so many writes."""
        undone = self._tables.staged()[kept:]
        self._tables.take_back(kept)
        for resource, change in undone:
            if resource == CUSTOM_RESOURCE_DEFINITION.resource:
                self._follow(change.key, None if change.before is None else change.before.object())

    # ---- for tests and simulations

    def compact(self) -> None:
        """Forget all history: watchers that are behind, and lists half read, get 410."""
        for table in self._tables:
            table.history.compact()

    def snapshot(self) -> Snapshot:
        return self._tables.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Be again as at the snapshot; every watcher is closed, as by a restart."""
        for kind in _defined(snapshot):
            self._tables.add(kind)
            self.registry.serve(kind)
        self._tables.restore(snapshot)

    # ---- one write

    def _put(self, kind: Kind, obj: Object) -> Object:
        stored = self._tables.put(kind, obj)
        if kind.resource == CUSTOM_RESOURCE_DEFINITION.resource:
            self._follow(stored["metadata"]["name"], stored)
        self._written()
        return stored

    def _remove(self, kind: Kind, key: str) -> None:
        self._tables.remove(kind, key)
        if kind.resource == CUSTOM_RESOURCE_DEFINITION.resource:
            self._follow(key, None)
        self._written()

    def _written(self) -> None:
        if self._publishes and not self._attempts:
            self._tables.publish()

    def _follow(self, resource: str, crd: Object | None) -> None:
        """Serve what a CRD defines, as it is now."""
        kind = None if crd is None else kind_of(crd)
        if kind is not None:
            self._tables.add(kind)
            self.registry.serve(kind)
        elif (served := self.registry.of(resource)) is not None and served.custom:
            self.registry.drop(resource)
            if not self._tables[served].records:
                self._tables.drop(resource)


def _defined(snapshot: Snapshot) -> Iterator[Kind]:
    """The kinds that the CRDs of a snapshot define."""
    table = snapshot.tables.get(CUSTOM_RESOURCE_DEFINITION.resource)
    for record in table.records.values() if table else ():
        if (kind := kind_of(record.object())) is not None:
            yield kind


def _selection(kind: Kind, query: Query, namespace: str) -> Selection:
    labels, fields = parse_labels(query.label_selector), parse_fields(query.field_selector, kind)
    return Selection(namespace if kind.namespaced else "", labels, fields)
