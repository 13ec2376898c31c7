"""`bireme apply`, `get`, `logs`, `wait` and `delete` against the daemon."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.commands import EXAMPLES, PAUSED, Bireme
from support.here import eventually
from support.terminals import PATIENCE_SECONDS

pytestmark = pytest.mark.xdist_group("commands")

GUIDE = Path(__file__).parents[2] / "docs/guides/run.md"


@pytest.fixture(scope="module")
def talker(bireme: Bireme) -> Iterator[str]:
    """A job with two replicas that have said three lines, and go on."""
    script = "for i in 1 2 3; do echo $(rank) says $i; done; sleep 1000"
    bireme("run", "-d", "--name", "talker", "--replicas", "2", "--", "sh", "-c", script)
    bireme("wait", "talker", "--for", "running", "--timeout", "3m")
    yield "talker"
    bireme("delete", "talker", "--now")


def test_apply_creates_then_changes_then_has_nothing_to_do(bireme: Bireme) -> None:
    text = PAUSED
    assert (
        bireme("apply", "-f", "-", input=text).stdout == "genericjob.batch.tensorstack.dev/pausable created\n"
    )
    assert bireme("apply", "-f", "-", input=text).stdout.endswith("pausable unchanged\n")
    bireme("wait", "pausable", "--for", "paused", "--timeout", "3m")
    changed = text.replace("enabled: true", "enabled: false")
    assert bireme("apply", "-f", "-", input=changed).stdout.endswith("pausable changed\n")
    bireme("wait", "pausable", "--for", "condition=Running", "--timeout", "3m")
    assert bireme("delete", "-f", "-", input=text).stdout.endswith("pausable deleted\n")


PARTLY_KNOWN = """
{apiVersion: v1, kind: ConfigMap, metadata: {name: partly}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: count}}
"""


@pytest.mark.parametrize("command", ["apply", "run"])
def test_kinds_that_are_not_there_are_told_before_anything_is_sent(bireme: Bireme, command: str) -> None:
    refused = bireme(command, "-f", "-", input=PARTLY_KNOWN, code=1).stderr
    assert "error: Deployment web: there is no kind Deployment in apps/v1 on this server\n" in refused
    assert "error: Job count: there is no kind Job in batch/v1 on this server\n" in refused
    assert "hint: this machine's daemon runs jobs and pods" in refused
    assert "there is no partly" in bireme("get", "cm", "partly", code=1).stderr
    assert "Deployment web is not there\n" in bireme("delete", "-f", "-", input=PARTLY_KNOWN).stderr


def test_a_job_is_not_sent_from_a_directory_that_is_gone(bireme: Bireme) -> None:
    script = "mkdir gone && cd gone && rmdir ../gone && bireme run --replicas 1 -- true"
    result = bireme.sh(script, code=1)
    assert "error: the current directory is gone\n" in result.stderr
    assert "Traceback" not in result.stderr


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
    terminal.expect(f"apply this on this machine ({bireme.data})? [y/N]: ")
    terminal.type(f"{answer}\n")
    assert terminal.end() == code
    assert told in terminal.text
    assert word_of(bireme, f"asked-{answer}") == word


def test_apply_does_not_ask_where_that_is_not_wanted(bireme: Bireme) -> None:
    manifest = ready_to_change(bireme, "unasked")
    terminal = bireme.on_terminal("apply", "-y", "-f", str(manifest))
    assert terminal.end() == 0
    assert "apply this" not in terminal.text
    assert "configmap/unasked changed\r\n" in terminal.text
    assert word_of(bireme, "unasked") == "after"


def test_apply_changes_what_run_has_created(bireme: Bireme) -> None:
    """To an API server those two are different writers of one job."""
    manifest = PAUSED.replace("pausable", "begun")
    bireme("run", "-d", "-f", "-", input=manifest)
    changed = manifest.replace("enabled: true", "enabled: false")
    assert bireme("apply", "-f", "-", input=changed).stdout.endswith("begun changed\n")
    bireme("wait", "begun", "--for", "running", "--timeout", "3m")
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


def test_get_prints_what_is_there_and_fails_for_what_is_not(bireme: Bireme, talker: str) -> None:
    both = bireme("get", f"gj/{talker}", f"pod/{talker}-worker-0").stdout
    assert f"genericjob.batch.tensorstack.dev/{talker} " in both
    assert f"pod/{talker}-worker-0 " in both
    pods = ("pods", f"{talker}-worker-1", "nope", "nada")
    told = "".join(f"error: there is no {name} among the pods of namespace default\n" for name in pods[2:])
    table = bireme("get", *pods, code=1)
    assert [line.split()[0] for line in table.stdout.splitlines()] == ["NAME", f"{talker}-worker-1"]
    assert table.stderr.endswith(told)
    named = bireme("get", *pods, "-o", "name", code=1)
    assert named.stdout == f"pod/{talker}-worker-1\n"
    assert named.stderr.endswith(told)


def test_get_says_which_collections_have_no_such_object(bireme: Bireme, talker: str) -> None:
    among = "mpijobs.batch.tensorstack.dev or mpijobs.kubeflow.org of namespace default"
    assert f"there is no nope among the {among}\n" in bireme("get", "mpijob", "nope", code=1).stderr
    assert "there is no nope among the nodes\n" in bireme("get", "node/nope", code=1).stderr
    hint = f"did you mean `bireme get genericjob/{talker}`?"
    assert hint in bireme("get", talker, code=1).stderr
    assert "no kind Deployment in apps/v1" in bireme("get", "deploy", code=1).stderr


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


def test_logs_tail_of_replicas_without_output_succeeds(bireme: Bireme) -> None:
    bireme("run", "-d", "--name", "silent", "--replicas", "2", "--", "sleep", "1000")
    bireme("wait", "silent", "--for", "running", "--timeout", "3m")
    assert bireme("logs", "silent", "--tail", "5").stdout == ""
    bireme("delete", "silent", "--now")


@pytest.mark.parametrize("follow", [(), ("-f",)], ids=["now", "followed"])
def test_logs_that_no_replica_has_are_an_error(bireme: Bireme, talker: str, follow: tuple[str, ...]) -> None:
    refused = bireme("logs", talker, "-c", "nope", *follow, code=1).stderr
    assert refused.endswith(f"error: no pod of {talker} has a container nope\n\nhint: there are: worker\n")
    refused = bireme("logs", talker, "--previous", *follow, code=1).stderr
    assert f"error: {talker} has no previous output: previous terminated container" in refused


UNPREPARED = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: unprepared}
spec:
  replicaSpecs:
    - type: worker
      template:
        spec:
          initContainers:
            - {name: beside, image: none, restartPolicy: Always, command: [sh, -c, "exec sleep 1000"]}
            - {name: setup, image: none, command: [sh, -c, "echo no luck; exit 3"]}
          containers: [{name: main, image: none, command: [sleep, "1000"]}]
"""


