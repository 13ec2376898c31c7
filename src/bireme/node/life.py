"""The life of a pod on this node.

step(pod, seen, now) ─► orders, status
   ▲                       │
   └── the agent does them ┘

Pending ─► Running ─► Succeeded | Failed

Init containers run one after the other, sidecars among them stay; then the main containers run together.
The pod stops when they have ended, when an init container failed for good, at its deadline, when it is
deleted, or where it can't run here.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from bireme.node.containers import Life, observe
from bireme.node.orders import EndPod, Order
from bireme.node.phase import FINISHED
from bireme.node.running import Running, deadline, is_over, probe, run
from bireme.node.seen import Object, Seen
from bireme.node.status import Ending, build_status
from bireme.node.stopping import join, stop_pod
from bireme.planning.timing import earliest

DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
NODE_SHUTDOWN: Final = "NodeShutdown"
"""By this word controllers know a pod that was lost with its node: that is no failure of its program."""
_REBOOTED: Final = "The machine was restarted while the pod ran"
_TOO_LONG: Final = "Pod was active on the node longer than the specified deadline"


class Step(msgspec.Struct, frozen=True):
    """What to do now, what to say, and when to look again though nothing has changed.

    The next step must be given the pod with this status, written or not, and `stopping` in what is seen.
    `done`: nothing of the pod runs, and nothing will. A pod that was deleted can be removed once its status
    is written.
    """

    orders: tuple[Order, ...]
    status: Object
    wake_at: datetime | None = None
    stopping: datetime | None = None
    done: bool = False


def step(pod: Object, seen: Seen, now: datetime) -> Step:
    """Decide what a pod that is bound to this node needs next.

    Pure: the same input gives the same step. Level-based: it may be asked at any time, and after any crash.
    """
    lives = observe(pod, seen)
    ending = _ending(pod, lives, seen, now)
    if ending is not None:
        return _end(pod, lives, seen, ending, now)
    made = run(pod, lives, seen, now)
    status = build_status(pod, lives, seen, made.waiting, None, now)
    return Step(made.moves.orders, status, _wake(pod, status, made))


def _wake(pod: Object, status: Object, made: Running) -> datetime | None:
    return earliest(made.moves.wake_at, deadline(pod | {"status": status}))


def _end(pod: Object, lives: Sequence[Life], seen: Seen, ending: Ending, now: datetime) -> Step:
    status = build_status(pod, lives, seen, {}, ending, now)
    if not any(life.alive for life in lives):
        return Step((EndPod(),) if seen.shim == "alive" else (), status, done=True)
    begun = seen.stopping or now
    moves = join([stop_pod(pod, lives, begun, now), *(probe(life, now, stopping=True) for life in lives)])
    return Step(moves.orders, status, moves.wake_at, stopping=begun)


def _ending(pod: Object, lives: Sequence[Life], seen: Seen, now: datetime) -> Ending | None:
    """Why the pod is to end; None if it is not."""
    phase = (pod.get("status") or {}).get("phase")
    if phase in FINISHED:
        return Ending(phase)
    for problem in seen.problems:
        if problem.fatal:
            return Ending("Failed", problem.reason, problem.message, rejected=True)
    limit = deadline(pod)
    if limit is not None and now >= limit:
        return Ending("Failed", DEADLINE_EXCEEDED, _TOO_LONG)
    if "deletionTimestamp" in pod["metadata"]:
        return Ending()
    if is_over(pod, lives):
        lost = seen.rebooted and any(life.is_unknown for life in lives)
        return Ending("Failed", NODE_SHUTDOWN, _REBOOTED) if lost else Ending()
    return None
