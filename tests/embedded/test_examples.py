"""Every file of examples/ on a machine without labels, GPUs or a cluster: it ends, as its reader is told.

torchrun is a stand-in unless PyTorch is installed; tests/torch runs the real one.
"""

import importlib.metadata
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import yaml

from bireme.cli.manifests import is_job
from support.commands import EXAMPLES, Bireme
from support.here import eventually
from support.terminals import PATIENCE_SECONDS

pytestmark = pytest.mark.xdist_group("examples")

FILES: Final = sorted(path.name for path in EXAMPLES.iterdir() if path.is_file())
HAS_TORCH: Final = any(each.name == "torch" for each in importlib.metadata.distributions())
RANKS: Final = (0, 1)
TORCHRUN: Final = "#!/bin/sh\ngrep -q gloo train.py && echo torchrun $*\n"


class Expected(NamedTuple):
    """Lines that are shown, as regular expressions, and what is said beside them."""

    lines: tuple[str, ...] = ()
    talk: tuple[str, ...] = ()


TORCHRUN_LINE: Final = (
    r"launcher \| torchrun --nnodes=2 --node_rank={} --nproc_per_node=2 --master_addr=\S+ --master_port=\d+ "
    r"--max_restarts 0 train.py --epochs 3"
)
EXPECTED: Final = {
    "colossalaijob.yaml": Expected(
        tuple(rf"launcher \| epoch {epoch}: weight \d\.\d\d" for epoch in range(3))
        if HAS_TORCH
        else tuple(TORCHRUN_LINE.format(rank) for rank in (0, 1))
    ),
    "genericjob-pause.yaml": Expected(
        tuple(rf"trainer-{rank} \| step {step} of 10" for rank in (0, 1) for step in range(1, 11))
    ),
    "genericjob-rules.yaml": Expected((r"master-0 \| master master 0",)),
    "genericjob-services.yaml": Expected(
        tuple(rf"worker-{rank} \| worker {rank} of 2: 200" for rank in (0, 1))
    ),
    "mpijob-checkpoint.yaml": Expected(
        tuple(
            rf"launcher \| rank {rank} {words}"
            for rank in RANKS
            for words in ("begins after step 0", "did all 20 steps")
        )
    ),
    "mpijob-hello.yaml": Expected(
        tuple(rf"launcher \| rank {rank} of 4 on hello-worker-{rank // 2}: sum 6" for rank in range(4))
    ),
    "mpijob-kubeflow.yaml": Expected(tuple(rf"launcher \| rank {rank}" for rank in range(4))),
    "mpijob-tuned.yaml": Expected(
        tuple(rf"launcher \| rank {rank} of 4: 4 threads, 0 files in /data" for rank in range(4)),
        (
            "note: mpiHome /usr/local has no Open MPI on this machine: that of PATH is used",
            "note: workingDir /opt/solver is not on this machine: {work} is used",
        ),
    ),
    "pi.py": Expected(
        tuple(
            rf"launcher \| rank {rank} of 4 on pi-\w+-worker-{rank // 2}: "
            r"my part 0.785\d+, all together 3.141592654"
            for rank in range(4)
        )
    ),
    "podgroup.yaml": Expected((), ("applied PodGroup by-hand",)),
    "queue.yaml": Expected(
        tuple(rf"worker-{rank} \| together or not at all" for rank in range(4)), ("applied Queue research",)
    ),
}


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bireme]:
    """A daemon as `bireme up` starts it."""
    bireme = Bireme(tmp_path_factory.mktemp("examples"))
    bireme("up")
    yield bireme
    bireme.assert_deleted_jobs_leave_nothing()
    bireme.down()


@pytest.fixture(scope="module")
def path(laptop: Bireme) -> str:
    """PATH, with a torchrun in front unless there is one in this environment."""
    if HAS_TORCH:
        return laptop.environment()["PATH"]
    folder = laptop.work / "bin"
    folder.mkdir()
    (folder / "torchrun").write_text(TORCHRUN)
    (folder / "torchrun").chmod(0o755)
    return f"{folder}:{laptop.environment()['PATH']}"


def arguments(file: Path) -> tuple[str, ...]:
    """How a file is run: a manifest as it is, a program as its first lines say."""
    if file.suffix == ".yaml":
        return ("run", "-f", str(file))
    (line,) = (line for line in file.read_text().splitlines() if line.startswith("bireme run "))
    return tuple(line.replace(f"examples/{file.name}", str(file)).split()[1:])


