"""GPUs of a machine that only says that it has some: who gets which, also after a restart."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bireme.node.machine import look
from support.here import Here, Object, eventually, generic, replica, shell

SAY = "echo $CUDA_VISIBLE_DEVICES"


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Here]:
    """A machine with three GPUs."""
    made = Here(tmp_path, msgspec.structs.replace(look(), gpus=("GPU-a", "GPU-b", "GPU-c")))
    made.start()
    yield made
    made.clear()
    made.stop()


def one(name: str, script: str) -> Object:
    """A container with a GPU of its own."""
    return shell(name, script, resources={"limits": {"nvidia.com/gpu": "1"}})


def is_running(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running"


def test_gpus_of_a_pod_that_runs_stay_its_own_over_a_restart(three: Here) -> None:
    both = [one("main", f"{SAY}; sleep 1000"), one("other", f"{SAY}; sleep 1000")]
    three.create(generic("first", replica("a", "", containers=both)))
    three.until_pod("first-a-0", is_running)
    eventually(lambda: bool(three.output("first-a-0") and three.output("first-a-0", "other")))
    three.restart()
    assert (
        three.play(generic("second", replica("a", "", containers=[one("main", SAY)])))["phase"] == "Succeeded"
    )
    given = [three.output("first-a-0"), three.output("first-a-0", "other"), three.output("second-a-0")]
    assert sorted(given) == ["GPU-a\n", "GPU-b\n", "GPU-c\n"]


def test_a_pod_uses_the_gpus_of_its_init_containers_again(three: Here) -> None:
    names = ("main", "second", "third")
    mains = [one(name, f"{SAY}; sleep 1000") for name in names]
    three.create(generic("reuse", replica("a", "", containers=mains, initContainers=[one("init", SAY)])))
    three.until_pod("reuse-a-0", is_running)
    eventually(lambda: all(three.output("reuse-a-0", name) for name in names))
    given = [three.output("reuse-a-0", name) for name in names]
    assert sorted(given) == ["GPU-a\n", "GPU-b\n", "GPU-c\n"]
    assert three.output("reuse-a-0", "init") in given
