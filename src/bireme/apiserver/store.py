"""What a Kubernetes API server does with objects, without a server: in memory, step by step.

    store = Store()
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, now)
    pod = store.create(POD, manifest, now, namespace="default")
    watcher = store.watch(POD, Query(resource_version=pod["metadata"]["resourceVersion"]))
    store.delete(POD, "worker-0", now, namespace="default")
    [event.type for event in watcher.poll()]  # ["MODIFIED", "DELETED"]

No I/O, no clock, no randomness: time is an argument, UIDs and the suffixes of generated names come from
callables, counted unless others are given. A refusal is a StatusError, and then nothing was written.

Bodies are plain data, or JSON in bytes, and copied on their way in. Stored objects are never changed
afterwards, each write makes a new one; so they are handed out as they are. **Never change an object that the
store gave you**: copy it first.

What the garbage collector and the namespace controller do on a real cluster are steps of their own here
(`garbage`); binding, eviction and the finalizing of namespaces are in `subresources`.

Where it differs from a kube-apiserver (1.36; tests/contract/test_store_agrees.py holds the rest):

| what | here | there |
|---|---|---|
| all but metadata | kept as it came; pods get some defaults | defaulted; unknown and empty fields dropped |
| an object's schema | not checked: admission does that | CRD schema and CEL rules, or Go types |
| `metadata.managedFields` | dropped | kept; server-side apply works |
| server-side apply, dry-run | refused with 415 and 400 | served |
| causes of an Invalid update | each once | those about metadata twice |
| wording of a body that can't be decoded | names the field | Go's decoder speaks |
| preconditions of a namespace's deletion | worded as for other kinds | worded in their own way |
| a watch from a malformed version | refused with 400 | refused with 500 |
| a Service's cluster IP, a pod's service account | not filled in | by allocators and admission plugins |
| `spec` of a pod with scheduling gates | as frozen as any other's | its node selector may grow |
| eviction | ignores PodDisruptionBudgets | honours them |
| history | the last changes of each kind | five minutes in etcd, less in the watch cache |
| a watcher that falls behind | gets 410 in the stream | is cut off, and gets 410 when it comes back |
| versions of a kind | one | several, converted |
| a namespace that is being emptied | shows its phase only | shows conditions too |
| Events | stay | expire after an hour |
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from bireme.apiserver import errors, objects, patches
from bireme.apiserver.counters import counted_suffixes, counted_uids
from bireme.apiserver.deletion import Decision, DeleteOptions, check_options, decide
from bireme.apiserver.kinds import CORE, NAMESPACE, OURS, Kind
from bireme.apiserver.lists import Page, Query, check_watch, list_page, read_version
from bireme.apiserver.namespaces import IMMORTAL, is_terminating
from bireme.apiserver.objects import MalformedError, same
from bireme.apiserver.rules import Object
from bireme.apiserver.selectors import Selection, parse_fields, parse_labels
from bireme.apiserver.tables import Snapshot, Tables
from bireme.apiserver.times import write_time
from bireme.apiserver.watch import Event, Watcher, at_version, bookmark

DEFAULT_HISTORY: Final = 10_000
_NAME_ATTEMPTS: Final = 8
_DEFAULT_OPTIONS: Final = DeleteOptions()
_DEFAULT_QUERY: Final = Query()


class Store:
    """The objects of an API server. `history` is how many changes of each kind a watch can begin behind."""

    def __init__(
        self,
        kinds: Sequence[Kind] = (*CORE, *OURS),
        *,
        uid: Callable[[], str] | None = None,
        suffix: Callable[[], str] | None = None,
        history: int = DEFAULT_HISTORY,
    ) -> None:
        self.kinds = tuple(kinds)
        self._tables = Tables(kinds, history)
        self._uid = uid or counted_uids()
        self._suffix = suffix or counted_suffixes()

    @property
    def version(self) -> int:
        """The resourceVersion of the latest write."""
        return self._tables.version

    # ---- reading

    def find(self, kind: Kind, name: str, *, namespace: str = "") -> Object | None:
        return self._tables[kind].objects.get(kind.key(namespace, name))

    def get(self, kind: Kind, name: str, *, namespace: str = "") -> Object:
        found = self.find(kind, name, namespace=namespace)
        if found is None:
            raise errors.not_found(kind, name)
        return found

    def all(self, kind: Kind) -> Iterator[Object]:
        """Every object of a kind, in the order of lists; what is written meanwhile is not seen."""
        table = self._tables[kind]
        found = [table.objects[key] for key in table.keys()]  # noqa: SIM118 - a table is no dict
        return iter(found)

    def list(self, kind: Kind, query: Query = _DEFAULT_QUERY, *, namespace: str = "") -> Page:
        """One page; `Query(continue_token=page.continue_token)` brings the next of the same version."""
        selection = _selection(kind, query, namespace)
        return list_page(self._tables[kind], selection, query, self.version)

    def watch(
        self,
        kind: Kind,
        query: Query = _DEFAULT_QUERY,
        *,
        namespace: str = "",
        wake: Callable[[], None] | None = None,
    ) -> Watcher:
        """Follow a kind: after the version of the query, or from all that is there if it names none.

        `wake` is called after each change of the kind, before it is clear whether the watcher cares.
        """
        check_watch(query)
        selection = _selection(kind, query, namespace)
        version = read_version(query.resource_version)
        initial: list[Event] = []
        if query.send_initial_events or (version == 0 and query.send_initial_events is None):
            page = list_page(self._tables[kind], selection, Query(), self.version)
            initial, version = [Event("ADDED", obj) for obj in page.items], page.version
        if query.send_initial_events and query.allow_bookmarks:
            initial.append(bookmark(kind, version, ends_initial=True))
        history = self._tables[kind].history
        return Watcher(kind, history, selection, version, lambda: self.version, initial, wake)

    # ---- writing

    def create(self, kind: Kind, body: object, now: datetime, *, namespace: str = "") -> Object:
        """Create an object; its name may be left to the store by `generateName`."""
        new = self._read(kind, body, namespace)
        self._admit(kind, namespace, new["metadata"].get("name", ""))
        return self._create(kind, new, now)

    def replace(
        self,
        kind: Kind,
        name: str,
        body: object,
        now: datetime,
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """Replace an object, or its status; some kinds are created if they are not there."""
        _check_subresource(kind, subresource)
        new = self._read(kind, body, namespace)
        objects.check_name(name, new["metadata"])
        old = self.find(kind, name, namespace=namespace)
        if old is None and (subresource or not kind.create_on_update):
            raise errors.not_found(kind, name)
        uid = "" if old is None else old["metadata"]["uid"]
        given = new["metadata"].get("uid", uid)
        if given != uid:
            raise errors.wrong_uid(kind, kind.etcd_key(namespace, name), name, given, uid)
        if old is None:
            self._admit(kind, namespace, name)
            new["metadata"].pop("resourceVersion", None)
            return self._create(kind, new, now)
        return self._update(kind, old, new, subresource)

    def patch(
        self,
        kind: Kind,
        name: str,
        patch: object,
        media_type: str = patches.MERGE_PATCH,
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """Patch an object, or its status."""
        _check_subresource(kind, subresource)
        patches.check_media_type(kind, media_type)
        old = self.get(kind, name, namespace=namespace)
        patched = patches.apply_patch(kind, old, _read_patch(patch), media_type)
        try:
            new = objects.shaped(kind, patched)
        except MalformedError as error:
            problem = errors.invalid_value("patch", str(patch), str(error))
            raise errors.invalid("", "", "", [problem]) from error
        objects.check_type(kind, patched)
        objects.check_namespace(kind, namespace, new["metadata"])
        objects.check_name(name, new["metadata"])
        return self._update(kind, old, new, subresource)

    def delete(
        self,
        kind: Kind,
        name: str,
        now: datetime,
        options: DeleteOptions = _DEFAULT_OPTIONS,
        *,
        namespace: str = "",
    ) -> Decision:
        """Ask an object to go, and tell whether it has gone."""
        check_options(options)
        if kind.resource == NAMESPACE.resource and name in IMMORTAL:
            raise errors.forbidden(kind, name, "this namespace may not be deleted")
        old = self.get(kind, name, namespace=namespace)
        left, goes = decide(kind, old, options, now)
        left = old if same(left, old) else self._tables.put(kind, left)
        if not goes:
            return Decision(left, goes=False)
        self._tables.remove(kind, kind.key_of(old))
        return Decision(at_version(left, self.version), goes=True)

    def delete_collection(
        self,
        kind: Kind,
        now: datetime,
        options: DeleteOptions = _DEFAULT_OPTIONS,
        query: Query = _DEFAULT_QUERY,
        *,
        namespace: str = "",
    ) -> Page:
        """Ask all that a list names to go; return the list."""
        page = self.list(kind, query, namespace=namespace)
        for obj in page.items:
            metadata = obj["metadata"]
            place = metadata.get("namespace", "")
            if self.find(kind, metadata["name"], namespace=place) is not None:
                self.delete(kind, metadata["name"], now, options, namespace=place)
        return page

    # ---- for tests and simulations

    def compact(self) -> None:
        """Forget all history: watchers that are behind, and lists half read, get 410."""
        for table in self._tables:
            table.history.compact()

    def snapshot(self) -> Snapshot:
        return self._tables.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Be again as at the snapshot; every watcher is closed, as by a restart."""
        self._tables.restore(snapshot)

    # ---- how a write goes

    def _read(self, kind: Kind, body: object, namespace: str) -> Object:
        try:
            copy = objects.copied(body)
            new = objects.shaped(kind, copy)
        except MalformedError as error:
            objects.refuse_body(kind, str(error))
        objects.check_type(kind, copy)
        objects.check_namespace(kind, namespace, new["metadata"])
        return new

    def _admit(self, kind: Kind, namespace: str, name: str) -> None:
        """Only namespaces that are there, and stay, take new objects."""
        if kind.namespaced and is_terminating(self.get(NAMESPACE, namespace)):
            raise errors.namespace_terminating(kind, name, namespace)

    def _create(self, kind: Kind, new: Object, now: datetime) -> Object:
        metadata = objects.without_system_fields(new["metadata"])
        metadata |= {"uid": self._uid(), "creationTimestamp": write_time(now)}
        if kind.has_generation:
            metadata["generation"] = 1
        if kind.custom and kind.has_status:
            new.pop("status", None)
        generated = "name" not in metadata and "generateName" in metadata
        if generated:
            metadata["name"] = self._free_name(kind, metadata)
        new["metadata"] = metadata
        kind.rules.default(new)
        kind.rules.prepare_create(new)
        _refuse(kind, metadata, [*objects.metadata_problems(kind, metadata), *kind.rules.problems(new, None)])
        if metadata.get("resourceVersion", "0") != "0":
            raise errors.internal("resourceVersion should not be set on objects to be created")
        if (there := self._tables[kind].objects.get(kind.key_of(new))) is not None:
            if generated:
                raise errors.name_not_generated(kind, metadata["name"])
            deleting = "deletionTimestamp" in there["metadata"]
            raise errors.already_exists(kind, metadata["name"], being_deleted=deleting)
        return self._tables.put(kind, new)

    def _free_name(self, kind: Kind, metadata: Object) -> str:
        """A generated name; taken, if the last attempt was too."""
        name = ""
        for _ in range(_NAME_ATTEMPTS):
            name = objects.generated_name(metadata["generateName"], self._suffix())
            if self.find(kind, name, namespace=metadata.get("namespace", "")) is None:
                break
        return name

    def _update(self, kind: Kind, old: Object, new: Object, subresource: str) -> Object:
        _check_version(kind, old["metadata"], new["metadata"])
        if subresource:
            return self._update_status(kind, old, new)
        kind.rules.default(new)
        if kind.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        kind.rules.prepare_update(new, old)
        objects.carry_over(new["metadata"], old["metadata"])
        if kind.has_generation and not same(_content(new), _content(old)):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        _refuse_update(kind, new, old, kind.rules.problems(new, old))
        return self.commit(kind, old, new)

    def _update_status(self, kind: Kind, old: Object, new: Object) -> Object:
        status = {"status": new["status"]} if "status" in new else {}
        metadata = old["metadata"] if kind.custom else new["metadata"]
        new = {key: value for key, value in old.items() if key != "status"} | {"metadata": metadata} | status
        if not kind.custom:
            objects.carry_over(metadata, old["metadata"])
            kind.rules.prepare_status(new, old)
            _refuse_update(kind, new, old, kind.rules.status_problems(new, old))
        return self.commit(kind, old, new)

    def commit(self, kind: Kind, old: Object, new: Object) -> Object:
        """Store what differs, unchecked; an object that only waited for its last finalizer goes.

        For subresources: `new` must be new at its top, and what it shares with `old` unchanged.
        """
        metadata = old["metadata"]
        if (
            "deletionTimestamp" in metadata
            and not metadata.get("deletionGracePeriodSeconds")
            and not new["metadata"].get("finalizers")
            and kind.rules.may_go(new)
        ):
            self._tables.remove(kind, kind.key_of(old))
            return new
        if same(new, old):
            return old
        return self._tables.put(kind, new)


