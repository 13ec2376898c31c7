"""What becomes of a written object before it is stored, beyond what holds for all kinds.

Intake      nothing: an object is kept as it came
BySchema    what an API server does: schemas, field owners, admission        (`typed`)
"""

# ruff: noqa: ARG002 - what keeps an object as it came looks at nothing

from collections.abc import Callable, Iterable
from datetime import datetime

from bireme.apiserver import errors
from bireme.apiserver.errors import FieldError
from bireme.apiserver.kinds import Kind
from bireme.apiserver.objects import without_empty
from bireme.apiserver.rules import Object
from bireme.apiserver.terms import Terms

Lookup = Callable[[Kind, str, str], Object | None]
"""Finds an object by kind, namespace and name."""
Every = Callable[[Kind], Iterable[Object]]
"""All objects of a kind."""


class Intake:
    """Keeps objects as they come, without owners of their fields."""

    def read(
        self, kind: Kind, body: Object, terms: Terms, raw: bytes = b"", earlier: tuple[str, ...] = ()
    ) -> Object:
        """The object of its kind that a body means; `raw` is what it was read from. Raises MalformedError.

        `earlier` is what a strict reader has complained about before.
        """
        return without_empty(kind, body)

    def applied(
        self, kind: Kind, old: Object | None, config: Object, now: datetime, terms: Terms, subresource: str
    ) -> Object:
        """What server-side apply makes of an object; it has the owners of its fields then."""
        raise errors.unsupported_media_type()

    def own(
        self, kind: Kind, old: Object | None, new: Object, now: datetime, terms: Terms, subresource: str
    ) -> None:
        """Write down who owns which field of `new`."""
        new["metadata"].pop("managedFields", None)

    def admit(self, lookup: Lookup, every: Every, kind: Kind, new: Object, old: Object | None) -> None:
        """Fill in what depends on other objects, and refuse what they forbid."""

    def problems(self, kind: Kind, new: Object, old: Object | None, terms: Terms) -> list[FieldError]:
        """What is wrong with an object by its schema."""
        return []

    def judge(self, kind: Kind, new: Object, old: Object | None, terms: Terms) -> list[FieldError]:
        """What is wrong with an object that is valid by its schema."""
        return []

    def advise(self, kind: Kind, new: Object, old: Object | None, terms: Terms) -> None:
        """Say what is doubtful of an object that is valid."""

    def status_problems(self, kind: Kind, new: Object, old: Object) -> list[FieldError]:
        return []