def jobs_in(file: Path) -> list[str]:
    if file.suffix != ".yaml":
        return [file.stem]
    return [each["metadata"]["name"] for each in yaml.safe_load_all(file.read_text()) if is_job(each)]


@pytest.mark.parametrize("name", FILES)
def test_an_example_ends_on_a_laptop(laptop: Bireme, path: str, name: str) -> None:
    expected = EXPECTED[name]
    result = laptop(*arguments(EXAMPLES / name), PATH=path)
    for job in jobs_in(EXAMPLES / name):
        assert re.search(rf"^{job}(-\w+)?: Succeeded after ", result.stderr, re.MULTILINE), result.stderr
    shown = [re.sub(r" +\|", " |", line) for line in result.stdout.splitlines()]
    for line in expected.lines:
        assert sum(bool(re.fullmatch(line, each)) for each in shown) == 1, f"{line}\n{result.stdout}"
    for text in expected.talk:
        assert result.stderr.count(text.format(work=laptop.work)) == 1, result.stderr


def commands_of(name: str) -> list[str]:
    """The commands in the comment of an example that is run, paused, resumed and read."""
    lines = (EXAMPLES / name).read_text().splitlines()
    commands = [line.removeprefix("#").strip() for line in lines if line.startswith("#     bireme")]
    assert [command.split()[1] for command in commands] == ["run", "pause", "resume", "logs"]
    return [command.replace("examples/", f"{EXAMPLES}/") for command in commands]


def test_the_commands_in_the_example_of_a_pause_work(laptop: Bireme) -> None:
    laptop("delete", "pausable", code=None)
    run, pause, resume, logs = commands_of("genericjob-pause.yaml")
    laptop.sh(run)
    laptop("wait", "pausable", "--for", "running", "--timeout", "3m")
    assert "pausable paused" in laptop.sh(pause).stdout
    assert "pausable" not in laptop("get", "pods", "-o", "name").stdout
    laptop.sh(resume)
    shown = laptop.sh(logs).stdout.splitlines()
    assert sorted(shown) == [f"trainer-{rank} | going on from the last checkpoint" for rank in (0, 1)]


def test_ranks_of_the_example_of_a_checkpoint_save_and_go_on(laptop: Bireme) -> None:
    laptop("delete", "saving", code=None)
    run, pause, resume, logs = commands_of("mpijob-checkpoint.yaml")
    laptop.sh(run)
    eventually(lambda: laptop("logs", "saving", code=None).stdout.count("begins after step 0") == len(RANKS))
    laptop.sh(pause)
    saved = [(laptop.work / f"saving-{rank}.txt").read_text() for rank in RANKS]
    assert len(set(saved)) == 1
    laptop.sh(resume)
    shown = laptop.sh(logs).stdout
    for rank in RANKS:
        assert f"rank {rank} begins after step {saved[rank]}\n" in shown
        assert f"rank {rank} did all 20 steps\n" in shown


def test_the_guide_shows_the_program_of_the_example_of_a_checkpoint() -> None:
    guide = (EXAMPLES.parent / "docs/guides/cluster-jobs.md").read_text()
    (shown,) = re.findall(r"^```python\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    job = yaml.safe_load((EXAMPLES / "mpijob-checkpoint.yaml").read_text())
    assert shown in job["spec"]["worker"]["cmd"][-1]


def test_run_says_that_a_job_is_paused_and_then_what_it_prints(laptop: Bireme) -> None:
    text = (EXAMPLES / "genericjob-pause.yaml").read_text().replace("enabled: false", "enabled: true")
    manifest = laptop.work / "paused.yaml"
    manifest.write_text(text)
    process = laptop.start("run", "-f", str(manifest))
    assert process.stdout is not None
    assert process.stderr is not None
    while "pausable is paused: it goes on after `bireme resume pausable`" not in (
        line := process.stderr.readline()
    ):
        assert line, "it ended"
    laptop("resume", "pausable")
    shown = sorted(process.stdout.readline() for _ in range(2))
    assert shown == [f"trainer-{rank} | training from the start\n" for rank in (0, 1)]
    laptop("delete", "pausable", "--now")
    _, talk = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, "pausable: deleted by somebody else\n" in talk) == (1, True), talk
