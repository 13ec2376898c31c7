"""Which lines start a daemon of Open MPI 5, and what is made of them."""

import pytest

from bireme.node.prrte import RANK_PROGRAM, name_daemon

BEFORE = "PRTE_PREFIX=/mpi;export PRTE_PREFIX;/mpi/bin/prted --daemonize"
AFTER = '--prtemca ess_base_vpid 1 --prtemca ess_base_num_procs "3"'


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (f'{BEFORE} --prtemca ess "env" {AFTER}', f"{BEFORE} {{}} {AFTER}"),
        (f"{BEFORE} --prtemca ess env {AFTER}", f"{BEFORE} {{}} {AFTER}"),
        (f'( {BEFORE} --prtemca ess "env" {AFTER} )', f"( {BEFORE} {{}} {AFTER} )"),
    ],
    ids=["quoted", "plain", "in a subshell"],
)
def test_a_daemon_gets_the_name_of_its_worker(line: str, named: str) -> None:
    changed, variables = name_daemon(line, "sum-worker-0")
    assert changed == named.format("--prtemca ess slurm --prtemca odls_base_exec_agent bireme-rank")
    assert variables["SLURMD_NODENAME"] == "sum-worker-0"
    assert variables["SLURM_NODEID"] == "0"
    (unset,) = (text for text in RANK_PROGRAM.splitlines() if text.startswith("unset "))
    assert set(unset.split()[1:]) == set(variables)


@pytest.mark.parametrize(
    "line",
    [
        'orted -mca ess "env" -mca ess_base_vpid 1 -mca ess_base_num_procs "3" ',
        f'{BEFORE} --prtemca ess "env" --prtemca ess_base_num_procs "2" --prtemca ess_base_vpid 1',
        "echo env",
    ],
    ids=["of Open MPI 4.1", "the only one", "something else"],
)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert name_daemon(line, "sum-worker-0") == (line, {})
