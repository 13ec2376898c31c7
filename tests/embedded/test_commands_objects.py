"""`bireme apply`, `get`, `logs`, `wait` and `delete` against the daemon."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.commands import EXAMPLES, Bireme
from support.here import eventually

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


def ready_to_change(bireme: Bireme, name: str) -> Path:
    """A manifest of something that is there, but says another word."""
    manifest = bireme.work / f"{name}.yaml"
    manifest.write_text(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{word: before}}\n"
    )
    bireme("apply", "-f", str(manifest))
    manifest.write_text(manifest.read_text().replace("before", "after"))
    return manifest


def word_of(bireme: Bireme, name: str) -> str:
    data: dict[str, str] = yaml.safe_load(bireme("get", f"cm/{name}", "-o", "yaml").stdout)["data"]
    return data["word"]


@pytest.mark.parametrize(
    ("answer", "code", "word", "told"),
    [("n", 1, "before", "nothing was changed"), ("y", 0, "after", "configmap/asked-y changed")],
    ids=["no", "yes"],
)
def test_apply_shows_the_change_on_a_terminal_and_asks(
    bireme: Bireme, answer: str, code: int, word: str, told: str
) -> None:
    manifest = ready_to_change(bireme, f"asked-{answer}")
    terminal = bireme.on_terminal("apply", "-f", str(manifest))
    terminal.expect("-  word: before")
    terminal.expect("+  word: after")
    terminal.expect("apply this?")
    terminal.type(f"{answer}\n")
    assert terminal.end() == code
    assert told in terminal.text
    assert word_of(bireme, f"asked-{answer}") == word


def test_apply_does_not_ask_where_that_is_not_wanted(bireme: Bireme) -> None:
    manifest = ready_to_change(bireme, "unasked")
    terminal = bireme.on_terminal("apply", "-y", "-f", str(manifest))
    assert terminal.end() == 0
    assert "apply this?" not in terminal.text
    assert "configmap/unasked changed\r\n" in terminal.text
    assert word_of(bireme, "unasked") == "after"


def test_apply_changes_what_run_has_created(bireme: Bireme) -> None:
    """To an API server those two are different writers of one job."""
    manifest = (EXAMPLES / "genericjob-pause.yaml").read_text().replace("pausable", "begun")
    bireme("run", "-d", "-f", "-", input=manifest)
    changed = manifest.replace("enabled: true", "enabled: false")
    assert bireme("apply", "-f", "-", input=changed).stdout.endswith("begun changed\n")
    bireme("wait", "begun", "--for", "running", "--timeout", "30s")
    bireme("delete", "begun", "--now")


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
    assert "there is no job or pod nobody" in bireme("logs", "nobody", code=1).stderr


def test_logs_since_leave_out_what_is_older(bireme: Bireme) -> None:
    """It goes on to write, so that something is always new."""
    script = "echo early; sleep 3; while :; do echo late; sleep 0.2; done"
    bireme("run", "-d", "--name", "aged", "--replicas", "1", "--", "sh", "-c", script)
    follower = bireme.start("logs", "-f", "aged")
    assert follower.stdout is not None
    assert [follower.stdout.readline() for _ in range(2)] == ["worker-0 | early\n", "worker-0 | late\n"]
    assert set(bireme("logs", "aged", "--since", "2s").stdout.splitlines()) == {"worker-0 | late"}
    assert bireme("logs", "aged", "--since", "1h").stdout.startswith("worker-0 | early\nworker-0 | late\n")
    bireme("delete", "aged", "--now")
    follower.communicate(timeout=60)


def test_logs_follow_a_job_to_its_end(bireme: Bireme) -> None:
    bireme("run", "-d", "--name", "counter", "--replicas", "1", "--", "sh", "-c", "echo a; sleep 1; echo b")
    result = bireme("logs", "-f", "counter")
    assert result.stdout == "worker-0 | a\nworker-0 | b\n"


TWICE = """
apiVersion: v1
kind: Pod
metadata: {name: twice}
spec:
  restartPolicy: OnFailure
  containers:
    - name: main
      image: none
      workingDir: %s
      command: [sh, -c, "mkdir again 2>&- && echo first && exit 1; echo second; touch again/up; sleep 1000"]
"""


def test_logs_tell_what_a_container_said_before_its_restart(bireme: Bireme, talker: str) -> None:
    bireme("apply", "-f", "-", input=TWICE % bireme.work)
    eventually((bireme.work / "again/up").exists)
    assert bireme("logs", "twice").stdout == "second\n"
    assert bireme("logs", "twice", "--previous").stdout == "first\n"
    bireme("delete", "pod/twice")
    refused = bireme("logs", f"{talker}-worker-0", "--previous", code=1)
    assert 'previous terminated container "worker" in pod "talker-worker-0" not found' in refused.stderr


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
