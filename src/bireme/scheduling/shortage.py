"""Why pods fit nowhere: no node is large enough, the free room is in pieces, or others hold it."""

from collections.abc import Sequence

from bireme.api.scheduler import Queue
from bireme.scheduling.neighbours import Neighbours, Residents
from bireme.scheduling.placement import Ground, has_room, place
from bireme.scheduling.reasons import Reason, Shortage, Waiting
from bireme.scheduling.requests import PODS, show, total
from bireme.scheduling.room import Room
from bireme.scheduling.state import State
from bireme.scheduling.units import Tracked


def why_it_does_not_fit(state: State, queue: Queue, pods: Sequence[Tracked], room: Room) -> Waiting:
    """The reason why the pods can't all be placed into the room now."""
    kinds = {each.shape: each for each in reversed(pods)}.values()
    misfit = next((each for each in kinds if not _fits_an_empty_node(state, queue, each)), None)
    if misfit is not None:
        return Waiting(Reason.DOES_NOT_FIT_ANY_NODE, _misfit_message(state, queue, misfit))
    if not fits_empty_cluster(state, queue, pods):
        its = "its pod" if len(pods) == 1 else f"its {len(pods)} pods at once"
        message = f"the cluster can't hold {its}, not even with nothing else on it"
        return Waiting(Reason.DOES_NOT_FIT_ANY_NODE, message)
    shortages = _shortages(state, queue, pods, room)
    if shortages:
        return Waiting(Reason.WAITING_FOR_RESOURCES, _shortage_message(pods, shortages), shortages)
    if has_room(state.ground().with_room(room), [each.member for each in pods], state.eligible_for(queue)):
        whom = "it" if len(pods) == 1 else "them"
        message = f"there is room, but rules on ports, affinity or spread keep {whom} away from who is there"
        return Waiting(Reason.WAITING_FOR_RESOURCES, message)
    message = f"what {_asking(pods)} for is free, but in pieces that are too small"
    return Waiting(Reason.FRAGMENTED, message)


def _fits_an_empty_node(state: State, queue: Queue, tracked: Tracked) -> bool:
    if state.nodes.whole.is_too_small(tracked.shape.requests):
        return False
    mask = state.eligible(tracked.shape, queue)
    return bool(state.nodes.whole.capacity(tracked.shape.requests, mask).any())


def empty_ground(state: State) -> Ground:
    """The cluster with nothing on it."""
    ground, nobody = state.ground(), Residents()
    neighbours = Neighbours(state.nodes, lambda: nobody, ground.neighbours.matches, state.work, repels=False)
    return ground.with_room(state.nodes.whole)._replace(neighbours=neighbours)


def fits_empty_cluster(state: State, queue: Queue, pods: Sequence[Tracked]) -> bool:
    """Whether all the pods could be there at once; who wants to be near others may count on those."""
    members, eligible, empty = [each.member for each in pods], state.eligible_for(queue), empty_ground(state)
    if place(empty, members, eligible) is not None:
        return True
    relations = (each.shape.relations for each in pods)
    if not any(each is not None and each.affinity for each in relations):
        return False
    return place(empty._replace(neighbours=state.ground().neighbours), members, eligible) is not None


def _shortages(state: State, queue: Queue, pods: Sequence[Tracked], room: Room) -> tuple[Shortage, ...]:
    """Resources of which the nodes together have less than is asked."""
    asked = total(each.shape.requests for each in pods)
    mask = state.eligible(pods[0].shape, queue)
    for each in {each.shape.place: each for each in pods}.values():
        mask = mask | state.eligible(each.shape, queue)
    free = room.sum(mask, asked)
    return tuple(Shortage(name, n, free[name]) for name, n in sorted(asked.items()) if free[name] < n)


def _shortage_message(pods: Sequence[Tracked], shortages: Sequence[Shortage]) -> str:
    parts = ", ".join(
        f"{show(each.resource, each.asked)} of {each.resource} ({show(each.resource, each.free)} free)"
        for each in shortages
    )
    return f"{_asking(pods)} for {parts}"


def _asking(pods: Sequence[Tracked]) -> str:
    return "its pod asks" if len(pods) == 1 else f"its {len(pods)} pods ask"


def _misfit_message(state: State, queue: Queue, tracked: Tracked) -> str:
    requests = tracked.shape.requests
    eligible, most = state.largest(tracked.shape, queue)
    name, count = tracked.pod.metadata.name, len(state.nodes.columns)
    if not count:
        return f"pod {name}: there are no nodes"
    if not eligible:
        nodes = f"none of {count} nodes" if count > 1 else "out the only node"
        return f"pod {name}: its rules and the queue's leave {nodes}"
    over = [
        f"{show(each, asked)} of {each} (the largest has {show(each, most.get(each, 0))})"
        for each, asked in sorted(requests.items())
        if asked > most.get(each, 0) and each != PODS
    ]
    if over:
        nodes = f"{eligible} of {count} nodes are" if count > 1 else "the only node is"
        return f"pod {name} asks for {', '.join(over)}; {nodes} eligible"
    return f"pod {name}: no node of {eligible} eligible has all that it asks for together"
