"""How containers are stopped: preStop, TERM, a grace, KILL; sidecars after those that they serve."""

import signal
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from bireme.node.containers import Life, failed_probe
from bireme.node.orders import CheckShim, KillContainer, Order, RunHook, SignalContainer
from bireme.node.seen import Object
from bireme.planning.timing import earliest

LEAST_GRACE: Final = timedelta(seconds=2)
"""What every container has between TERM and KILL, however little is left of its pod's grace."""

PATIENCE: Final = timedelta(seconds=5)
"""How long a shim has to kill a container before it is asked whether it is there at all."""


class Moves(msgspec.Struct, frozen=True):
    """What to do now, and when to look again."""

    orders: tuple[Order, ...] = ()
    wake_at: datetime | None = None


def join(moves: Iterable[Moves]) -> Moves:
    moves = tuple(moves)
    orders = tuple(order for each in moves for order in each.orders)
    return Moves(orders, earliest(*(each.wake_at for each in moves)))


def stop_pod(pod: Object, lives: Sequence[Life], begun: datetime, now: datetime) -> Moves:
    """Stop all that is alive in a pod that began to stop at `begun`."""
    grace = timedelta(seconds=max(1, _pod_grace(pod)))
    return join(
        _stop(life, begun + grace, now, waits=_waits(life, lives[place + 1 :]))
        for place, life in enumerate(lives)
        if life.alive
    )


def stop_container(pod: Object, life: Life, now: datetime) -> Moves:
    """Stop a container whose pod goes on."""
    hook = life.dealings.pre_stop
    begun = earliest(hook.begun if hook else None, life.dealings.signalled, now) or now
    probe = life.spec.get(failed_probe(life) or "") or {}
    seconds = probe.get("terminationGracePeriodSeconds")
    return _stop(life, begun + timedelta(seconds=_pod_grace(pod) if seconds is None else seconds), now)


def _pod_grace(pod: Object) -> int:
    metadata, spec = pod["metadata"], pod["spec"]
    if metadata.get("deletionGracePeriodSeconds") is not None and "deletionTimestamp" in metadata:
        return int(metadata["deletionGracePeriodSeconds"])
    seconds = spec.get("terminationGracePeriodSeconds")
    return 30 if seconds is None else int(seconds)


def _waits(life: Life, later: Sequence[Life]) -> bool:
    """A sidecar is needed until the main containers and the sidecars that came after it have ended."""
    return life.role == "sidecar" and any(each.alive and each.role != "init" for each in later)


def _stop(life: Life, until: datetime, now: datetime, *, waits: bool = False) -> Moves:
    done = life.dealings
    if done.signalled is None:
        if now < until and (before := _run_hook(life, until)) is not None:
            return before
        if now < until and waits:
            return Moves((), until)
        return Moves(
            (SignalContainer(life.name, signal.SIGTERM, life.attempt),), max(until, now + LEAST_GRACE)
        )
    kill_at = max(until, done.signalled + LEAST_GRACE)
    if now < kill_at:
        return Moves((), kill_at)
    if done.killed is None:
        return Moves((KillContainer(life.name, life.attempt),), now + PATIENCE)
    doubtful = done.killed + PATIENCE
    return Moves((), doubtful) if now < doubtful else Moves((CheckShim(),), now + PATIENCE)


def _run_hook(life: Life, until: datetime) -> Moves | None:
    """Run the preStop hook, or wait for it; None if there is none, or no more."""
    handler, hook = life.handler("preStop"), life.dealings.pre_stop
    if handler is None or (hook is not None and not hook.runs):
        return None
    run = (RunHook(life.name, life.attempt, "preStop", handler),) if hook is None else ()
    return Moves(run, until)
