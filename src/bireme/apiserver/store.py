"""What a Kubernetes API server does with objects, without a server: in memory, step by step.

    store = Store()
    store.create(NAMESPACE, {"metadata": {"name": "default"}}, now)
    pod = store.create(POD, manifest, now, namespace="default")
    watcher = store.watch(POD, Query(resource_version=pod["metadata"]["resourceVersion"]))
    store.delete(POD, "worker-0", now, namespace="default")
    [event.type for event in watcher.poll()]  # ["MODIFIED", "DELETED"]

No I/O, no clock, no randomness: time is an argument, UIDs and the suffixes of generated names come from
callables, counted unless others are given. A refusal is a StatusError, and then nothing was written.

Bodies are plain data, or JSON in bytes, and copied on their way in. What is stored is JSON: what is read is
the reader's own.

Each write is published at once, unless `publishes` is off: then writes are staged until `publish`, which
watchers hear of, or `take_back`. `attempt` makes several writes one.

What the garbage collector and the namespace controller do on a real cluster are steps of their own here
(`garbage`); binding, eviction and the finalizing of namespaces are in `subresources`.

A store keeps objects as they come, which is enough for simulations; with the intake of `typed` it does with
them what an API server does. docs/reference/apiserver.md lists where it differs from a kube-apiserver even
then; tests/contract/ holds the rest.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from bireme.apiserver import errors, objects, patches
from bireme.apiserver.counters import counted_suffixes, counted_uids
from bireme.apiserver.deletion import Decision, DeleteOptions, check_options, decide
from bireme.apiserver.intake import Intake
from bireme.apiserver.kinds import CORE, NAMESPACE, OURS, Kind
from bireme.apiserver.lists import Page, Query
from bireme.apiserver.managed.apply import check_type
from bireme.apiserver.managed.entries import keep_times
from bireme.apiserver.namespaces import IMMORTAL
from bireme.apiserver.objects import MalformedError, same
from bireme.apiserver.rules import Object
from bireme.apiserver.shelves import DEFAULT_QUERY, Shelves
from bireme.apiserver.terms import Terms
from bireme.apiserver.times import write_time

DEFAULT_HISTORY: Final = 10_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAME_ATTEMPTS: Final = 8
_DEFAULT_OPTIONS: Final = DeleteOptions()
_OF_THE_SERVER: Final = Terms(manager="bireme")


class Store(Shelves):
    """The objects of an API server. `history` is how many changes of each kind a watch can begin behind."""

    def __init__(
        self,
        kinds: Sequence[Kind] = (*CORE, *OURS),
        *,
        uid: Callable[[], str] | None = None,
        suffix: Callable[[], str] | None = None,
        history: int = DEFAULT_HISTORY,
        intake: Intake | None = None,
        publishes: bool = True,
    ) -> None:
        super().__init__(kinds, history, publishes=publishes)
        self._intake = intake or Intake()
        self._uid = uid or counted_uids()
        self._suffix = suffix or counted_suffixes()

    # ---- writing

    def create(
        self, kind: Kind, body: object, now: datetime, *, namespace: str = "", terms: Terms | None = None
    ) -> Object:
        """Create an object; its name may be left to the store by `generateName`."""
        terms = terms or Terms()
        new = self._read(kind, body, namespace, terms)
        self._admit(kind, namespace, new["metadata"].get("name", ""))
        return self._create(kind, new, now, terms)

    def replace(
        self,
        kind: Kind,
        name: str,
        body: object,
        now: datetime,
        *,
        namespace: str = "",
        subresource: str = "",
        terms: Terms | None = None,
    ) -> Object:
        """Replace an object, or its status; some kinds are created if they are not there."""
        terms = terms or Terms()
        _check_subresource(kind, subresource)
        new = self._read(kind, body, namespace, terms)
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
            return self._create(kind, new, now, terms)
        return self._update(kind, old, new, now, subresource, terms)

    def patch(
        self,
        kind: Kind,
        name: str,
        patch: object,
        media_type: str = patches.MERGE_PATCH,
        now: datetime = EPOCH,
        *,
        namespace: str = "",
        subresource: str = "",
        terms: Terms | None = None,
    ) -> Object:
        """Patch an object, or its status. `now` is when its fields change owners."""
        terms = terms or Terms()
        _check_subresource(kind, subresource)
        patches.check_media_type(kind, media_type)
        old = self.get(kind, name, namespace=namespace)
        patched = patches.apply_patch(kind, old, _read_patch(patch), media_type)
        try:
            objects.check_shape(kind, patched)
            objects.check_type(kind, patched)
            repeated = patches.repeated_fields(patch, media_type)
            new = objects.shaped(kind, self._intake.read(kind, patched, terms, b"", repeated))
        except MalformedError as error:
            problem = errors.invalid_value("patch", objects.json_text(patched), str(error))
            raise errors.invalid("", "", "", [problem]) from error
        objects.check_namespace(kind, namespace, new["metadata"])
        objects.check_name(name, new["metadata"])
        return self._update(kind, old, new, now, subresource, terms)

    def apply(
        self,
        kind: Kind,
        name: str,
        config: object,
        now: datetime,
        *,
        namespace: str = "",
        subresource: str = "",
        terms: Terms,
    ) -> Object:
        """Server-side apply: make it so that the object has what `config` says, and own that."""
        _check_subresource(kind, subresource)
        old = self.find(kind, name, namespace=namespace)
        if old is None and subresource:
            raise errors.not_found(kind, name)
        wanted = _read_config(kind, config)
        metadata = wanted.setdefault("metadata", {})
        metadata.setdefault("name", name)
        merged = self._intake.applied(kind, old, wanted, now, terms, subresource)
        try:
            new = objects.shaped(kind, self._intake.read(kind, merged, Terms()))
        except MalformedError as error:
            raise errors.internal(f"failed to convert new object to proper version: {error}") from error
        # Conflicts come first: only what was merged is looked at.
        if old is None and metadata.get("uid"):
            raise errors.nothing_with_uid(kind, name, metadata["uid"])
        objects.check_name(name, new["metadata"])
        objects.check_namespace(kind, namespace, new["metadata"])
        if old is None:
            self._admit(kind, namespace, name)
            new["metadata"].pop("resourceVersion", None)
            return self._create(kind, new, now, terms, owned=True)
        return self._update(kind, old, new, now, subresource, terms, owned=True)

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
        with self.attempt():
            left = old if same(left, old) else self._put(kind, left)
            if not goes:
                return Decision(left, goes=False)
            self._remove(kind, kind.key_of(old))
            left = left | {"metadata": left["metadata"] | {"resourceVersion": str(self.version)}}
            return Decision(left, goes=True)

    def delete_collection(
        self,
        kind: Kind,
        now: datetime,
        options: DeleteOptions = _DEFAULT_OPTIONS,
        query: Query = DEFAULT_QUERY,
        *,
        namespace: str = "",
    ) -> Page:
        """Ask all that a list names to go; return the list."""
        page = self.list(kind, query, namespace=namespace)
        for record in page.records:
            place, name = kind.place(record.key)
            if self.record(kind, name, namespace=place) is not None:
                self.delete(kind, name, now, options, namespace=place)
        return page

    # ---- how a write goes

    def _read(self, kind: Kind, body: object, namespace: str, terms: Terms) -> Object:
        try:
            copy = objects.copied(body)
            objects.check_shape(kind, copy)
            objects.check_type(kind, copy)
            raw = body if isinstance(body, bytes) else b""
            new = objects.shaped(kind, self._intake.read(kind, copy, terms, raw))
        except MalformedError as error:
            objects.refuse_body(kind, str(error))
        objects.check_namespace(kind, namespace, new["metadata"])
        return new

    def _admit(self, kind: Kind, namespace: str, name: str) -> None:
        """Only namespaces that are there, and stay, take new objects."""
        if not kind.namespaced:
            return
        if (record := self.record(NAMESPACE, namespace)) is None:
            raise errors.not_found(NAMESPACE, namespace)
        if record.is_going:
            raise errors.namespace_terminating(kind, name, namespace)

    def _create(self, kind: Kind, new: Object, now: datetime, terms: Terms, *, owned: bool = False) -> Object:
        metadata = objects.without_system_fields(new["metadata"])
        new["metadata"] = metadata
        kind.rules.default(new)
        if not owned:
            self._intake.own(kind, None, new, now, terms, "")
        self._intake.admit(self._lookup, self.all, kind, new, None)
        metadata |= {"uid": self._uid(), "creationTimestamp": write_time(now)}
        if kind.has_generation:
            metadata["generation"] = 1
        if kind.custom and kind.has_status:
            new.pop("status", None)
        generated = "name" not in metadata and "generateName" in metadata
        if generated:
            metadata["name"] = self._free_name(kind, metadata)
        kind.rules.prepare_create(new)
        problems = [*objects.metadata_problems(kind, metadata), *kind.rules.problems(new, None)]
        problems += self._intake.problems(kind, new, None, terms)
        _refuse(kind, metadata, problems or self._intake.judge(kind, new, None, terms))
        self._intake.advise(kind, new, None, terms)
        if metadata.get("resourceVersion", "0") != "0":
            raise errors.internal("resourceVersion should not be set on objects to be created")
        if (there := self._tables[kind].records.get(kind.key_of(new))) is not None:
            if generated:
                raise errors.name_not_generated(kind, metadata["name"])
            deleting = "deletionTimestamp" in there.object()["metadata"]
            raise errors.already_exists(kind, metadata["name"], being_deleted=deleting)
        return self._put(kind, new)

    def _free_name(self, kind: Kind, metadata: Object) -> str:
        """A generated name; taken, if the last attempt was too."""
        name = ""
        for _ in range(_NAME_ATTEMPTS):
            name = objects.generated_name(metadata["generateName"], self._suffix())
            if self.record(kind, name, namespace=metadata.get("namespace", "")) is None:
                break
        return name

    def _update(
        self,
        kind: Kind,
        old: Object,
        new: Object,
        now: datetime,
        subresource: str,
        terms: Terms,
        *,
        owned: bool = False,
    ) -> Object:
        _check_version(kind, old["metadata"], new["metadata"])
        if not subresource:
            kind.rules.default(new)
        if not owned:
            self._intake.own(kind, old, new, now, terms, subresource)
        if subresource:
            return self._update_status(kind, old, new)
        self._intake.admit(self._lookup, self.all, kind, new, old)
        if kind.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        kind.rules.prepare_update(new, old)
        objects.carry_over(new["metadata"], old["metadata"])
        if kind.has_generation and not same(_content(new), _content(old)):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        problems = [*objects.changed_problems(kind, new, old), *kind.rules.problems(new, old)]
        problems += self._intake.problems(kind, new, old, terms)
        _refuse(kind, new["metadata"], problems or self._intake.judge(kind, new, old, terms))
        self._intake.advise(kind, new, old, terms)
        return self.commit(kind, old, new)

    def _update_status(self, kind: Kind, old: Object, new: Object) -> Object:
        status = {"status": new["status"]} if "status" in new else {}
        metadata = new["metadata"]
        if kind.custom:
            metadata = objects.only_owners(metadata, old["metadata"])
        new = {key: value for key, value in old.items() if key != "status"} | {"metadata": metadata} | status
        problems: list[errors.FieldError] = []
        if not kind.custom:
            objects.carry_over(metadata, old["metadata"])
            kind.rules.prepare_status(new, old)
            problems = [*objects.changed_problems(kind, new, old), *kind.rules.status_problems(new, old)]
        _refuse(kind, metadata, problems or self._intake.status_problems(kind, new, old))
        return self.commit(kind, old, new)

    def commit(self, kind: Kind, old: Object, new: Object) -> Object:
        """Store what differs, unchecked; an object that only waited for its last finalizer goes.

        For subresources: `new` must be new at its top, and what it shares with `old` unchanged.
        """
        new = keep_times(old, new)
        metadata = old["metadata"]
        if (
            "deletionTimestamp" in metadata
            and not metadata.get("deletionGracePeriodSeconds")
            and not new["metadata"].get("finalizers")
            and kind.rules.may_go(new)
        ):
            self._remove(kind, kind.key_of(old))
            return new
        if same(new, old):
            return old
        return self._put(kind, new)

    def amend(self, kind: Kind, old: Object, new: Object, now: datetime) -> Object:
        """Commit what the server itself changes: what it takes away, nobody owns any more."""
        self._intake.own(kind, old, new, now, _OF_THE_SERVER, "")
        return self.commit(kind, old, new)

    def _lookup(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self.find(kind, name, namespace=namespace)


def _check_subresource(kind: Kind, subresource: str) -> None:
    if subresource and (subresource != "status" or not kind.has_status):
        raise errors.no_such_path()


def _read_config(kind: Kind, config: object) -> Object:
    try:
        copy: Object = objects.copied(config)
        objects.check_shape(kind, copy)
    except MalformedError as error:
        objects.refuse_body(kind, str(error))
    check_type(kind.group, kind.version, kind.kind, copy)
    return copy | {"metadata": copy.get("metadata") or {}}


def _read_patch(patch: object) -> object:
    try:
        copy: object = objects.copied(patch)
    except MalformedError as error:
        raise errors.bad_request(f"error decoding patch: {error}") from error
    return copy


def _content(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def _check_version(kind: Kind, old: Object, new: Object) -> None:
    """Optimistic concurrency: a write that names a version must name the latest."""
    given = new.get("resourceVersion", "0")
    if not (given.isascii() and given.isdigit()):
        raise errors.internal(f'strconv.ParseUint: parsing "{given}": invalid syntax')
    if not given.strip("0"):
        if not kind.unconditional:
            raise errors.version_missing(kind, old["name"])
        new["resourceVersion"] = old["resourceVersion"]
    elif given != old["resourceVersion"]:
        raise errors.stale(kind, old["name"])


def _refuse(kind: Kind, metadata: Object, problems: Sequence[errors.FieldError]) -> None:
    if problems:
        raise errors.invalid(kind.kind, kind.group, metadata.get("name", ""), problems)
