"""Ranks of workers that share this machine use all of its CPUs, as under one mpirun."""

import json
import os
from typing import Any, Final

import pytest

from bireme.node.cgroups import Limits
from support.fixtures import unavailable
from support.here import Here, Object
from support.mpi_rounds import Case, build_job, find

pytestmark = pytest.mark.xdist_group("here")

VERSIONS: Final = ("5.0", "4.1")
CPUS: Final = len(os.sched_getaffinity(0))
FACTS: Final = """
import json
facts = {
    "rank": world.rank,
    "host": os.environ["HOSTNAME"],
    "cpus": sorted(os.sched_getaffinity(0)),
    "universe": world.Get_attr(MPI.UNIVERSE_SIZE),
    "yields": os.environ.get("OMPI_MCA_mpi_yield_when_idle"),
}
for text in world.gather(json.dumps(facts), 0) or ():
    print("facts", text, flush=True)
"""


def facts(here: Here, case: Case, arguments: tuple[str, ...] = (), **container: Any) -> list[Object]:
    """Run a job, and return what each of its ranks found, by rank."""
    if find(case[0]) is None:
        raise unavailable("no Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
    job = build_job("bound", FACTS, case)
    worker = job["spec"]["worker"]
    main = worker["template"]["spec"]["containers"][0]
    main["env"] = [*main["env"], *container.pop("env", [])]
    main.update(container)
    worker["extraMPIArgs"] = [*(arguments if "-np" in arguments else (*worker["extraMPIArgs"], *arguments))]
    status = here.play(job)
    output = here.output("bound-launcher", "mpi-launcher")
    assert status["phase"] == "Succeeded", output
    here.delete(job)
    lines = [line.removeprefix("facts ") for line in output.splitlines() if line.startswith("facts ")]
    return sorted((json.loads(line) for line in lines), key=lambda rank: int(rank["rank"]))


@pytest.mark.parametrize("version", VERSIONS)
def test_ranks_of_two_workers_may_use_every_cpu(here: Here, version: str) -> None:
    for rank in facts(here, (version, 2, 1)):
        assert rank["cpus"] == sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize("version", VERSIONS)
def test_bound_ranks_of_two_workers_use_different_cpus(here: Here, version: str) -> None:
    if CPUS < 2:
        raise unavailable("one CPU: two workers can't have different ones")
    if not Limits().can_pin:
        raise unavailable("no cgroup for CPUs: run the tests as root, or below a delegated cgroup")
    first, second = facts(here, (version, 2, 1), ("--bind-to", "core"))
    assert not set(first["cpus"]) & set(second["cpus"])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_binding_of_the_users_own_variables_wins(here: Here, version: str) -> None:
    name = {"4.1": "OMPI_MCA_hwloc_base_binding_policy", "5.0": "PRTE_MCA_hwloc_default_binding_policy"}
    ranks = facts(here, (version, 1, min(CPUS, 2)), env=[{"name": name[version], "value": "core"}])
    assert [len(rank["cpus"]) for rank in ranks] == [1] * min(CPUS, 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_universe_size_is_the_slots_of_the_workers(here: Here, version: str) -> None:
    ranks = facts(here, (version, 2, 3), ("-n", "1"))
    assert [rank["universe"] for rank in ranks] == [6]


@pytest.mark.parametrize("version", VERSIONS)
def test_ranks_yield_only_where_they_outnumber_the_cpus(here: Here, version: str) -> None:
    assert {rank["yields"] for rank in facts(here, (version, 1, CPUS))} == {None}
    assert {rank["yields"] for rank in facts(here, (version, 2, CPUS))} == {"1"}


@pytest.mark.parametrize("version", VERSIONS)
def test_oversubscribed_ranks_are_spread_over_the_workers(here: Here, version: str) -> None:
    ranks = facts(here, (version, 2, 3), ("-np", "5", "--oversubscribe"))
    assert [rank["host"][-1] for rank in ranks] == ["0", "0", "0", "1", "1"]
