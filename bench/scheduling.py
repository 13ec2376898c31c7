"""How fast the scheduler decides, on paper clusters, and how that grows with the number of nodes.

Times are CPU seconds of this process, so that a busy machine does not change them much.
"""

import resource
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from bench.measurement import Result
from bireme.api.scheduler import GROUP_LABEL, PodGroup, Queue
from bireme.scheduling import Policy, State, schedule
from bireme.scheduling.objects import Node, Pod
from bireme.scheduling.placement import place
from bireme.scheduling.units import Key, standing

T = TypeVar("T")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NODES, PODS_PER_NODE, GANG = 5000, 10, 4
GROWTH = (1000, 2500, 5000)
GIB = 2**30
_KINDS: tuple[dict[str, int], ...] = (
    {"cpu": 2, "memory": 4 * GIB},
    {"cpu": 8, "memory": 32 * GIB},
    {"cpu": 4, "memory": 16 * GIB, "nvidia.com/gpu": 2},
)


def cluster(nodes: int) -> State:
    """Half of the nodes have eight GPUs; a low, a middle and a high queue."""
    state = State()
    for number in range(nodes):
        has = {"cpu": "64", "memory": str(256 * GIB), "pods": "110"}
        if number % 2:
            has["nvidia.com/gpu"] = "8"
        body: dict[str, Any] = {"metadata": {"name": f"n{number:05}"}, "status": {"allocatable": has}}
        state.put_node(msgspec.convert(body, Node))
    for priority, name in enumerate(("low", "middle", "high")):
        spec = {"priority": priority, "namespaceSelector": {}}
        state.put_queue(msgspec.convert({"metadata": {"name": name}, "spec": spec}, Queue))
    return state


def add_gang(state: State, name: str, queue: str, pods: int, asks: dict[str, int], number: int = 0) -> None:
    """A PodGroup and its pods."""
    created = (NOW + timedelta(seconds=number)).isoformat()
    metadata = {"namespace": "team", "creationTimestamp": created}
    group = {
        "metadata": {**metadata, "name": name, "uid": name},
        "spec": {"minMember": pods, "queue": queue},
    }
    state.put_group(msgspec.convert(group, PodGroup))
    requests = {key: str(value) for key, value in asks.items()}
    for index in range(pods):
        pod = {
            "metadata": {
                **metadata,
                "name": f"{name}-{index}",
                "uid": f"{name}-{index}",
                "labels": {GROUP_LABEL: name},
            },
            "spec": {
                "schedulerName": "t9k-scheduler",
                "containers": [{"name": "main", "resources": {"requests": requests}}],
            },
        }
        state.put_pod(msgspec.convert(pod, Pod))


def add_gangs(state: State, pods: int, *, shapes: int) -> None:
    """Gangs of four, of so many different shapes."""
    for number in range(pods // GANG):
        asks = dict(_KINDS[number % len(_KINDS)])
        asks["memory"] += (number % shapes) * 2**20
        add_gang(state, f"g{number}", "middle", GANG, asks, number)


def bind(state: State, starts: Any) -> None:
    for start in starts:
        for uid, node in start.nodes.items():
            pod = state.pods[uid].pod
            state.put_pod(
                msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
            )


def cpu_seconds(work: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def measure_size(nodes: int) -> dict[str, float]:
    """All figures for one number of nodes."""
    state, policy = cluster(nodes), Policy()
    add_gangs(state, nodes * PODS_PER_NODE, shapes=30)
    seconds, decisions = cpu_seconds(lambda: schedule(state, policy, NOW))
    placed = sum(len(start.nodes) for start in decisions.starts)
    bind(state, decisions.starts)
    return {
        "placements": placed / seconds,
        "gang": min(_gang_seconds(state) for _ in range(5)),
        "another": _another_seconds(state),
        "pending": _pending_seconds(nodes),
        "preemption": _preemption_seconds(state),
    }


def _gang_seconds(state: State) -> float:
    add_gang(state, "large", "high", 1000, {"cpu": 1, "memory": GIB})
    unit = state.units[Key("team", "large")]
    members = [each.member for each in standing(unit).first]
    ground, eligible = state.ground(), state.eligible_for(state.queues["high"])
    seconds, found = cpu_seconds(lambda: place(ground, members, eligible))
    assert found is not None
    _remove(state, "large")
    return seconds


def _another_seconds(state: State) -> float:
    """A whole round for one more gang of four, on a cluster that is as full as it gets."""
    state = _only_running(state)
    schedule(state, Policy(), NOW)
    add_gang(state, "another", "middle", GANG, {"cpu": 1, "memory": GIB})
    seconds, decisions = cpu_seconds(lambda: schedule(state, Policy(), NOW))
    assert len(decisions.starts) == 1
    _remove(state, "another")
    return seconds


def _remove(state: State, name: str) -> None:
    for uid in list(state.units[Key("team", name)].pods):
        state.remove_pod(uid)
    state.remove_group("team", name)


def _pending_seconds(nodes: int) -> float:
    """A round over a full queue, of many shapes, of which nothing fits."""
    state = cluster(nodes)
    for number in range(nodes * PODS_PER_NODE // GANG):
        asks = {"cpu": 65 + number % 7, "memory": GIB + (number % 500) * 2**20}
        add_gang(state, f"p{number}", ("low", "middle", "high")[number % 3], GANG, asks, number)
    seconds, decisions = cpu_seconds(lambda: schedule(state, Policy(), NOW))
    assert len(decisions.waiting) == nodes * PODS_PER_NODE // GANG
    return seconds


def _preemption_seconds(state: State) -> float:
    """A gang of 16 that needs a whole node each, where there is none."""
    state = _only_running(state)
    add_gang(state, "taker", "high", 16, {"cpu": 60, "memory": GIB})
    seconds, decisions = cpu_seconds(lambda: schedule(state, Policy(), NOW))
    assert decisions.evictions, "nobody makes way"
    return seconds


def _only_running(state: State) -> State:
    for key, unit in list(state.units.items()):
        if any(each.waits for each in unit.pods.values()):
            _remove(state, key.group)
    return state


def measure() -> list[Result]:
    """The figures of a cluster of 5,000 nodes and 50,000 pods; smaller ones beside it."""
    sizes = {nodes: measure_size(nodes) for nodes in GROWTH}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    largest = sizes[NODES]

    def growth(name: str, scale: float = 1.0) -> str:
        return "; ".join(f"{nodes} nodes: {sizes[nodes][name] * scale:.4g}" for nodes in GROWTH)

    return [
        Result(
            "schedule: placements", largest["placements"], 20_000, "/s", growth("placements"), at_least=True
        ),
        Result("schedule: a gang of 1,000", largest["gang"] * 1000, 5, "ms", growth("gang", 1000)),
        Result(
            "schedule: a round for one more gang",
            largest["another"] * 1000,
            10,
            "ms",
            growth("another", 1000),
        ),
        Result("schedule: 50,000 pending pods", largest["pending"], 2, "s", growth("pending")),
        Result(
            "schedule: a preemption plan", largest["preemption"] * 1000, 250, "ms", growth("preemption", 1000)
        ),
        Result("schedule: memory", memory, 1024, "MB"),
    ]


if __name__ == "__main__":
    for result in measure():
        print(result.line)
