"""`bireme queue`: the queues of a cluster, and who waits in them."""

from datetime import UTC, datetime

import click

from bireme.cli.failures import Failure
from bireme.cli.places import Asked, target_options
from bireme.cli.targets import Connection, Target, choose, connected, run, scheduler_of


@click.command()
@click.argument("name", required=False)
@click.option("--home", help="Namespace of the scheduler; found by itself.")
@target_options
def command(name: str | None, home: str | None, asked: Asked) -> None:
    """Print the queues, or what waits in one of them, in the order in which it is served."""
    for line in run(_queues(choose(asked), asked.namespace, name, home)):
        click.echo(line)


async def _queues(target: Target, namespace: str | None, name: str | None, home: str | None) -> list[str]:
    async with connected(target, namespace) as connection:
        return await (_table(connection, home) if name is None else _line(connection, name, home))


async def _table(connection: Connection, home: str | None) -> list[str]:
    from bireme.cli.table import align
    from bireme.run.queues import load_state
    from bireme.scheduling.requests import write_amounts
    from bireme.scheduling.shares import dominant_share, limits, quota

    scheduler = await scheduler_of(connection, home)
    state = await load_state(connection.client, scheduler)
    rows = [["NAME", "PRIORITY", "OPEN", "PREEMPTIBLE", "SHARE", "GROUPS", "WAITING", "HELD", "QUOTA"]]
    ordered = sorted(state.queues.values(), key=lambda queue: (-queue.spec.priority, queue.metadata.name))
    for queue in ordered:
        name = queue.metadata.name
        held = {each: n for each, n in state.held.get(name, {}).items() if each != "pods"}
        units = state.by_queue.get(name, {}).values()
        share = dominant_share(held, limits(state, queue))
        most = quota(queue)
        rows.append(
            [
                name,
                str(queue.spec.priority),
                "no" if queue.spec.closed else "yes",
                "yes" if queue.spec.is_preemptible else "no",
                f"{float(share):.0%}",
                str(len(units)),
                str(sum(any(each.waits for each in unit.pods.values()) for unit in units)),
                _amounts(write_amounts(held)),
                "none" if most is None else _amounts(write_amounts(most)),
            ]
        )
    return align(rows)


async def _line(connection: Connection, name: str, home: str | None) -> list[str]:
    from bireme.cli.table import align
    from bireme.run.queues import load_state
    from bireme.scheduling import schedule

    scheduler = await scheduler_of(connection, home)
    state = await load_state(connection.client, scheduler)
    if name not in state.queues:
        raise Failure(f"there is no queue {name}", "`bireme queue` lists them")
    decisions = schedule(state, scheduler.policy, datetime.now(UTC))  # noqa: TID251 - a command asks the clock
    rows = [["POSITION", "GROUP", "PRIORITY", "REASON", "MESSAGE"]]
    waiting = [key for key in decisions.waiting if state.units[key].queue == name]
    for position, key in enumerate(waiting, 1):
        verdict = decisions.waiting[key]
        priority = str(state.units[key].spec.priority)
        rows.append([str(position), str(key), priority, verdict.reason.value, verdict.message])
    return align(rows) if len(rows) > 1 else [f"nothing waits in queue {name}"]


def _amounts(written: dict[str, str]) -> str:
    return ",".join(f"{name}={amount}" for name, amount in written.items()) or "-"