def test_logs_of_a_job_that_never_began_tell_of_its_init_container(bireme: Bireme) -> None:
    """And not of a sidecar that was stopped because of it."""
    ended = bireme("run", "-f", "-", input=UNPREPARED, code=3)
    assert ended.stderr.endswith(
        "  first failure: worker-0, init container setup: exit code 3\n    no luck\n"
    )
    told = bireme("logs", "unprepared")
    reason = "its init container setup has failed with exit code 3: `bireme logs unprepared -c setup`"
    assert told.stdout == ""
    assert told.stderr.count("has no output") == told.stderr.count(f"worker-0 has no output: {reason}\n") == 1
    assert "worker-0 | no luck\n" in bireme("logs", "unprepared", "-c", "setup").stdout
    refused = bireme("logs", "unprepared-worker-0", code=1).stderr
    assert "hint: its init container setup has failed with exit code 3" in refused
    bireme("delete", "unprepared", "--now")


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
    follower.communicate(timeout=PATIENCE_SECONDS)


def test_logs_follow_a_job_to_its_end(bireme: Bireme) -> None:
    bireme("run", "-d", "--name", "counter", "--replicas", "1", "--", "sh", "-c", "echo a; sleep 1; echo b")
    result = bireme("logs", "-f", "counter")
    assert result.stdout == "worker-0 | a\nworker-0 | b\n"


CLEANED = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: cleaned}
spec:
  cleanUpPolicy: All
  replicaSpecs:
    - type: worker
      replicas: 2
      template:
        spec:
          containers:
            - {name: main, image: none, command: [sh, -c, echo replica $(rank)]}
            - {name: aside, image: none, command: [sh, -c, echo aside; sleep 1000]}
