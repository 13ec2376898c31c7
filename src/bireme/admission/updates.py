"""What may change after creation."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from bireme.admission.defaults import default
from bireme.admission.problems import Findings
from bireme.admission.words import describe
from bireme.api.job import JobStatus, RunMode, is_stopped
from bireme.api.kinds import COLOSSALAI_JOB, GENERIC_JOB, KUBEFLOW_MPI_JOB, MPI_JOB, Kind
from bireme.api.paths import Path

_MODES: Final[tuple[Path, ...]] = (
    ("spec", "runMode", "debug"),
    ("spec", "runMode", "pause", "enabled"),
    ("spec", "runMode", "pause", "enable"),
)
_ALWAYS: Final[Mapping[Kind, tuple[Path, ...]]] = {
    GENERIC_JOB: (*_MODES, ("spec", "cleanUpPolicy")),
    MPI_JOB: (*_MODES, ("spec", "runPolicy")),
    COLOSSALAI_JOB: (*_MODES, ("spec", "runPolicy")),
    KUBEFLOW_MPI_JOB: (
        ("spec", "cleanPodPolicy"),
        ("spec", "backoffLimit"),
        ("spec", "activeDeadlineSeconds"),
        ("spec", "runPolicy", "cleanPodPolicy"),
        ("spec", "runPolicy", "backoffLimit"),
        ("spec", "runPolicy", "activeDeadlineSeconds"),
        ("spec", "runPolicy", "ttlSecondsAfterFinished"),
    ),
}
"""What may change at any time. Queue and PodGroup are not listed: all of them may."""
_WHILE_STOPPED: Final[Mapping[Kind, tuple[Path, ...]]] = {
    GENERIC_JOB: (("spec", "replicaSpecs", "*", "replicas"), ("spec", "replicaSpecs", "*", "template")),
    MPI_JOB: (("spec", "worker"),),
    COLOSSALAI_JOB: (("spec", "worker"),),
}


def check(kind: Kind, old: Mapping[str, Any], new: Mapping[str, Any], out: Findings) -> None:
    """Report every change that is not allowed now, at the place that changed."""
    if kind not in _ALWAYS:
        return
    later = _WHILE_STOPPED.get(kind, ())
    stopped = bool(later) and is_stopped(_status(old)) and _is_paused(old)
    for path, value in _changes(default(old).get("spec"), default(new).get("spec"), ("spec",)):
        if _covered(path, _ALWAYS[kind]) or (stopped and _covered(path, later)):
            continue
        hint = "create a new job instead"
        if _covered(path, later):
            hint = "pause the job first, and wait until condition Paused has the reason Stopped"
        out.error(path, "immutable", "can't change after creation", value=value, hint=hint)


def _is_paused(obj: Mapping[str, Any]) -> bool:
    """Whether the job is still to stand still: one that is about to go on may not be changed any more."""
    try:
        mode = msgspec.convert((obj.get("spec") or {}).get("runMode"), RunMode | None)
    except msgspec.ValidationError:
        return False
    return mode is not None and mode.pause is not None and mode.pause.on


def _status(obj: Mapping[str, Any]) -> JobStatus | None:
    try:
        return msgspec.convert(obj.get("status"), JobStatus | None)
    except msgspec.ValidationError:
        return None


def _covered(path: Path, patterns: tuple[Path, ...]) -> bool:
    return any(
        len(path) >= len(pattern) and all(p in ("*", e) for p, e in zip(pattern, path, strict=False))
        for pattern in patterns
    )


def _changes(old: Any, new: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The deepest places where two values differ; a missing object counts as an empty one."""
    if old == new:
        return
    if _is_object(old) and _is_object(new):
        before, after = old or {}, new or {}
        for name in dict.fromkeys((*before, *after)):
            yield from _changes(before.get(name), after.get(name), (*path, name))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changes(before, after, (*path, index))
    else:
        yield path, describe(new)


def _is_object(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)
