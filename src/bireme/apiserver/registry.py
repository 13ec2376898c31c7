"""Which kinds are served: those that are built in, and those that CustomResourceDefinitions define."""

from collections.abc import Iterable, Iterator

from bireme.apiserver.kinds import Kind


class Registry:
    """Kinds by the ways in which they are asked for."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds: dict[str, Kind] = {}
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        self._all: tuple[Kind, ...] = ()
        self.edition = 0
        """Grows with each change: whatever was made of the kinds is then out of date."""
        for kind in kinds:
            self.serve(kind)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._all)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return self._all

    def at(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind that a path names."""
        return self._by_path.get((group, version, plural))

    def of(self, resource: str) -> Kind | None:
        """The kind of `pods`, or of `genericjobs.batch.tensorstack.dev`."""
        return self._kinds.get(resource)

    def serve(self, kind: Kind) -> None:
        """Serve a kind from now on, instead of an earlier edition of it."""
        self._kinds[kind.resource] = kind
        self._changed()

    def drop(self, resource: str) -> None:
        self._kinds.pop(resource, None)
        self._changed()

    def _changed(self) -> None:
        self._all = tuple(self._kinds.values())
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in self._all}
        self.edition += 1