"""


def test_logs_show_what_pods_said_that_were_just_cleaned_up(bireme: Bireme) -> None:
    bireme("run", "-f", "-", input=CLEANED)
    bireme("wait", "pod/cleaned-worker-0", "--for", "delete")
    bireme("wait", "pod/cleaned-worker-1", "--for", "delete")
    assert bireme("logs", "cleaned").stdout == "worker-0 | replica 0\nworker-1 | replica 1\n"
    assert bireme("logs", "cleaned", "-c", "aside", "--tail", "1").stdout.count("aside") == 2
    assert bireme("logs", "cleaned-worker-1").stdout == "replica 1\n"
    bireme("delete", "cleaned")


def test_logs_show_what_the_pods_of_a_paused_job_said(bireme: Bireme) -> None:
    script = "echo began; exec sleep 1000"
    bireme("run", "-d", "--name", "halted", "--replicas", "1", "--", "sh", "-c", script)
    bireme("wait", "halted", "--for", "running")
    eventually(lambda: bireme("logs", "halted").stdout != "")
    bireme("pause", "halted")
    assert bireme("logs", "halted").stdout == "worker-0 | began\n"
    bireme("delete", "halted")


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
    bireme("run", "-d", "--name", "twin", "--replicas", "1", "--", "sleep", "1000")
    bireme("wait", "twin", "--for", "running")
    bireme("apply", "-f", "-", input=kubeflow)
    result = bireme("logs", "twin", code=1)
    assert "error: twin is the name of several jobs" in result.stderr
    assert "genericjob.batch.tensorstack.dev/twin or mpijob.kubeflow.org/twin" in result.stderr

    def told() -> str:
        return bireme("get", "mpijob.kubeflow.org/twin", "-o", "json").stdout

    eventually(
        lambda: "Pod twin-worker-0 belongs to GenericJob twin; delete what is in the way" in told(), told
    )
    bireme("delete", "gj/twin", "mj/twin", "--now")


def test_delete_wants_to_know_what(bireme: Bireme) -> None:
    assert "name jobs, or give -f, or --all" in bireme("delete", code=2).stderr
    assert "there is no job nobody" in bireme("delete", "nobody", code=1).stderr


def test_the_guide_means_what_it_says(bireme: Bireme) -> None:
    """The commands of docs/guides/run.md that follow a job's life."""
    (script,) = (block for block in GUIDE.read_text().split("```sh\n") if block.startswith("bireme run -d"))
    result = bireme.sh(script.partition("```")[0])
    assert result.stdout.startswith("genericjob.batch.tensorstack.dev/count\n")
    assert "worker-1 | 3\n" in result.stdout
    assert "count is Succeeded\n" in result.stderr
    assert result.stdout.endswith("genericjob.batch.tensorstack.dev/count deleted\n")


@pytest.mark.parametrize("flag", ["enabled", "enable"])
def test_a_job_is_paused_and_goes_on_by_a_word(bireme: Bireme, flag: str) -> None:
    text = PAUSED.replace("enabled:", f"{flag}:")
    title = "genericjob.batch.tensorstack.dev/pausable"
    bireme("apply", "-f", "-", input=text)
    assert bireme("pause", "pausable").stdout == f"{title} paused\n"
    assert bireme("resume", "pausable").stdout == f"{title} resumed\n"
    bireme("wait", "pausable", "--for", "running", "--timeout", "1m")
    assert bireme("pause", "genericjob/pausable").stdout == f"{title} paused\n"
    assert "pausable" not in bireme("get", "pods", "-o", "name").stdout
    assert bireme("resume", "pausable").stdout == f"{title} resumed\n"
    bireme("wait", "pausable", "--timeout", "1m")
    assert bireme("pause", "pausable", code=1).stderr.endswith(f"error: {title} has ended: Succeeded\n")
    assert "going on from the last checkpoint" in bireme("logs", "pausable").stdout
    bireme("delete", "pausable")


def test_a_kind_without_a_pause_is_told_before_any_job_is_paused(bireme: Bireme, talker: str) -> None:
    bireme("apply", "-f", str(EXAMPLES / "mpijob-kubeflow.yaml"))
    refused = bireme("pause", talker, "kubeflow-hello", code=1)
    assert "error: mpijob.kubeflow.org/kubeflow-hello: this kind has no pause\n" in refused.stderr
    assert "these have one: GenericJob, MPIJob, ColossalAIJob" in refused.stderr
    assert bireme("get", "genericjob", talker, "-o", "json").stdout.count('"pause"') == 0
    bireme("delete", "kubeflow-hello")