def _check_subresource(kind: Kind, subresource: str) -> None:
    if subresource and (subresource != "status" or not kind.has_status):
        raise errors.no_such_path()


def _read_patch(patch: object) -> object:
    try:
        copy: object = objects.copied(patch)
    except MalformedError as error:
        raise errors.bad_request(f"error decoding patch: {error}") from error
    return copy


def _selection(kind: Kind, query: Query, namespace: str) -> Selection:
    labels, fields = parse_labels(query.label_selector), parse_fields(query.field_selector, kind)
    return Selection(namespace if kind.namespaced else "", labels, fields)


def _content(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def _check_version(kind: Kind, old: Object, new: Object) -> None:
    """Optimistic concurrency: a write that names a version must name the latest."""
    given = new.get("resourceVersion", "0")
    if not (given.isascii() and given.isdigit()):
        raise errors.internal(f'strconv.ParseUint: parsing "{given}": invalid syntax')
    if int(given) == 0:
        if not kind.unconditional:
            raise errors.version_missing(kind, old["name"])
        new["resourceVersion"] = old["resourceVersion"]
    elif given != old["resourceVersion"]:
        raise errors.stale(kind, old["name"])


def _refuse(kind: Kind, metadata: Object, problems: Sequence[errors.FieldError]) -> None:
    if problems:
        raise errors.invalid(kind.kind, kind.group, metadata.get("name", ""), problems)


def _refuse_update(kind: Kind, new: Object, old: Object, problems: Sequence[errors.FieldError]) -> None:
    metadata = new["metadata"]
    of_metadata = objects.metadata_problems(kind, metadata)
    of_change = objects.update_problems(metadata, old["metadata"])
    _refuse(kind, metadata, [*of_metadata, *of_change, *problems])
