"""Rules for run modes, shared by the tensorstack kinds."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from bireme.admission.problems import Findings
from bireme.admission.words import describe, join
from bireme.api.job import DebugMode, PauseMode, ReplicaDebugSet, ResumeSpec, RunMode
from bireme.api.names import LAUNCHER_TYPE
from bireme.api.paths import Path

_PATH: Path = ("spec", "runMode")


def check(
    run_mode: RunMode | None,
    types: Collection[str],
    out: Findings,
    *,
    aliases: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Check the flags, and that every entry names one of `types`, once; `aliases` are other words."""
    if run_mode is None:
        return
    if run_mode.debug is not None:
        _check_flags(run_mode.debug, (*_PATH, "debug"), out)
        _check_types(run_mode.debug.replica_specs, types, (*_PATH, "debug", "replicaSpecs"), aliases, out)
    if run_mode.pause is not None:
        _check_flags(run_mode.pause, (*_PATH, "pause"), out)
        _check_types(run_mode.pause.resume_specs, types, (*_PATH, "pause", "resumeSpecs"), aliases, out)


def check_launcher_resume(
    run_mode: RunMode | None, program: str, command: str, aliases: Mapping[str, str], out: Findings
) -> None:
    """Warn of arguments of a resumed launcher that are no program; they replace the field `command`."""
    specs = run_mode.pause.resume_specs if run_mode is not None and run_mode.pause is not None else ()
    for index, entry in enumerate(specs):
        if aliases.get(entry.type, entry.type) != LAUNCHER_TYPE or entry.command or not entry.args:
            continue
        first, where = entry.args[0], (*_PATH, "pause", "resumeSpecs", index, "args", 0)
        rule = "launcher-arguments"
        if first.startswith("-"):
            message = f"{describe(first)} is an option: these arguments take the place of all of `{command}`"
            out.warn(where, rule, message, value=first, hint="write the program before it")
        elif first.rpartition("/")[2] in (program, "mpiexec"):
            message = f"the launcher runs {program} itself: every rank would start another one"
            hint = f"leave out {first} and its options, or put the whole line into `command`"
            out.warn(where, rule, message, value=first, hint=hint)


def _check_flags(mode: DebugMode | PauseMode, path: Path, out: Findings) -> None:
    if mode.enabled is not None and mode.enable is not None and mode.enabled != mode.enable:
        out.error(
            (*path, "enable"),
            "contradiction",
            f"{describe(mode.enable)} contradicts enabled: {describe(mode.enabled)}",
            value=mode.enable,
            hint="keep `enabled` alone; `enable` is its older name",
        )


def _check_types(
    entries: Sequence[ReplicaDebugSet | ResumeSpec],
    types: Collection[str],
    path: Path,
    aliases: Mapping[str, str],
    out: Findings,
) -> None:
    seen: dict[str, int] = {}
    for index, entry in enumerate(entries):
        name = aliases.get(entry.type, entry.type)
        where = (*path, index, "type")
        if name not in types:
            near = out.guess(name, types)
            hint = f"did you mean `{near}`?" if near else f"known types: {join(types)}"
            out.error(
                where,
                "unknown-type",
                f"no replica type is named {describe(entry.type)}",
                value=entry.type,
                hint=hint,
            )
        elif name in seen:
            message = f"{describe(entry.type)} is there already, at [{seen[name]}]"
            out.error(where, "duplicate", message, value=entry.type)
        seen.setdefault(name, index)
