"""What the daemon makes of the records that shims have left."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bireme.node import shims
from bireme.node.folders import PodFolder
from bireme.node.shim.records import boot_id
from bireme.node.shim.tree import read_process

WHOLE = {"shim": {"pid": 1, "start": 1, "boot": "b"}, "containers": {}}


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (json.dumps(WHOLE), WHOLE),
        ("", None),
        ("\0" * 64, None),
        (json.dumps(WHOLE)[:-5], None),
        ("[]", None),
        ("{}", None),
        ("null", None),
    ],
    ids=["whole", "empty", "zeros", "cut off", "a list", "nothing in it", "null"],
)
def test_a_record_is_read_whole_or_not_at_all(tmp_path: Path, text: str, state: object) -> None:
    folder = PodFolder(tmp_path)
    folder.state.write_text(text)
    assert shims.read_state(folder) == state


def test_no_record_is_no_state(tmp_path: Path) -> None:
    assert shims.read_state(PodFolder(tmp_path)) is None


@pytest.fixture
def bystander() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


def record(pid: int, *, later: int = 0, **fields: Any) -> dict[str, Any]:
    process = read_process(pid)
    assert process is not None
    return {"attempt": 0, "started": 0.0, "pid": pid, "start": process.start + later, **fields}


def state_with(container: dict[str, Any], boot: str = "") -> dict[str, Any]:
    shim = {"pid": container["pid"], "start": container["start"], "boot": boot or boot_id()}
    return {"shim": shim, "containers": {"main": container}}


def test_what_is_left_of_a_pod_is_killed(bystander: "subprocess.Popen[bytes]") -> None:
    assert shims.sweep("none", state_with(record(bystander.pid))) == 1
    assert bystander.wait(30) == -9


@pytest.mark.parametrize(
    ("fields", "boot"),
    [({"later": 1}, ""), ({}, "another"), ({"finished": 1.0}, "")],
    ids=["another start", "another boot", "it had ended"],
)
def test_a_process_that_is_not_the_pods_any_more_is_left_alone(
    bystander: "subprocess.Popen[bytes]", fields: dict[str, Any], boot: str
) -> None:
    assert shims.sweep("none", state_with(record(bystander.pid, **fields), boot)) == 0
    assert bystander.poll() is None


def test_nobody_waits_for_a_shim_whose_number_another_process_has(
    bystander: "subprocess.Popen[bytes]",
) -> None:
    shims.clear("none", state_with(record(bystander.pid, later=1)))
    assert bystander.poll() is None


def test_nobody_waits_for_ever_for_a_process_that_can_not_be_killed(caplog: pytest.LogCaptureFixture) -> None:
    """Such as one that waits for a device: a signal reaches it when that has answered."""
    shims.clear("none", None, sweep=lambda _uid, _state: 1, end_seconds=0.05, kill_seconds=0.05)
    assert "do not end" in caplog.text
