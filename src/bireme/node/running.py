"""What a pod that is to run needs next: which containers start, which start again, which are probed."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from bireme.node import probes
from bireme.node.backoff import delay, next_in_a_row, restarts, write_duration
from bireme.node.containers import Life, failed_probe
from bireme.node.orders import ProbeName, RunHook, RunProbe, StartContainer
from bireme.node.seen import Object, Problem, Seen
from bireme.node.stopping import Moves, join, stop_container
from bireme.node.times import read_time

_RETRY: Final = timedelta(seconds=2)
"""How soon to look again whether a problem is gone."""
_PROBES: Final[tuple[ProbeName, ...]] = ("startupProbe", "livenessProbe", "readinessProbe")


class Waiting(NamedTuple):
    """Why a container does not run, as its status says it."""

    reason: str
    message: str = ""


class Running(NamedTuple):
    moves: Moves
    waiting: dict[str, Waiting]


def is_over(pod: Object, lives: Sequence[Life]) -> bool:
    """Whether the pod has come to its end: its main containers have, or one that comes before them failed."""
    mains = [life for life in lives if life.role == "main"]
    if all(_ended_for_good(pod, life) for life in mains):
        return True
    return any(life.role == "init" and _ended_for_good(pod, life) for life in wanted(lives))


def _ended_for_good(pod: Object, life: Life) -> bool:
    return life.ended is not None and not restarts(life.spec, pod["spec"], life.exit_code)


def wanted(lives: Sequence[Life]) -> list[Life]:
    """Those that are to run now: the sidecars that were reached, and the init container whose turn it is.

    Once a main container was started, all of them, and no init container any more.
    """
    first = [life for life in lives if life.role != "main"]
    mains = [life for life in lives if life.role == "main"]
    reached = len(first) if any(life.attempt >= 0 for life in mains) else _reached(first)
    sidecars = [life for life in first[:reached] if life.role == "sidecar"]
    return [*sidecars, *(mains if reached == len(first) else [first[reached]])]


def _reached(first: Sequence[Life]) -> int:
    """The place of the init container whose turn it is; behind the last when all have had theirs."""
    begun = [place for place, life in enumerate(first) if life.attempt >= 0]
    if not begun:
        return 0
    last = first[begun[-1]]
    past = last.is_started if last.role == "sidecar" else last.ended is not None and not last.failed
    return begun[-1] + past


def run(pod: Object, lives: Sequence[Life], seen: Seen, now: datetime) -> Running:
    """Keep a pod going.

    Containers start in their order. One with a postStart hook holds back those behind it until it is done.
    """
    waiting: dict[str, Waiting] = {}
    moves: list[Moves] = []
    held = False
    for life in wanted(lives):
        if life.alive:
            moves.append(_keep(pod, life, now))
            held = held or life.starting
        elif not _ended_for_good(pod, life):
            made, why = _start(pod, life, seen, now)
            moves += [] if held else [made]
            waiting |= {life.name: why} if why else {}
            held = held or (bool(made.orders) and life.handler("postStart") is not None)
    return Running(join(moves), waiting)


def _keep(pod: Object, life: Life, now: datetime) -> Moves:
    """What a container that is alive needs."""
    if life.error:
        return Moves()
    hook = life.dealings.post_start
    if failed_probe(life) is not None or (life.starting and hook is not None and hook.error):
        return join([stop_container(pod, life, now), probe(life, now, stopping=True)])
    handler = life.handler("postStart")
    if life.starting and hook is None and handler is not None:
        return Moves((RunHook(life.name, life.attempt, "postStart", handler),))
    return probe(life, now, stopping=False)


def probe(life: Life, now: datetime, *, stopping: bool) -> Moves:
    """The probes of a container that are due. One that is being stopped is asked only whether it is ready."""
    names = ("readinessProbe",) if stopping else _PROBES
    return join(_probe(life, name, now) for name in names)


def _probe(life: Life, name: ProbeName, now: datetime) -> Moves:
    spec = life.spec.get(name)
    if not spec or not life.runs or life.started is None or life.is_started == (name == "startupProbe"):
        return Moves()
    due = probes.due_at(name, spec, probes.history(life.dealings, name), life.started)
    if due is None or now < due:
        return Moves((), due)
    return Moves((RunProbe(life.name, life.attempt, name),))


def _start(pod: Object, life: Life, seen: Seen, now: datetime) -> tuple[Moves, Waiting | None]:
    """Start a container, or say why not yet."""
    if (late := _back_off(pod, life, now)) is not None:
        return Moves((), late[0]), late[1]
    for problem in _problems(life, seen):
        return Moves((), now + _RETRY), Waiting(problem.reason, problem.message)
    return Moves((_again(life) if life.attempt >= 0 else StartContainer(life.name, 0),)), None


def _again(life: Life) -> StartContainer:
    in_a_row = next_in_a_row(life.dealings.in_a_row, life.started, life.finished)
    return StartContainer(life.name, life.attempt + 1, in_a_row)


def _problems(life: Life, seen: Seen) -> Iterator[Problem]:
    return (problem for problem in seen.problems if problem.container in ("", life.name))


def _back_off(pod: Object, life: Life, now: datetime) -> tuple[datetime, Waiting] | None:
    """Until when a container that has ended waits; None if it does not."""
    span = delay(life.dealings.in_a_row, life.started, life.finished)
    if life.finished is None or now >= life.finished + span:
        return None
    metadata = pod["metadata"]
    where = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
    text = f"back-off {write_duration(span)} restarting failed container={life.name} pod={where}"
    return life.finished + span, Waiting("CrashLoopBackOff", text)


def deadline(pod: Object) -> datetime | None:
    """When the pod has been active for as long as it may."""
    seconds, start = pod["spec"].get("activeDeadlineSeconds"), (pod.get("status") or {}).get("startTime")
    return read_time(start) + timedelta(seconds=seconds) if seconds is not None and start else None
