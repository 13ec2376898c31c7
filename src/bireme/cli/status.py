"""`bireme status`: whether the embedded mode runs, and what it does."""

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from bireme.cli.output import echo
from bireme.cli.places import data_dir_option, data_folder
from bireme.cli.targets import Connection, connected, embedded, found, run, say_local

if TYPE_CHECKING:
    from pathlib import Path

    from bireme.run.presence import Daemon

_LIMITS = ("memory", "cpu")
_ISOLATION = {
    "root": "root (pods have their own host names and mounts)",
    "user": "user namespaces (pods have their own host names and mounts)",
    "none": "none (pods share this machine's host name and files)",
}


@click.command()
@data_dir_option
def command(data_dir: "Path | None") -> None:
    """Say whether the embedded mode runs on this machine, since when, and what it does.

    If `bireme use` has saved a target for other commands, one line names it.

    Exit status: 0 if it runs, 1 if it does not.
    """
    folder = data_folder(data_dir)
    daemon = found(folder)
    say_local(folder)
    if daemon is None:
        echo(f"not running ({folder})")
    facts = [] if daemon is None else [*run(_facts(daemon)), *_trouble(folder)]
    for name, value in [*facts, *_saved_target()]:
        echo(f"{name + ':':<12}{value}")
    if daemon is None:
        raise SystemExit(1)


def _saved_target() -> list[tuple[str, str]]:
    """Return what `bireme use` has saved; a file that can't be read does not hide the daemon's state."""
    from bireme.cli.failures import Failure
    from bireme.cli.target_choice import SavedLocal, load

    try:
        saved = load()
    except Failure as failure:
        return [("target", f"{failure.message} (`bireme use local` replaces it)")]
    if saved is None:
        return []
    target = "this machine" if isinstance(saved, SavedLocal) else str(saved)
    return [("target", f"{target}, saved by `bireme use`")]


def _trouble(folder: "Path") -> list[tuple[str, str]]:
    from bireme.disk import is_full

    return (
        [("disk", "full: no job can be started, and output is cut; `bireme delete JOB` frees space")]
        if is_full(folder)
        else []
    )


async def _facts(daemon: "Daemon") -> list[tuple[str, str]]:
    async with connected(embedded(daemon)) as connection:
        jobs, pods = await _counts(connection)
    since = f"{daemon.started.astimezone():%Y-%m-%d %H:%M:%S}"
    return [
        ("running", f"for {_age(daemon)}, since {since}; {_end(daemon)}"),
        ("process", str(daemon.pid)),
        ("url", daemon.url),
        ("kubeconfig", daemon.kubeconfig),
        ("isolation", _ISOLATION.get(daemon.isolation, daemon.isolation)),
        ("limits", _limits(daemon)),
        ("jobs", jobs),
        ("pods", pods),
    ]


async def _counts(connection: Connection) -> tuple[str, str]:
    from bireme.kube.resources import PODS
    from bireme.run.chores import list_jobs
    from bireme.run.jobs import phase

    jobs = Counter(phase(job) for _, job in await list_jobs(connection.client))
    pods = (await connection.client.list(PODS, type=dict)).items
    return _told(jobs), _told(Counter((pod.get("status") or {}).get("phase", "Pending") for pod in pods))


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items())) or "none"


def _limits(daemon: "Daemon") -> str:
    """Which of those that pods have in their manifests are more than advice."""
    advice = [name for name in _LIMITS if name not in daemon.limits]
    kept = f"enforced ({' and '.join(daemon.limits)})" if daemon.limits else ""
    ignored = f"advice only ({' and '.join(advice)}): the daemon has no cgroup of its own" if advice else ""
    return "; ".join(part for part in (kept, ignored) if part)


def _age(daemon: "Daemon") -> str:
    from bireme.cli.durations import shown

    return shown(datetime.now(UTC) - daemon.started)  # noqa: TID251 - this is the shell


def _end(daemon: "Daemon") -> str:
    return "until `bireme down`" if daemon.stays else "until it is idle"
