"""`bireme apply`, `get`, `logs`, `wait` and `delete` against the daemon."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.commands import EXAMPLES, Bireme, Terminal

pytestmark = pytest.mark.xdist_group("commands")

GUIDE = Path(__file__).parents[2] / "docs/guides/run.md"


@pytest.fixture(scope="module")
def talker(bireme: Bireme) -> Iterator[str]:
    """A job with two replicas that have said three lines, and go on."""
    script = "for i in 1 2 3; do echo $(rank) says $i; done; sleep 1000"
    bireme("run", "-d", "--name", "talker", "--replicas", "2", "--", "sh", "-c", script)
    bireme("wait", "talker", "--for", "running", "--timeout", "30s")
    yield "talker"
    bireme("delete", "talker", "--now")


def test_apply_creates_then_changes_then_has_nothing_to_do(bireme: Bireme) -> None:
    text = (EXAMPLES / "genericjob-pause.yaml").read_text()
    assert (
        bireme("apply", "-f", "-", input=text).stdout == "genericjob.batch.tensorstack.dev/pausable created\n"
    )
    assert bireme("apply", "-f", "-", input=text).stdout.endswith("pausable unchanged\n")
    bireme("wait", "pausable", "--for", "paused", "--timeout", "20s")
    changed = text.replace("enabled: true", "enabled: false")
    assert bireme("apply", "-f", "-", input=changed).stdout.endswith("pausable changed\n")
    bireme("wait", "pausable", "--for", "condition=Running", "--timeout", "20s")
    assert bireme("delete", "-f", "-", input=text).stdout.endswith("pausable deleted\n")


def test_apply_shows_the_change_on_a_terminal_and_asks(bireme: Bireme) -> None:
    manifest = bireme.work / "settings.yaml"
    manifest.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: asked}\ndata: {word: before}\n")
    bireme("apply", "-f", str(manifest))
    manifest.write_text(manifest.read_text().replace("before", "after"))
    terminal = Terminal(bireme, ["apply", "-f", str(manifest)])
    terminal.expect("+  word: after")
    terminal.expect("apply this?")
    terminal.type("n\n")
    assert terminal.end() == 1
    assert yaml.safe_load(bireme("get", "cm/asked", "-o", "yaml").stdout)["data"] == {"word": "before"}


def test_get_prints_tables_and_objects(bireme: Bireme, talker: str) -> None:
    table = bireme("get", "gj", talker).stdout.splitlines()
    assert table[0].split() == ["NAME", "PHASE", "RUNNING", "SUCCEEDED", "FAILED", "AGE"]
    assert table[1].split()[:3] == [talker, "Running", "2"]
    assert "QUEUE" in bireme("get", "gj", talker, "-o", "wide").stdout
    assert f"genericjob.batch.tensorstack.dev/{talker}\n" in bireme("get", "-o", "name").stdout
    found = yaml.safe_load(bireme("get", "gj", talker, "-o", "yaml").stdout)
    assert found["metadata"]["name"] == talker
    assert "managedFields" not in found["metadata"]
    listed = json.loads(bireme("get", "pods", "-o", "json", "-l", f"genericjob={talker}").stdout)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["talker-worker-0", "talker-worker-1"]


def test_get_knows_kinds_that_only_the_server_knows(bireme: Bireme) -> None:
    assert "default" in bireme("get", "namespaces").stdout
    assert "no kind is named nonsense" in bireme("get", "nonsense", code=1).stderr


def test_logs_of_a_job_are_those_of_all_replicas(bireme: Bireme, talker: str) -> None:
    lines = bireme("logs", talker).stdout.splitlines()
    assert lines == [f"worker-{rank} | {rank} says {i}" for rank in (0, 1) for i in (1, 2, 3)]
    tail = bireme("logs", talker, "--tail", "1").stdout.splitlines()
    assert tail == ["worker-0 | 0 says 3", "worker-1 | 1 says 3"]
    stamped = bireme("logs", "talker-worker-0", "--tail", "1", "--timestamps").stdout
    assert stamped.endswith("Z 0 says 3\n")
    assert bireme("logs", talker, "--since", "1h").stdout.count("\n") == 6
    assert "there is no job or pod nobody" in bireme("logs", "nobody", code=1).stderr


def test_logs_follow_a_job_to_its_end(bireme: Bireme) -> None:
    bireme("run", "-d", "--name", "counter", "--replicas", "1", "--", "sh", "-c", "echo a; sleep 1; echo b")
    result = bireme("logs", "-f", "counter")
    assert result.stdout == "worker-0 | a\nworker-0 | b\n"


def test_wait_says_by_its_code_what_came(bireme: Bireme) -> None:
    bireme("run", "--name", "ended", "--replicas", "1", "--", "false", code=1)
    assert bireme("wait", "ended", code=1).stderr.endswith("ended is Failed\n")
    assert bireme("wait", "ended", "--for", "failed").stderr.endswith("ended is Failed\n")
    bireme("delete", "ended")
    assert bireme("wait", "ended", "--for", "delete").stderr.endswith("ended is gone\n")


def test_wait_gives_up_after_its_time(bireme: Bireme, talker: str) -> None:
    result = bireme("wait", talker, "--timeout", "1s", code=124)
    assert "error: talker is not finished after 1s" in result.stderr


def test_two_jobs_of_one_name_must_be_told_apart(bireme: Bireme) -> None:
    kubeflow = (EXAMPLES / "mpijob-kubeflow.yaml").read_text().replace("kubeflow-hello", "twin")
    bireme("run", "-d", "-f", "-", input=kubeflow)
    bireme("run", "-d", "--name", "twin", "--replicas", "1", "--", "true")
    result = bireme("logs", "twin", code=1)
    assert "error: twin is the name of several jobs" in result.stderr
    assert "genericjob.batch.tensorstack.dev/twin or mpijob.kubeflow.org/twin" in result.stderr
    bireme("delete", "gj/twin", "mj/twin", "--now")


def test_delete_wants_to_know_what(bireme: Bireme) -> None:
    assert "name jobs, or give -f, or --all" in bireme("delete", code=2).stderr
    assert "there is no job nobody" in bireme("delete", "nobody", code=1).stderr


def test_the_guide_means_what_it_says(bireme: Bireme) -> None:
    """The commands of docs/guides/run.md that follow a job's life."""
    (script,) = (block for block in GUIDE.read_text().split("```sh\n") if block.startswith("bireme run -d"))
    commands = script.partition("```")[0]
    result = subprocess.run(
        ["sh", "-e", "-c", commands],
        env=bireme.environment(),
        cwd=bireme.work,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("genericjob.batch.tensorstack.dev/count\n")
    assert "worker-1 | 3\n" in result.stdout
    assert "count is Succeeded\n" in result.stderr
    assert result.stdout.endswith("genericjob.batch.tensorstack.dev/count deleted\n")
