"""How many rules on its place a pod in a queue may have.

Each term costs the scheduler of queues time for each pod or node that it looks at, and all jobs wait for the
same rounds. The limits are far above what jobs use; kube-scheduler has none.

Admission refuses jobs, the queue webhook refuses jobs and pods, and the scheduler does not place a pod that
came in all the same. Preferences are not counted: the scheduler does not read them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from bireme.api.paths import Path, format_path

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_LIMITS: Final[tuple[tuple[Path, int], ...]] = (
    (("affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms"), 64),
    (("affinity", "podAffinity", _REQUIRED), 16),
    (("affinity", "podAntiAffinity", _REQUIRED), 16),
    (("topologySpreadConstraints",), 16),
)
_DEEPEST: Final = 4
"""Levels down to a template of a job: spec, replicaSpecs, an index or a type, template."""


class Excess(NamedTuple):
    """A list of terms that is too long, and where it is."""

    path: Path
    size: int
    limit: int

    @property
    def message(self) -> str:
        return f"too many terms: {self.size}, and at most {self.limit} can be queued"


def excess_terms(spec: Mapping[str, Any], path: Path = ("spec",)) -> Iterator[Excess]:
    """Yield each list of terms in a pod's spec, found at this path, that is longer than its limit."""
    for field, limit in _LIMITS:
        terms: Any = spec
        for name in field:
            terms = terms.get(name) if isinstance(terms, Mapping) else None
        if isinstance(terms, list | tuple) and len(terms) > limit:
            yield Excess((*path, *field), len(terms), limit)


def refuse_excess(obj: Mapping[str, Any]) -> str | None:
    """Say which list of terms is too long in a pod, or in a template of a job; None if none is."""
    for spec, path in _pod_specs(obj, (), 0):
        for each in excess_terms(spec, path):
            return f"{format_path(each.path)}: {each.message}"
    return None


def _pod_specs(obj: Any, path: Path, depth: int) -> Iterator[tuple[Mapping[str, Any], Path]]:
    if depth > _DEEPEST:
        return
    if isinstance(obj, list | tuple):
        for index, each in enumerate(obj):
            yield from _pod_specs(each, (*path, index), depth + 1)
    if not isinstance(obj, Mapping):
        return
    spec = obj.get("spec")
    if isinstance(spec, Mapping) and (depth == 0 or path[-1] == "template"):
        yield spec, (*path, "spec")
    for field, value in obj.items():
        if depth > 0 or field == "spec":
            yield from _pod_specs(value, (*path, field), depth + 1)
