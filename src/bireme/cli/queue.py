"""`bireme queue`: the queues of a cluster, and who waits in them."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from bireme.cli.failures import Failure, say
from bireme.cli.output import echo
from bireme.cli.places import Asked, target_options
from bireme.cli.targets import Connection, Target, choose, connected, run, scheduler_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bireme.api.scheduler import Queue
    from bireme.run.queues import Visible

_HEAD = ["NAME", "PRIORITY", "OPEN", "PREEMPTIBLE", "SHARE", "GROUPS", "WAITING", "HELD", "QUOTA"]
_LINE_HEAD = ["POSITION", "GROUP", "PRIORITY", "REASON", "MESSAGE"]
_UNKNOWN = "?"


@click.command()
@click.argument("name", required=False)
@click.option("--home", help="Namespace of the scheduler; found by itself.")
@target_options
def command(name: str | None, home: str | None, asked: Asked) -> None:
    """Print the queues, or what waits in one of them, in the order in which it is served.

    Without the right to read nodes and the pods of all namespaces, it prints what the scheduler wrote into
    the Queues, and the groups of your namespace.
    """
    for line in run(_queues(choose(asked), asked.namespace, name, home)):
        echo(line)


async def _queues(target: Target, namespace: str | None, name: str | None, home: str | None) -> list[str]:
    from bireme.kube.errors import Forbidden
    from bireme.run.queues import load_visible

    async with connected(target, namespace) as connection:
        try:
            return await (_table(connection, home) if name is None else _line(connection, name, home))
        except Forbidden:
            visible = await load_visible(connection.client, connection.namespace)
            return _visible_table(visible) if name is None else _visible_line(visible, name)


async def _table(connection: Connection, home: str | None) -> list[str]:
    from bireme.cli.table import align
    from bireme.run.queues import load_state
    from bireme.scheduling.requests import write_amounts
    from bireme.scheduling.shares import dominant_share, limits

    scheduler = await scheduler_of(connection, home)
    state = await load_state(connection.client, scheduler)
    rows = [_HEAD]
    for queue in _in_order(state.queues.values()):
        name = queue.metadata.name
        held = {each: n for each, n in state.held.get(name, {}).items() if each != "pods"}
        units = state.by_queue.get(name, {}).values()
        share = dominant_share(held, limits(state, queue))
        waiting = sum(any(each.waits for each in unit.pods.values()) for unit in units)
        figures = [f"{float(share):.0%}", str(len(units)), str(waiting), _amounts(write_amounts(held))]
        rows.append([*_settings(queue), *figures, _quota(queue)])
    return align(rows)


def _visible_table(visible: "Visible") -> list[str]:
    from bireme.cli.table import align
    from bireme.scheduling.requests import write_amounts
    from bireme.scheduling.shares import dominant_share, quota

    say(
        "nodes and other namespaces may not be read: HELD is what the scheduler wrote down, SHARE needs a"
        f" quota, and WAITING counts groups of namespace {visible.namespace} alone"
    )
    rows = [_HEAD]
    for queue in _in_order(visible.queues):
        held, most, status = visible.held(queue), quota(queue), queue.status
        share = f"{float(dominant_share(held, most)):.0%}" if most else _UNKNOWN
        groups = status.pod_groups.total if status is not None and status.pod_groups is not None else 0
        waiting = len(visible.waiting_in(queue.metadata.name))
        figures = [share, str(groups), str(waiting), _amounts(write_amounts(held))]
        rows.append([*_settings(queue), *figures, _quota(queue)])
    return align(rows)


def _in_order(queues: "Iterable[Queue]") -> "list[Queue]":
    return sorted(queues, key=lambda queue: (-queue.spec.priority, queue.metadata.name))


def _settings(queue: "Queue") -> list[str]:
    spec = queue.spec
    is_open, is_preemptible = "no" if spec.closed else "yes", "yes" if spec.is_preemptible else "no"
    return [queue.metadata.name, str(spec.priority), is_open, is_preemptible]


def _quota(queue: "Queue") -> str:
    from bireme.scheduling.requests import write_amounts
    from bireme.scheduling.shares import quota

    most = quota(queue)
    return "none" if most is None else _amounts(write_amounts(most))


async def _line(connection: Connection, name: str, home: str | None) -> list[str]:
    from bireme.cli.table import align
    from bireme.run.queues import load_state
    from bireme.scheduling import schedule

    scheduler = await scheduler_of(connection, home)
    state = await load_state(connection.client, scheduler)
    if name not in state.queues:
        raise _no_queue(name)
    decisions = schedule(state, scheduler.policy, datetime.now(UTC))  # noqa: TID251 - a command asks the clock
    rows = [_LINE_HEAD]
    waiting = [key for key in decisions.waiting if state.units[key].queue == name]
    for position, key in enumerate(waiting, 1):
        verdict = decisions.waiting[key]
        priority = str(state.units[key].spec.priority)
        rows.append([str(position), str(key), priority, verdict.reason.value, verdict.message])
    return align(rows) if len(rows) > 1 else [f"nothing waits in queue {name}"]


def _visible_line(visible: "Visible", name: str) -> list[str]:
    from bireme.cli.table import align

    if name not in [queue.metadata.name for queue in visible.queues]:
        raise _no_queue(name)
    say(f"other namespaces may not be read: these are the groups of namespace {visible.namespace}")
    rows = [_LINE_HEAD]
    for group, waiting in visible.waiting_in(name):
        position = str(waiting.position) if waiting.position else _UNKNOWN
        key = f"{group.metadata.namespace}/{group.metadata.name}"
        rows.append([position, key, str(group.spec.priority), waiting.reason, waiting.message])
    if len(rows) > 1:
        return align(rows)
    return [f"nothing of namespace {visible.namespace} waits in queue {name}"]


def _no_queue(name: str) -> Failure:
    return Failure(f"there is no queue {name}", "`bireme queue` lists them")


def _amounts(written: dict[str, str]) -> str:
    return ",".join(f"{name}={amount}" for name, amount in written.items()) or "-"
