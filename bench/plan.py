"""How long one pass of planning takes, and how that grows with the number of replicas."""

import statistics
import time
from collections.abc import Callable

from bench.measurement import Result
from bireme.planning import plan
from bireme.planning.observed import Job
from bireme.testing.builders import generic_job, mpi_job, replicas
from bireme.testing.model import ModelCluster

LIMIT_1000_MS, LIMIT_9_MS, LIMIT_GROWTH = 25.0, 0.5, 1.5


def _generic(count: int) -> Job:
    template = {
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/main:1",
                    "command": ["run", "--rank", "$(rank)", "--of", "$(replicas[worker])"],
                    "env": [{"name": f"V{index}", "value": "x"} for index in range(10)],
                }
            ]
        }
    }
    return generic_job(replicas("worker", count, template=template), service={"ports": [{"port": 80}]})


def _mpi(count: int) -> Job:
    return mpi_job(count - 1)


def _milliseconds(cluster: ModelCluster, runs: int) -> float:
    observed, now = cluster.observed(), cluster.now
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        plan(observed, now)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def _first_pass(job: Job) -> ModelCluster:
    return ModelCluster(job)


def _steady(job: Job) -> ModelCluster:
    cluster = ModelCluster(job)
    cluster.settle()
    cluster.run()
    cluster.settle()
    return cluster


def measure(*, runs: int = 15) -> list[Result]:
    """The first pass, which builds every child, and a pass in which nothing has changed."""
    results: list[Result] = []
    kinds: dict[str, Callable[[int], Job]] = {"GenericJob": _generic, "MPIJob": _mpi}
    passes: dict[str, Callable[[Job], ModelCluster]] = {"first pass": _first_pass, "steady pass": _steady}
    for kind, build in kinds.items():
        for name, prepare in passes.items():
            small, large = (_milliseconds(prepare(build(count)), runs) for count in (9, 1000))
            double = _milliseconds(prepare(build(2000)), max(3, runs // 3))
            growth = f"{kind}, {name}: time per replica, 2,000 ÷ 1,000"
            results += [
                Result(f"plan a {kind} of 9 replicas, {name}", small, LIMIT_9_MS, "ms"),
                Result(f"plan a {kind} of 1,000 replicas, {name}", large, LIMIT_1000_MS, "ms"),
                Result(growth, double / large / 2, LIMIT_GROWTH, "×"),
            ]
    return results
