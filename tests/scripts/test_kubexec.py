"""mpirun reaches the workers of a Kubeflow MPIJob through kubectl; the one here goes through ssh."""

from pathlib import Path
from typing import Final

import pytest

from scripts.jobs import MakeJob
from scripts.mpi import ARGUMENTS, RANK, Rank, hosts, mpirun

KUBECTL: Final = """#!/bin/sh
printf '%s\\0' "$@" >"/mnt/output/kubectl.$2"
pod=$2
while [ "$1" != -- ]; do shift; done
[ "$2 $3 $#" = '/bin/sh -c 4' ] && exec ssh -F /mnt/ssh/config "$pod" "$4"
"""
AGENT: Final = "/bin/sh /mnt/bireme/kubexec"
ENV: Final = {
    "BIREME_KUBECTL": "/mnt/work/kubectl",
    "BIREME_MAIN_CONTAINER": "main",
    "OMPI_MCA_plm_rsh_agent": AGENT,
    "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
    "PRTE_MCA_plm_ssh_agent": AGENT,
    "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


def words(file: Path) -> list[str]:
    return file.read_text().split("\0")[:-1]


def write_program(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o555)


@pytest.mark.parametrize("shell", ["dash", "ash"])
@pytest.mark.parametrize("version", ["4.1", "5.0"])
def test_mpirun_starts_its_daemons_through_kubectl(make_job: MakeJob, version: str, shell: str) -> None:
    job = make_job(shell)
    for worker in job.workers:
        (worker.volume("bireme") / "kubexec").unlink()
    write_program(job.launcher.volume("work") / "kubectl", KUBECTL)
    job.start_workers()
    job.launch("true").ok()
    command = (mpirun(version), *hosts(job), "/bin/sh", "-c", RANK, "rank", *ARGUMENTS)
    job.launcher.start(*command, env=ENV).ok()
    for number, worker in enumerate(job.workers):
        *start, script = words(job.output / f"kubectl.{worker.name}")
        assert start == ["exec", worker.name, "-c", "main", "--", "/bin/sh", "-c"]
        assert ("orted" if version == "4.1" else "prted") in script
        assert Rank(job, number).arguments == list(ARGUMENTS)
        assert Rank(job, number).facts[0] == worker.name


@pytest.mark.parametrize("shell", ["dash", "ash"])
def test_words_are_joined_as_ssh_joins_them(make_job: MakeJob, shell: str) -> None:
    pod = make_job(shell, workers=0).launcher
    write_program(pod.volume("work") / "kubectl", "#!/bin/sh\nprintf '<%s>' \"$@\"; exit 5")
    env = {"BIREME_KUBECTL": "/mnt/work/kubectl"}
    container = pod.start(*AGENT.split(), "w-0", "X='a  b';", "echo", '"$X"', "", "end", env=env)
    assert container.wait() == 5
    assert container.stdout == "<exec><w-0><--></bin/sh><-c><X='a  b'; echo \"$X\"  end>"
