"""Validate one object: shape, then the rules of its kind, then what may change."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from bireme.admission import colossalai, generic, kubeflow, metadata, mpi, queueing, updates
from bireme.admission.other_forms import explain_other_forms
from bireme.admission.problems import (
    MOST_ERRORS,
    Findings,
    Problem,
    ReplaceScalar,
    TooManyErrorsError,
    sort_problems,
)
from bireme.admission.shape import check_shape
from bireme.admission.words import closest, describe
from bireme.api.kinds import (
    COLOSSALAI_JOB,
    GENERIC_JOB,
    KINDS,
    KUBEFLOW_MPI_JOB,
    MPI_JOB,
    POD_GROUP,
    QUEUE,
    Kind,
    find_kind,
)
from bireme.api.schema import kind_schema

_RULES: dict[Kind, Callable[[Any, Findings], None]] = {
    GENERIC_JOB: generic.check,
    MPI_JOB: mpi.check,
    COLOSSALAI_JOB: colossalai.check,
    KUBEFLOW_MPI_JOB: kubeflow.check,
    QUEUE: queueing.check_queue,
    POD_GROUP: queueing.check_pod_group,
}
_GROUPS = {kind.group for kind in KINDS}


def validate(obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[Problem]:
    """Return every problem of a defaulted object, errors first; `old` is what an update replaces.

    Objects of other kinds have none, except that a kind or version of ours that does not exist is an
    error. Never raises on any input that JSON can express.
    """
    kind = find_kind(obj.get("apiVersion"), obj.get("kind"))
    if kind is None:
        return _unknown_kind(obj)
    shape, rules = Findings(), Findings()
    try:
        _check(kind, obj, old, shape, rules)
    except TooManyErrorsError:
        more = [Problem("error", (), "too-many", f"there may be more errors than these {MOST_ERRORS}")]
    else:
        more = []
    shape.add_below(rules, shape.error_paths)
    return sort_problems([*explain_other_forms(kind, shape), *more])


def _check(
    kind: Kind, obj: Mapping[str, Any], old: Mapping[str, Any] | None, shape: Findings, rules: Findings
) -> None:
    cleaned = check_shape(
        {name: child for name, child in obj.items() if name != "status"}, kind_schema(kind), shape
    )
    metadata.check(cleaned.get("metadata", {}), kind, rules)
    _RULES[kind](msgspec.convert(cleaned, kind.struct), rules)
    if old is not None:
        updates.check(kind, old, obj, rules)


def is_valid(problems: Iterable[Problem]) -> bool:
    """Whether none of them is an error."""
    return all(problem.severity != "error" for problem in problems)


def _unknown_kind(obj: Mapping[str, Any]) -> list[Problem]:
    """Near misses of our own kinds; anything else is none of our business."""
    out = Findings()
    version, name = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(version, str) or not isinstance(name, str):
        return []
    group = version.partition("/")[0]
    if group not in _GROUPS:
        return []
    candidates = [kind for kind in KINDS if kind.group == group]
    near = closest(name, [kind.kind for kind in candidates])
    if near is None:
        if group.endswith("tensorstack.dev"):
            known = ", ".join(kind.kind for kind in candidates)
            out.warn(
                ("kind",),
                "unknown-kind",
                f"{describe(name)} of {group} is not checked",
                hint=f"known: {known}",
            )
    elif near != name:
        out.error(
            ("kind",), "unknown-kind", f"{describe(name)} is not a kind of {group}", value=name,
            hint=f"did you mean `{near}`?", fix=ReplaceScalar(near),
        )  # fmt: skip
    else:
        _check_version(version, near, candidates, out)
    return list(out)


def _check_version(version: str, kind_name: str, candidates: list[Kind], out: Findings) -> None:
    expected = next(kind.api_version for kind in candidates if kind.kind == kind_name)
    if expected.startswith("kubeflow.org/"):
        # Other versions of Kubeflow's MPIJob exist and belong to its own operator.
        hint = f"Bireme runs {expected} only"
        out.warn(
            ("apiVersion",),
            "unknown-version",
            f"{describe(version)} is not checked",
            value=version,
            hint=hint,
        )
        return
    message = f"{describe(version)} is not a version of {kind_name}"
    hint = f"did you mean `{expected}`?"
    out.error(
        ("apiVersion",), "unknown-version", message, value=version, hint=hint, fix=ReplaceScalar(expected)
    )
