"""Ranks of two workers on one node use all CPUs that they may use, in real containers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from support.manifests import mpi_job
from support.stage import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("e2e")]

BIREME: Final = Path(sys.executable).with_name("bireme")
FACTS: Final = """
import json
facts = {
    "host": MPI.Get_processor_name(),
    "cpus": sorted(os.sched_getaffinity(0)),
    "online": os.sysconf("SC_NPROCESSORS_ONLN"),
    "universe": world.Get_attr(MPI.UNIVERSE_SIZE),
    "yields": os.environ.get("OMPI_MCA_mpi_yield_when_idle"),
}
for text in world.gather(json.dumps(facts), 0) or ():
    print("facts", text, flush=True)
"""
LIMITED: Final = {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m"}}}


def facts(stage: Stage, image: str, container: dict[str, Any], slots: int) -> list[dict[str, Any]]:
    job = mpi_job("bound", stage.image(image), FACTS, slots=slots, container=container)
    del job["spec"]["mca"]
    stage.create(job)
    stage.wait_phase(job, "Succeeded")
    lines = [line for line in stage.logs("bound-launcher").splitlines() if line.startswith("facts ")]
    return [json.loads(line.removeprefix("facts ")) for line in lines]


@pytest.mark.parametrize("container", [{}, LIMITED], ids=["no limit", "half a CPU"])
@pytest.mark.parametrize("image", ["mpi4", "mpi5"])
def test_ranks_on_one_node_are_not_bound(stage: Stage, image: str, container: dict[str, Any]) -> None:
    ranks = facts(stage, image, container, slots=1)
    assert len({rank["host"] for rank in ranks}) == 2
    assert [len(rank["cpus"]) for rank in ranks] == [rank["online"] for rank in ranks]
    assert [rank["universe"] for rank in ranks] == [2, 2]


@pytest.mark.parametrize("image", ["mpi4", "mpi5"])
def test_ranks_yield_where_a_node_has_fewer_cpus(stage: Stage, image: str) -> None:
    slots = int(stage.items("nodes")[0]["status"]["capacity"]["cpu"])
    assert {rank["yields"] for rank in facts(stage, image, {}, slots)} == {"1"}


def test_standard_input_reaches_rank_0_on_a_cluster(stage: Stage) -> None:
    words = ["run", "--kubeconfig", str(stage.cluster.kubeconfig), "-n", stage.namespace, "--name", "reads"]
    count = "printf '%s %s\\n' $OMPI_COMM_WORLD_RANK $(wc -c); sleep 1"
    command = [str(BIREME), *words, "--mpi", "2", "--image", stage.image("mpi5"), "--", "sh", "-c", count]
    result = subprocess.run(command, input=b"x" * 1_000_000, capture_output=True, timeout=240, check=False)
    assert result.returncode == 0, result.stderr.decode()
    lines = result.stdout.decode().splitlines()
    assert {"launcher | 0 1000000", "launcher | 1 0"} <= set(lines), lines
