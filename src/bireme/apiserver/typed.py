"""The intake of an API server: objects are read by the schemas of their kinds, their fields have owners, and
our own kinds are judged by the same admission as on a cluster.
"""

from datetime import datetime
from typing import Final

from bireme import admission
from bireme.api.kinds import find_kind
from bireme.api.paths import format_path
from bireme.apiserver import plugins
from bireme.apiserver.crds import warnings as crd_warnings
from bireme.apiserver.decoding import decode, decode_known
from bireme.apiserver.errors import FieldError
from bireme.apiserver.intake import Every, Intake, Lookup
from bireme.apiserver.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from bireme.apiserver.managed.apply import apply
from bireme.apiserver.managed.resets import reset_fields
from bireme.apiserver.managed.track import track
from bireme.apiserver.objects import STANDARD_FINALIZERS, MalformedError, without_empty
from bireme.apiserver.openapi.definitions import schema_of
from bireme.apiserver.rules import Object
from bireme.apiserver.structural.defaulting import default
from bireme.apiserver.structural.pruning import prune, strict_errors
from bireme.apiserver.structural.validation import validate, validate_status
from bireme.apiserver.terms import Terms

_UNKNOWN_CLIENT: Final = "unknown"


class BySchema(Intake):
    """Does with an object what an API server does; `stand_ins` is that of `plugins.admit`."""

    def __init__(self, *, stand_ins: bool = False) -> None:
        self._stand_ins = stand_ins

    def read(
        self, kind: Kind, body: Object, terms: Terms, raw: bytes = b"", earlier: tuple[str, ...] = ()
    ) -> Object:
        read = None if kind.custom else _read_known(kind, body)
        if read is None:
            read = self._read_pruned(kind, body, terms, raw, earlier)
        else:
            _complain(kind, body, terms, raw, earlier)
        # An empty list means something to the types of Kubernetes' own kinds only.
        return _with_reset(read) if _resets_owners(body) and not kind.custom else read

    def _read_pruned(
        self, kind: Kind, body: Object, terms: Terms, raw: bytes, earlier: tuple[str, ...]
    ) -> Object:
        told = len(terms.warnings)
        pruned = self.pruned(kind, body, terms, raw, earlier)
        try:
            return decode(kind, pruned) if not kind.custom else _defaulted(kind, pruned)
        except MalformedError:
            # What can't be read at all is refused without the warnings about it.
            del terms.warnings[told:]
            raise

    def pruned(
        self, kind: Kind, body: Object, terms: Terms, raw: bytes = b"", earlier: tuple[str, ...] = ()
    ) -> Object:
        found = prune(schema_of(kind), body, custom=kind.custom)
        _complain(kind, body, terms, raw, earlier, found.unknown)
        return found.obj

    def applied(
        self, kind: Kind, old: Object | None, config: Object, now: datetime, terms: Terms, subresource: str
    ) -> Object:
        return apply(
            schema_of(kind),
            old,
            config,
            manager=terms.manager,
            force=terms.force,
            api_version=kind.api_version,
            now=now,
            subresource=subresource,
            ignored=reset_fields(kind, subresource),
            custom=kind.custom,
        )

    def own(
        self, kind: Kind, old: Object | None, new: Object, now: datetime, terms: Terms, subresource: str
    ) -> None:
        owners = track(
            schema_of(kind),
            old,
            new,
            manager=terms.manager or _UNKNOWN_CLIENT,
            api_version=kind.api_version,
            now=now,
            subresource=subresource,
            ignored=reset_fields(kind, subresource),
            custom=kind.custom,
        )
        new["metadata"].pop("managedFields", None)
        if owners:
            new["metadata"]["managedFields"] = owners

    def admit(self, lookup: Lookup, every: Every, kind: Kind, new: Object, old: Object | None) -> None:
        plugins.admit(lookup, kind, new, old, every=every, stand_ins=self._stand_ins)
        if _is_ours(kind):
            defaulted = admission.default(new)
            new.clear()
            new.update(defaulted)

    def problems(self, kind: Kind, new: Object, old: Object | None, terms: Terms) -> list[FieldError]:
        if not kind.custom:
            found = kind.rules.content_problems(new, old)
            if not found and kind.resource == CUSTOM_RESOURCE_DEFINITION.resource:
                terms.warnings += crd_warnings(new)
            return found
        return validate(schema_of(kind), new, old)

    def judge(self, kind: Kind, new: Object, old: Object | None, terms: Terms) -> list[FieldError]:
        return _admission_problems(kind, new, old, terms)

    def advise(self, kind: Kind, new: Object, old: Object | None, terms: Terms) -> None:
        if kind.custom:
            terms.warnings += _finalizer_warnings(new, old)

    def status_problems(self, kind: Kind, new: Object, old: Object) -> list[FieldError]:
        return validate_status(schema_of(kind), new, old) if kind.custom else []


def _read_known(kind: Kind, body: Object) -> Object | None:
    """What a body means, if it is all known and well-formed: most are, and this is much cheaper."""
    try:
        return decode_known(kind, body)
    except MalformedError:
        return None


def _complain(
    kind: Kind,
    body: Object,
    terms: Terms,
    raw: bytes,
    earlier: tuple[str, ...],
    unknown: tuple[str, ...] = (),
) -> None:
    """Warn of what a strict reader refuses, or refuse it, as the writer wishes. Raises MalformedError."""
    if terms.field_validation == "Ignore":
        return
    if raw:
        unknown = strict_errors(raw, unknown, custom=kind.custom, decoded=body)
    complaints = (*earlier, *unknown)
    if complaints and terms.field_validation == "Strict":
        raise MalformedError(f"strict decoding error: {', '.join(complaints)}")
    terms.warnings += complaints


def _resets_owners(body: Object) -> bool:
    return (body.get("metadata") or {}).get("managedFields") == []


def _with_reset(obj: Object) -> Object:
    """What is empty goes lost on the way; this says the same."""
    return obj | {"metadata": (obj.get("metadata") or {}) | {"managedFields": [{}]}}


def _finalizer_warnings(new: Object, old: Object | None) -> list[str]:
    before = () if old is None else old["metadata"].get("finalizers", ())
    added = set(new["metadata"].get("finalizers", ())).difference(before, STANDARD_FINALIZERS)
    return [
        f'metadata.finalizers: "{each}": prefer a domain-qualified finalizer name to avoid accidental'
        " conflicts with other finalizer writers"
        for each in sorted(added)
        if "/" not in each
    ]


def _defaulted(kind: Kind, pruned: Object) -> Object:
    return default(schema_of(kind), without_empty(kind, pruned))


def _is_ours(kind: Kind) -> bool:
    return find_kind(kind.api_version, kind.kind) is not None


def _admission_problems(kind: Kind, new: Object, old: Object | None, terms: Terms) -> list[FieldError]:
    if not _is_ours(kind):
        return []
    found = admission.validate(new, old)
    terms.warnings += [_worded(each) for each in found if each.severity == "warning"]
    return [
        FieldError("FieldValueInvalid", format_path(each.path), _explained(each))
        for each in found
        if each.severity == "error"
    ]


def _worded(problem: admission.Problem) -> str:
    return f"{format_path(problem.path)}: {_explained(problem)}"


def _explained(problem: admission.Problem) -> str:
    return f"{problem.message}; {problem.hint}" if problem.hint else problem.message
