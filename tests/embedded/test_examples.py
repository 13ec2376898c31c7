"""Every file of examples/ to its expected end, as `bireme run` shows it.

What this machine need not have is a stand-in: four GPUs that `nvidia-smi` tells of, the CPUs, the memory and
the label of the nodes that the queue `research` is for, torchrun (the real one runs in tests/torch), and the
solver of mpijob-tuned.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import yaml

from support.commands import EXAMPLES, Bireme
from support.terminals import PATIENCE_SECONDS

pytestmark = pytest.mark.xdist_group("examples")

STAND_INS: Final = {
    "bin/nvidia-smi": "printf 'GPU-%s\\n' a b c d",
    "bin/torchrun": 'echo "torchrun $* on $CUDA_VISIBLE_DEVICES"',
    # Open MPI 5.0 at times hangs after programs that end before all nodes have started theirs.
    "solver": 'sleep 1; echo "solver $* with $OMP_NUM_THREADS threads, $LOG_LEVEL, of $OMPI_COMM_WORLD_SIZE"',
}


class Play(NamedTuple):
    """Lines that are shown, as regular expressions, and what is said beside them."""

    lines: tuple[str, ...] = ()
    talk: tuple[str, ...] = ()


TRAIN: Final = r"launcher | torchrun --nnodes=2 --node_rank={0} --nproc_per_node=2 --master_addr=\S+ "
PLAYS: Final = {
    "colossalaijob": Play(
        tuple(
            (
                TRAIN.replace("|", r"\|")
                + r"--master_port=\d+ --max-restarts 0 train.py --epochs 3 on GPU-\w,GPU-\w"
            ).format(rank)
            for rank in (0, 1)
        ),
        ("note: workingDir /workspace is not on this machine: {work} is used", "train: Succeeded"),
    ),
    "genericjob-rules": Play((r"master-0 \| master master 0",), ("rules: Succeeded",)),
    "genericjob-services": Play(
        tuple(rf"worker-{rank} \| worker {rank} of 2: 200" for rank in (0, 1)), ("greeting: Succeeded",)
    ),
    "mpijob-hello": Play(
        tuple(rf"launcher \| rank {rank} of 4 on hello-worker-{rank // 2}: sum 6" for rank in range(4)),
        ("hello: Succeeded",),
    ),
    "mpijob-kubeflow": Play(
        tuple(rf"launcher \| rank {rank}" for rank in range(4)), ("kubeflow-hello: Succeeded",)
    ),
    "mpijob-tuned": Play(
        (r"launcher \| solver --input /data/mesh.h5 with 4 threads, info, of 32",) * 32,
        (
            "note: mpiHome /usr/local has no Open MPI on this machine: that of PATH is used",
            "note: workingDir /opt/solver is not on this machine: {work} is used",
            "tuned: Succeeded",
        ),
    ),
    "podgroup": Play((), ("applied PodGroup by-hand",)),
    "queue": Play(
        tuple(rf"worker-{rank} \| together or not at all" for rank in range(4)),
        ("applied Queue research", "queued: Succeeded"),
    ),
}


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bireme]:
    """A daemon that finds the stand-ins."""
    bireme = Bireme(tmp_path_factory.mktemp("examples"))
    for name, script in STAND_INS.items():
        place = bireme.work / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/sh\n{script}\n")
        place.chmod(0o755)
    bireme("up", "--cpu", "256", "--memory", "1Ti", PATH=path_of(bireme))
    node = bireme("get", "nodes", "-o", "name").stdout.strip().removeprefix("node/")
    labelled = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": {"pool": "gpu"}}}
    queue = (EXAMPLES / "queue.yaml").read_text().partition("---")[0]
    bireme("apply", "-y", "-f", "-", input=f"{queue}---\n{yaml.safe_dump(labelled)}")
    yield bireme
    bireme.assert_deleted_jobs_leave_nothing()
    bireme.down()


def path_of(bireme: Bireme) -> str:
    return f"{bireme.work}/bin:{bireme.environment()['PATH']}"


PAUSABLE: Final = Path(EXAMPLES / "genericjob-pause.yaml")
"""It waits for its user: tests of its own play one."""
ENDING: Final = sorted(path.stem for path in EXAMPLES.glob("*.yaml") if path != PAUSABLE)


@pytest.mark.parametrize("name", ENDING)
def test_an_example_comes_to_its_end(laptop: Bireme, name: str) -> None:
    play = PLAYS[name]
    result = laptop("run", "-f", str(EXAMPLES / f"{name}.yaml"), PATH=path_of(laptop))
    shown = [re.sub(r" +\|", " |", line) for line in result.stdout.splitlines()]
    for line in set(play.lines):
        found = [each for each in shown if re.fullmatch(line, each)]
        assert len(found) == play.lines.count(line), f"{line}\n{result.stdout}"
    for text in play.talk:
        assert result.stderr.count(text.format(work=laptop.work)) == 1, result.stderr
    gpus = re.findall(r"GPU-\w", result.stdout)
    assert len(set(gpus)) == len(gpus), f"one for two:\n{result.stdout}"


def test_run_shows_that_the_example_of_a_pause_waits_and_then_what_it_prints(laptop: Bireme) -> None:
    process = laptop.start("run", "-f", str(PAUSABLE))
    assert process.stdout is not None
    assert process.stderr is not None
    while "pausable is paused: it goes on after `bireme resume pausable`" not in (
        line := process.stderr.readline()
    ):
        assert line, "it ended"
    text = PAUSABLE.read_text().replace("enabled: true", "enabled: false")
    laptop("apply", "-y", "-f", "-", input=text)
    shown = sorted(process.stdout.readline() for _ in range(2))
    assert shown == [f"trainer-{rank} | training from the start\n" for rank in (0, 1)]
    laptop("delete", "pausable", "--now")
    _, talk = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, "pausable: deleted by somebody else\n" in talk) == (1, True), talk


def test_the_example_of_a_pause_waits_runs_and_goes_on_with_another_command(laptop: Bireme) -> None:
    manifest = yaml.safe_load(PAUSABLE.read_text())

    def apply(*, paused: bool) -> None:
        manifest["spec"]["runMode"]["pause"]["enabled"] = paused
        laptop("apply", "-y", "-f", "-", input=yaml.safe_dump(manifest))

    apply(paused=True)
    laptop("wait", "pausable", "--for", "paused", "--timeout", "3m")
    assert "pausable" not in laptop("get", "pods", "-o", "name").stdout
    apply(paused=False)
    laptop("wait", "pausable", "--for", "running", "--timeout", "3m")
    apply(paused=True)
    laptop("wait", "pausable", "--for", "paused", "--timeout", "3m")
    apply(paused=False)
    laptop("wait", "pausable", "--timeout", "3m")
    said = laptop("logs", "pausable").stdout.splitlines()
    assert sorted(said) == [f"trainer-{rank} | going on from the last checkpoint" for rank in (0, 1)]
