"""How a daemon is found: by its lock first, then by what it says of itself."""

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from bireme.apiserver.serving.folder import Folder, build_kubeconfig
from bireme.node.folders import ROOT
from bireme.run import leftovers
from bireme.run.presence import Daemon, StartError, find, read_token, wait_gone, write_card

STARTED = datetime(2026, 1, 1, tzinfo=UTC)


def daemon(folder: Path, pid: int) -> Daemon:
    return Daemon(pid, "https://127.0.0.1:1", str(folder / "kubeconfig"), STARTED)


def test_looking_for_a_daemon_makes_no_folder(tmp_path: Path) -> None:
    assert find(tmp_path / "nowhere") is None
    assert not (tmp_path / "nowhere").exists()


def test_what_a_dead_daemon_said_counts_no_more(tmp_path: Path) -> None:
    with Folder(tmp_path).locked():
        pass
    write_card(tmp_path, daemon(tmp_path, os.getpid()))
    assert find(tmp_path) is None


def test_a_daemon_is_who_holds_the_lock_and_says_so(tmp_path: Path) -> None:
    with Folder(tmp_path).locked():
        write_card(tmp_path, daemon(tmp_path, os.getpid()))
        assert find(tmp_path) == daemon(tmp_path, os.getpid())


@pytest.mark.parametrize("card", [None, "another", "broken"])
def test_a_holder_that_runs_no_jobs_is_named(tmp_path: Path, card: str | None) -> None:
    if card == "another":
        write_card(tmp_path, daemon(tmp_path, 1))
    elif card == "broken":
        (tmp_path / "daemon.json").write_text("{")
    with (
        Folder(tmp_path).locked(),
        pytest.raises(StartError, match=f"in use by process {os.getpid()}, which runs no jobs"),
    ):
        find(tmp_path)


def test_a_process_can_be_waited_for() -> None:
    with subprocess.Popen(["true"]) as ended:
        assert wait_gone(ended.pid, 10)
    assert not wait_gone(os.getpid(), 0)


SLEEP = "import time; print(flush=True); time.sleep(1000)"
OURS = f"import sys; sys.path.insert(0, sys.argv[1]); import bireme.node.shim.tree; {SLEEP}"


@pytest.mark.parametrize(
    ("program", "told", "variables", "is_left", "is_counted"),
    [
        (OURS, "{folder}/node/pods", {}, True, True),
        (SLEEP, "elsewhere", {"BIREME_PODS": "{folder}/node/names/default"}, True, True),
        (SLEEP, "elsewhere", {"BIREME_POD_UID": "{uid}"}, True, True),
        (OURS, "{folder}/node/networks/{uid}", {}, True, False),
        (OURS, "{folder}/nodes", {"BIREME_PODS": "{folder}/nodes/names/default"}, False, False),
        (
            SLEEP,
            "{folder}/node/pods/{uid}/output/main/0.log",
            {"OLDPWD": "{folder}/node/pods/{uid}"},
            False,
            False,
        ),
        (SLEEP, "elsewhere", {"BIREME_POD_UID": "another"}, False, False),
    ],
    ids=["shim", "process", "container", "network", "other folder", "bystander", "other pod"],
)
def test_what_pods_left_is_found_and_ended_and_nobody_else(
    tmp_path: Path, program: str, told: str, variables: dict[str, str], is_left: bool, is_counted: bool
) -> None:
    # Not the pod of another test, which may run right now.
    uid = uuid4().hex
    (tmp_path / f"node/pods/{uid}").mkdir(parents=True)
    command = [sys.executable, "-I", "-S", "-c", program, str(ROOT), told.format(folder=tmp_path, uid=uid)]
    env = {name: value.format(folder=tmp_path, uid=uid) for name, value in variables.items()}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert leftovers.find(tmp_path) == [process.pid] * is_left
            assert leftovers.end(tmp_path, 0) == is_counted
            assert process.poll() is None or is_left
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda text: text, "secret"),
        (lambda text: text.replace('"namespace": "default"', '"namespace": "mine"'), None),
        (lambda _text: "apiVersion: v1\nkind: Config\n", None),
        (lambda _text: "{}", None),
    ],
    ids=["as it was written", "another namespace", "rewritten as YAML", "empty"],
)
def test_the_token_is_taken_from_a_kubeconfig_that_nobody_changed(
    tmp_path: Path, change: Callable[[str], str], expected: str | None
) -> None:
    near = msgspec.structs.replace(daemon(tmp_path, 1), socket=str(tmp_path / "api.sock"))
    written = build_kubeconfig(near.url, b"authority", "secret").decode()
    Path(near.kubeconfig).write_text(change(written))
    assert read_token(near) == expected
    assert read_token(daemon(tmp_path, 1)) is None, "one without a socket is reached as any cluster"
