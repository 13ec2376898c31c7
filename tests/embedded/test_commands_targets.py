"""Whom commands talk to, with real daemons: one of this machine, and one that plays the cluster.

The decision itself is tested in tests/unit/cli/test_target_choice.py.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.run.presence import wait_gone
from support.commands import Bireme, daemon
from support.terminals import PATIENCE_SECONDS

pytestmark = pytest.mark.xdist_group("commands")

STARTED = "started a daemon; it ends when it is idle for 30 s"
SLEEP = ("--replicas", "1", "--", "sleep", "1000")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bireme]:
    with daemon(tmp_path_factory.mktemp("cluster")) as commands:
        yield commands


@pytest.fixture
def laptop(tmp_path: Path, cluster: Bireme) -> Iterator[Bireme]:
    """A home without a daemon, whose ~/.kube/config leads to the cluster, as context `prod`."""
    commands = Bireme(tmp_path)
    config = json.loads((cluster.data / "kubeconfig").read_bytes())
    config["current-context"] = config["contexts"][0]["name"] = "prod"
    kubeconfig = commands.home / ".kube/config"
    kubeconfig.parent.mkdir()
    kubeconfig.write_text(json.dumps(config))
    yield commands
    commands.down()
    if jobs_of(cluster):
        cluster("delete", "--all", "--now", "--yes")


def jobs_of(bireme: Bireme) -> list[str]:
    return [line.rpartition("/")[2] for line in bireme("get", "-o", "name").stdout.split()]


def end_daemon(bireme: Bireme) -> None:
    """End the daemon as its idle timeout does: jobs and their output stay."""
    pid: int = json.loads((bireme.data / "daemon.json").read_bytes())["pid"]
    os.kill(pid, signal.SIGTERM)
    assert wait_gone(pid, PATIENCE_SECONDS)


def title_of(laptop: Bireme, cluster: Bireme) -> str:
    url = json.loads((cluster.data / "daemon.json").read_bytes())["url"]
    return f"{url} ({laptop.home}/.kube/config, context prod)"


def test_finished_jobs_are_still_there_after_the_daemon_has_ended(laptop: Bireme, cluster: Bireme) -> None:
    cluster("run", "-d", "--name", "mine", *SLEEP)
    first = laptop("run", "--name", "mine", "--replicas", "1", "--", "echo", "hello")
    local = f"on this machine ({laptop.data})"
    assert first.stderr.splitlines()[:2] == [local, STARTED]
    for command, output in (
        (("get", "-o", "name"), "genericjob.batch.tensorstack.dev/mine\n"),
        (("logs", "mine"), "worker-0 | hello\n"),
        (("delete", "mine"), "genericjob.batch.tensorstack.dev/mine deleted\n"),
    ):
        end_daemon(laptop)
        result = laptop(*command, KUBECONFIG=str(laptop.home / ".kube/config"))
        assert result.stdout == output
        assert result.stderr.splitlines()[:2] == [local, STARTED]
    assert jobs_of(laptop) == []
    assert jobs_of(cluster) == ["mine"]


def test_a_saved_choice_is_followed_until_another_one(laptop: Bireme, cluster: Bireme) -> None:
    cluster("run", "-d", "--name", "remote", *SLEEP)
    laptop("use", "prod")
    saved = laptop.home / ".config/bireme/target.json"
    assert saved.stat().st_mode & 0o777 == 0o600
    result = laptop("get", "-o", "name")
    assert result.stdout == "genericjob.batch.tensorstack.dev/remote\n"
    assert result.stderr == f"on {title_of(laptop, cluster)}\n"
    assert not laptop.data.exists()
    assert f"target:     context prod of {laptop.home}/.kube/config" in laptop("status", code=1).stdout
    assert "no jobs" in laptop("get", "--data-dir", str(laptop.data)).stderr
    laptop("use", "local")
    assert jobs_of(laptop) == []


@pytest.mark.parametrize(
    "command",
    [("delete", "kept"), ("delete", "--all"), ("delete", "--all", "--now"), ("pause", "kept")],
    ids=" ".join,
)
def test_nothing_is_destroyed_on_a_cluster_unasked(
    laptop: Bireme, cluster: Bireme, command: tuple[str, ...]
) -> None:
    cluster("run", "-d", "--name", "kept", *SLEEP)
    cluster("wait", "kept", "--for", "running")
    before = cluster("get", "gj/kept", "-o", "json").stdout
    title = title_of(laptop, cluster)
    for where in (("--context", "prod"), ("--kubeconfig", str(laptop.home / ".kube/config"))):
        refused = laptop(*command, *where, code=2)
        assert refused.stderr.startswith(f"on {title}\nerror: {command[0]}")
        assert f" on {title} must be confirmed, and there is no terminal to ask on\n" in refused.stderr
        assert refused.stderr.endswith("\nhint: --yes confirms it\n")
    laptop("use", "prod")
    laptop(*command, code=2)
    terminal = laptop.on_terminal(*command)
    terminal.expect("  genericjob.batch.tensorstack.dev/kept in namespace default\r\n")
    terminal.expect(f" on {title}? [y/N]: ")
    terminal.type("\n")
    assert terminal.end() == 1
    assert " nothing was " in terminal.text
    assert cluster("get", "gj/kept", "-o", "json").stdout == before


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["Ctrl-C", "Ctrl-D"])
def test_a_question_can_be_left(laptop: Bireme, cluster: Bireme, key: str) -> None:
    cluster("run", "-d", "--name", "spared", *SLEEP)
    terminal = laptop.on_terminal("delete", "spared", "--context", "prod")
    terminal.expect("? [y/N]: ")
    terminal.type(key)
    assert terminal.end() == (130 if key == "\x03" else 1)
    assert jobs_of(cluster) == ["spared"]


def test_a_yes_pauses_and_deletes_on_a_cluster(laptop: Bireme, cluster: Bireme) -> None:
    cluster("run", "-d", "--name", "gone", *SLEEP)
    where = ("--context", "prod")
    terminal = laptop.on_terminal("pause", "gone", *where)
    terminal.expect("stop all pods of 1 job on ")
    terminal.type("y\n")
    assert terminal.end() == 0
    cluster("wait", "gone", "--for", "paused")
    assert laptop("resume", "gone", *where).stdout.endswith("gone resumed\n")
    assert laptop("pause", "-y", "gone", *where).stdout.endswith("gone paused\n")
    terminal = laptop.on_terminal("delete", "gone", *where)
    terminal.expect("delete 1 object on ")
    terminal.type("yes\n")
    assert terminal.end() == 0
    assert jobs_of(cluster) == []
    assert not laptop.data.exists()


def test_run_replaces_a_job_on_a_cluster_only_with_consent(laptop: Bireme, cluster: Bireme) -> None:
    cluster("run", "--name", "again", "--replicas", "1", "--", "echo", "old")
    title = title_of(laptop, cluster)
    command = ("run", "-d", "--context", "prod", "--name", "again", "--image", "none", "--mpi", "1")
    refused = laptop(*command, "--", "true", code=2)
    told = f"replacing GenericJob again (Succeeded) in namespace default on {title} must be confirmed"
    assert told in refused.stderr
    terminal = laptop.on_terminal(*command, "--", "true")
    terminal.expect(f"delete and replace 1 finished job on {title}? [y/N]: ")
    terminal.type("n\n")
    assert terminal.end() == 1
    assert " nothing was sent\r\n" in terminal.text
    assert cluster("logs", "genericjob/again").stdout == "worker-0 | old\n"
    replaced = laptop(*command, "--yes", "--", "true")
    assert "GenericJob again of an earlier run (Succeeded) is replaced\n" in replaced.stderr
    assert replaced.stdout == "mpijob.batch.tensorstack.dev/again\n"
    assert jobs_of(cluster) == ["again"]


def test_delete_all_asks_on_this_machine_too(laptop: Bireme) -> None:
    laptop("run", "--name", "kept", "--replicas", "1", "--", "true")
    refused = laptop("delete", "--all", code=2)
    assert f"delete --all on this machine ({laptop.data}) must be confirmed" in refused.stderr
    terminal = laptop.on_terminal("delete", "--all")
    terminal.expect(f"delete 1 object on this machine ({laptop.data})? [y/N]: ")
    terminal.type("n\n")
    assert terminal.end() == 1
    assert jobs_of(laptop) == ["kept"]
    assert laptop("delete", "--all", "--yes").stdout.endswith("kept deleted\n")
    assert "no jobs in namespace default" in laptop("delete", "--all", "--yes").stderr


def test_a_daemons_kubeconfig_that_leads_to_a_cluster_is_refused(laptop: Bireme, cluster: Bireme) -> None:
    """As when a tool adds a cluster to the file that $KUBECONFIG names, and makes it the current one."""
    cluster("run", "-d", "--name", "remote", *SLEEP)
    laptop("up")
    own = laptop.data / "kubeconfig"
    before = json.loads(own.read_bytes())
    other = json.loads((laptop.home / ".kube/config").read_bytes())
    other["clusters"][0]["name"] = other["contexts"][0]["context"]["cluster"] = "prod"
    merged = {name: before[name] + other[name] for name in ("clusters", "users", "contexts")}
    own.write_text(json.dumps(before | merged | {"current-context": "prod"}))
    refused = laptop("delete", "--all", "--yes", code=1)
    assert f"error: {own} was changed: it leads to https://127.0.0.1:" in refused.stderr
    assert f"hint: `kubectl config --kubeconfig {own} use-context bireme`" in refused.stderr
    assert jobs_of(cluster) == ["remote"]
    own.write_text(json.dumps(before))
