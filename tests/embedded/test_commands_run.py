"""`bireme run`: jobs to their end, on this machine."""

import os
import re
import signal
import stat
import subprocess

import pytest
import yaml

from support.commands import BIREME, EXAMPLES, Bireme
from support.fixtures import unavailable
from support.here import eventually
from support.mpi_rounds import find
from support.terminals import PATIENCE_SECONDS, Terminal

pytestmark = pytest.mark.xdist_group("commands")

GREETING = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: %s}
spec:
  replicaSpecs:
    - type: worker
      replicas: %d
      template: {spec: {containers: [{name: main, image: none, command: [sh, -c, '%s']}]}}
"""


def names(bireme: Bireme, *kinds: str) -> list[str]:
    return [line.partition("/")[2] for line in bireme("get", *kinds, "-o", "name").stdout.split()]


def test_output_of_all_replicas_comes_with_their_names(bireme: Bireme) -> None:
    result = bireme("run", "-f", "-", input=GREETING % ("hail", 2, "echo rank $(rank) in $PWD"))
    assert sorted(result.stdout.splitlines()) == [
        f"worker-0 | rank 0 in {bireme.work}",
        f"worker-1 | rank 1 in {bireme.work}",
    ]
    talk = result.stderr.splitlines()
    assert talk[0] == f"on this machine ({bireme.data})"
    assert re.fullmatch(r"hail: Succeeded after \d+s", talk[-1])


def test_a_command_runs_as_an_mpi_job(bireme: Bireme) -> None:
    program = "from mpi4py import MPI; print('sum', MPI.COMM_WORLD.allreduce(1), flush=True)"
    result = bireme("run", "--mpi", "2", "--slots", "2", "--", "python3", "-c", program)
    assert result.stdout.count("launcher | sum 4\n") == 4


def test_the_code_of_the_replica_that_failed_first_is_ours(bireme: Bireme) -> None:
    script = 'test $(rank) = 0 || { echo "no data" >&2; exit 7; }'
    result = bireme("run", "--name", "broken", "--replicas", "2", "--", "sh", "-c", script, code=7)
    end = result.stderr.splitlines()[-3:]
    assert re.fullmatch(r"broken: Failed after \d+s", end[0])
    assert end[1:] == ["  first failure: worker-1: exit code 7", "    no data"]


def test_a_command_that_failed_does_not_go_on_elsewhere(bireme: Bireme) -> None:
    script = "test $(rank) = 1 || exec sleep 1000; exit 4"
    bireme("run", "--name", "partial", "--replicas", "3", "--", "sh", "-c", script, code=4)
    bireme("wait", "partial", "--for", "failed")

    def left() -> list[str]:
        return [name for name in names(bireme, "pods") if name.startswith("partial")]

    eventually(lambda: left() == ["partial-worker-1"], left)


def test_a_job_that_has_failed_is_over_though_replicas_go_on(bireme: Bireme) -> None:
    bireme(
        "run",
        "-f",
        "-",
        input=GREETING % ("uneven", 3, "test $(rank) = 1 || exec sleep 1000; exit 4"),
        code=4,
    )
    assert "uneven-worker-0" in names(bireme, "pods")
    bireme("delete", "uneven", "--now")


def test_a_signal_is_named_and_gives_the_code_of_a_shell(bireme: Bireme) -> None:
    result = bireme("run", "--name", "shot", "--replicas", "1", "--", "sh", "-c", "kill -9 $$", code=137)
    assert "first failure: worker-0: signal 9" in result.stderr


def test_what_a_job_writes_is_for_others_to_read(bireme: Bireme) -> None:
    bireme("run", "--replicas", "1", "--", "sh", "-c", "touch written; mkdir made")
    modes = [stat.S_IMODE((bireme.work / name).stat().st_mode) for name in ("written", "made")]
    assert modes == [0o644, 0o755]


def test_variables_are_those_of_the_call(bireme: Bireme) -> None:
    script = 'echo "$LD_LIBRARY_PATH,$TZ,$ONE,$TWO,$OTHER"'
    command = ("run", "--replicas", "1", "-e", "ONE=a$(b)", "-e", "TWO", "--", "sh", "-c", script)
    first = bireme(*command, LD_LIBRARY_PATH="/first", TWO="2", OTHER="no")
    second = bireme(*command, TZ="UTC", TWO="two")
    assert [each.stdout for each in (first, second)] == [
        "worker-0 | /first,,a$(b),2,\n",
        "worker-0 | ,UTC,a$(b),two,\n",
    ]
    mpi = bireme("run", "--mpi", "1", "-e", "ONE=1", "--", "sh", "-c", "echo one $ONE")
    assert "launcher | one 1\n" in mpi.stdout
    assert "no such variable" in bireme("run", "--mpi", "1", "-e", "NOTHING", "--", "true", code=2).stderr


def test_a_deadline_that_is_missed_is_named(bireme: Bireme) -> None:
    # Long enough for the container to have started: one that never ran has no exit code.
    late = (GREETING % ("late", 1, "exec sleep 100")).replace(
        "{spec: {", "{spec: {activeDeadlineSeconds: 6, "
    )
    result = bireme("run", "-f", "-", input=late, code=143)
    assert "first failure: worker-0: signal 15 (DeadlineExceeded)" in result.stderr


def in_pod(text: str, field: str) -> str:
    """A manifest with a field more in the spec of each pod."""
    return text.replace("{spec: {", f"{{spec: {{{field}, ").replace(
        "          containers:\n", f"          {field}\n          containers:\n"
    )


STUCK = GREETING % ("stuck", 1, "true")
KUBEFLOW = (EXAMPLES / "mpijob-kubeflow.yaml").read_text().replace("kubeflow-hello", "held")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            in_pod(STUCK, "volumes: [{name: v, secret: {secretName: nope}}]"),
            "worker-0: main waits: Secret nope is not there",
        ),
        (
            in_pod(STUCK, "priority: 5"),
            'stuck waits: Refused: can\'t create Pod stuck-worker-0: pods "stuck-worker-0" is forbidden',
        ),
        (
            in_pod(KUBEFLOW, "priority: 5"),
            'held waits: Refused: can\'t create Pod held-launcher: pods "held-launcher" is forbidden',
        ),
    ],
    ids=["volume", "priority", "priority of Kubeflow's"],
)
def test_a_job_that_can_not_start_says_why(bireme: Bireme, text: str, told: str) -> None:
    (bireme.work / "stuck.yaml").write_text(text)
    terminal = bireme.on_terminal("run", "-f", "stuck.yaml")
    terminal.expect(told)
    terminal.interrupt()
    terminal.expect("[c]ontinue: ")
    terminal.type("s\n")
    assert terminal.end() == 130


def test_a_rank_that_dies_is_named_with_its_worker(bireme: Bireme) -> None:
    """It dies when both are there: mpirun 5.0 at times hangs after one that ends before all have started."""
    program = (
        "import os, signal; from mpi4py import MPI; world = MPI.COMM_WORLD\n"
        "if world.rank == 1: world.recv(source=0); os._exit(5)\n"
        "world.send(None, 1); signal.pause()"
    )
    result = bireme("run", "--name", "torn", "--mpi", "2", "--", "python3", "-c", program, code=5)
    assert "first failure: rank 1 on worker-1: exit code 5" in result.stderr


def test_a_wrong_manifest_is_shown_at_its_place_and_nothing_is_sent(bireme: Bireme) -> None:
    manifest = (GREETING % ("wrong", 1, "true")).replace("replicas:", "replcas:")
    result = bireme("run", "-f", "-", input=manifest, code=1)
    assert "error: <stdin>:8:7: spec.replicaSpecs[0].replcas: unknown field" in result.stderr
    assert "hint: did you mean `replicas`?" in result.stderr
    assert result.stderr.endswith("error: nothing was sent: 1 error in the manifest\n")
    assert "wrong" not in names(bireme)


def test_all_documents_of_a_file_are_sent_and_all_jobs_followed(bireme: Bireme) -> None:
    settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {word: hello}\n"
    jobs = [GREETING % ("one", 1, "echo first"), GREETING % ("two", 1, "echo second; exit 4")]
    result = bireme("run", "-f", "-", input="---\n".join([settings, *jobs]), code=4)
    assert sorted(result.stdout.splitlines()) == ["one/worker-0 | first", "two/worker-0 | second"]
    assert "applied ConfigMap settings" in result.stderr
    assert bireme("get", "configmap/settings", "-o", "json").stdout.count('"word": "hello"') == 1


def test_a_job_of_the_same_name_makes_way_only_if_it_has_ended(bireme: Bireme) -> None:
    bireme("run", "--name", "again", "--replicas", "1", "--", "true")
    again = bireme("run", "-d", "--name", "again", "--replicas", "1", "--", "sleep", "1000")
    assert again.stdout == "genericjob.batch.tensorstack.dev/again\n"
    assert "GenericJob again of an earlier run (Succeeded) is replaced" in again.stderr
    result = bireme("run", "--name", "again", "--replicas", "1", "--", "true", code=1)
    assert "error: GenericJob again already exists, and is " in result.stderr
    assert "hint: see it with `bireme logs -f again`" in result.stderr
    bireme("delete", "again", "--now")


def test_a_finished_job_of_another_kind_makes_way_too(bireme: Bireme) -> None:
    bireme("run", "--name", "swap", "--replicas", "2", "--", "true")
    mpi = bireme("run", "--name", "swap", "--mpi", "2", "--", "echo", "ran")
    assert mpi.stderr.splitlines()[1] == "GenericJob swap of an earlier run (Succeeded) is replaced"
    assert mpi.stdout.count("launcher | ran\n") == 2
    kubeflow = (EXAMPLES / "mpijob-kubeflow.yaml").read_text().replace("kubeflow-hello", "swap")
    third = bireme("run", "-d", "-f", "-", input=kubeflow).stderr.splitlines()
    assert "MPIJob swap (batch.tensorstack.dev) of an earlier run (Succeeded) is replaced" in third
    assert bireme("get", "-o", "name").stdout.count("/swap\n") == 1
    bireme("delete", "swap", "--now")


def test_an_unfinished_job_of_another_kind_is_an_error_before_anything_is_sent(bireme: Bireme) -> None:
    bireme("run", "-d", "--name", "busy", "--replicas", "1", "--", "sleep", "1000")
    bireme("wait", "busy", "--for", "running")
    refused = bireme("run", "--name", "busy", "--mpi", "1", "--", "true", code=1).stderr
    assert "error: GenericJob busy already exists, and is Running\n" in refused
    assert "hint: see it with `bireme logs -f busy`, stop it with `bireme delete busy`" in refused
    two = "---\n".join([GREETING % ("beside", 1, "true"), GREETING % ("busy", 1, "true")])
    bireme("run", "-f", "-", input=two, code=1)
    assert "beside" not in names(bireme)
    bireme("delete", "busy", "--now")


def test_two_jobs_of_one_name_are_refused_before_anything_is_sent(bireme: Bireme) -> None:
    kubeflow = (EXAMPLES / "mpijob-kubeflow.yaml").read_text().replace("kubeflow-hello", "pair")
    refused = bireme("run", "-f", "-", input=f"{GREETING % ('pair', 1, 'true')}---\n{kubeflow}", code=1)
    assert "error: two jobs are named pair\n" in refused.stderr
    assert "pair" not in names(bireme)


def test_without_a_terminal_ctrl_c_stops_the_job_and_deletes_it(bireme: Bireme) -> None:
    process = bireme.start(
        "run", "--name", "endless", "--replicas", "2", "--", "sh", "-c", "echo up; sleep 1000"
    )
    assert process.stdout is not None
    assert process.stdout.readline().endswith("| up\n")
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert talk.endswith("stopped endless\n")
    assert "endless" not in names(bireme)
    assert not any(line.startswith("endless") for line in names(bireme, "pods"))


def test_a_second_ctrl_c_does_not_wait_for_a_pod_that_ignores_the_first(bireme: Bireme) -> None:
    script = 'trap "" TERM; echo up; while :; do sleep 1; done'
    text = (GREETING % ("stubborn", 1, script)).replace(
        "{spec: {", "{spec: {terminationGracePeriodSeconds: 3600, "
    )
    (bireme.work / "stubborn.yaml").write_text(text)
    process = bireme.start("run", "-f", "stubborn.yaml")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "worker-0 | up\n"
    process.send_signal(signal.SIGINT)
    while "Ctrl-C again" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_SECONDS) == 130
    process.communicate()


def test_on_a_terminal_ctrl_c_asks_and_a_detached_job_goes_on(bireme: Bireme) -> None:
    terminal = bireme.on_terminal(
        "run", "--name", "left", "--replicas", "1", "--", "sh", "-c", "echo up; sleep 1000"
    )
    terminal.expect("up\r\n")
    terminal.interrupt()
    terminal.expect("[s]top / [d]etach / [c]ontinue: ")
    terminal.type("d\n")
    assert terminal.end() == 0
    assert "bireme logs -f left" in terminal.text
    assert bireme("wait", "left", "--for", "running").returncode == 0
    bireme("delete", "left", "--now")


def asked(bireme: Bireme, name: str, script: str, grace: int = 30) -> Terminal:
    """A job that says `up`, and Ctrl-C."""
    manifest = bireme.work / f"{name}.yaml"
    text = (GREETING % (name, 1, script)).replace(
        "{spec: {", f"{{spec: {{terminationGracePeriodSeconds: {grace}, "
    )
    manifest.write_text(text)
    terminal = bireme.on_terminal("run", "-f", str(manifest))
    terminal.expect("up\r\n")
    terminal.interrupt()
    terminal.expect("[s]top / [d]etach / [c]ontinue: ")
    return terminal


def test_on_a_terminal_ctrl_c_asks_and_stops_the_job_where_that_is_wanted(bireme: Bireme) -> None:
    terminal = asked(bireme, "halted", "echo up; sleep 1000")
    terminal.type("s\n")
    assert terminal.end() == 130
    assert "stopped halted\r\n" in terminal.text
    assert "halted" not in names(bireme)
    assert not any(name.startswith("halted") for name in names(bireme, "pods"))


def test_on_a_terminal_a_job_that_is_to_go_on_is_followed_to_its_end(bireme: Bireme) -> None:
    terminal = asked(
        bireme, "onward", "echo up; until test -e onward; do sleep 0.1; done; echo there; exit 3"
    )
    terminal.type("c\n")
    (bireme.work / "onward").touch()
    assert terminal.end() == 3
    assert "there\r\n" in terminal.text
    assert "onward: Failed after" in terminal.text
    bireme("delete", "onward")


def test_on_a_terminal_a_job_that_ends_before_the_answer_needs_none(bireme: Bireme) -> None:
    """And what is no answer stops nothing."""
    script = "echo up; until test -e overtaken; do sleep 0.1; done; echo there; exit 3"
    terminal = asked(bireme, "overtaken", script)
    asking = terminal.text.count("[c]ontinue: ")
    terminal.type("perhaps\n")
    eventually(lambda: terminal.text.count("[c]ontinue: ") > asking, lambda: terminal.text)
    (bireme.work / "overtaken").touch()
    assert terminal.end() == 3
    assert re.search(r"there\r\n.*overtaken: Failed after", terminal.text, re.DOTALL)
    bireme("delete", "overtaken")


def test_ctrl_c_while_a_job_is_being_sent_leaves_none_that_nobody_knows_of(bireme: Bireme) -> None:
    process = bireme.start("run", "--name", "hasty", "--replicas", "1", "--", "sleep", "1000")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("on this machine")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert "hasty" not in names(bireme)


def test_on_a_terminal_a_second_ctrl_c_answers_the_question_of_the_first(bireme: Bireme) -> None:
    """And does not wait for a pod that has an hour, and would use it."""
    terminal = asked(bireme, "deaf", 'trap "" TERM; echo up; while :; do sleep 1; done', grace=3600)
    terminal.interrupt()
    assert terminal.end() == 130
    assert "stopped deaf\r\n" in terminal.text
    assert "deaf" not in names(bireme)


def test_a_terminal_gets_colours_and_a_status_line(bireme: Bireme) -> None:
    command = ["run", "--name", "seen", "--replicas", "1", "--", "sh", "-c", "sleep 0.3; echo here"]
    terminal = bireme.on_terminal(*command)
    assert terminal.end() == 0
    assert re.search(r"\x1b\[\d+mworker-0 \| \x1b\[0mhere", terminal.text)
    assert re.search(r"seen (Pending|Running) \d/1 · \d+s", terminal.text)


def test_no_colour_where_it_is_not_wanted(bireme: Bireme) -> None:
    command = ["run", "--name", "plain", "--replicas", "1", "--", "echo", "here"]
    terminal = bireme.on_terminal(*command, NO_COLOR="1")
    assert terminal.end() == 0
    assert "worker-0 | here" in terminal.text


def test_output_that_nobody_reads_leaves_the_job_alone(bireme: Bireme) -> None:
    script = "for i in 1 2 3 4 5 6 7 8; do echo line; sleep 0.1; done; sleep 1000"
    command = f"{BIREME} run --name piped --replicas 1 -- sh -c '{script}'"
    result = bireme.sh(f"{command} | head -1")
    assert result.stdout == "worker-0 | line\n"
    assert "Traceback" not in result.stderr
    bireme("wait", "piped", "--for", "running")
    bireme("delete", "piped", "--now")


def test_closed_streams_lead_nowhere(bireme: Bireme) -> None:
    result = bireme.sh(
        f"{BIREME} run --name silent --replicas 1 -- sh -c 'echo here; exit 3' >&- <&-", code=3
    )
    assert result.stdout == ""
    assert "first failure: worker-0: exit code 3" in result.stderr
    assert bireme.sh(f"{BIREME} logs silent 2>&-").stdout == "worker-0 | here\n"


def test_what_is_not_utf_8_is_named(bireme: Bireme) -> None:
    result = bireme("run", "--replicas", "1", "--", "cat", os.fsdecode(b"caf\xe9"), code=1)
    assert r"error: b'caf\xe9' is not UTF-8, and can't be passed on" in result.stderr


def test_a_command_in_quotes_gets_a_hint(bireme: Bireme) -> None:
    ended = bireme("run", "--replicas", "1", "--", "echo hi there", code=127)
    assert ended.stderr.endswith("leave out the quotes: -- echo hi there\n")


def test_an_mpirun_of_another_mpi_is_named_when_it_fails(bireme: Bireme) -> None:
    folder = bireme.work / "mpich"
    folder.mkdir()
    program = folder / "mpirun"
    program.write_text("#!/bin/sh\necho HYDRA build details:\nexit 255\n")
    program.chmod(0o755)
    ended = bireme("run", "--mpi", "1", "--", "true", code=255, PATH=f"{folder}:/usr/bin:/bin")
    assert f"hint: {program} is that of MPICH, and Bireme runs Open MPI 4.1 or 5" in ended.stderr


def test_a_replica_that_waits_for_a_config_map_gets_a_remedy(bireme: Bireme) -> None:
    manifest = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: unconfigured}
spec:
  replicaSpecs:
    - type: worker
      template:
        spec:
          containers:
            - {name: main, image: x, command: ["true"], envFrom: [{configMapRef: {name: nosuch}}]}
"""
    with subprocess.Popen(
        [str(BIREME), "run", "-f", "-"],
        cwd=bireme.work, env=bireme.environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(manifest)
        process.stdin.close()
        hint = "hint: create ConfigMap nosuch (`bireme apply -f FILE`)"
        assert any(line.startswith(hint) for line in process.stderr)
        process.send_signal(signal.SIGINT)
        process.stderr.read()


def mpi_manifest(name: str, **more: object) -> str:
    container = {"name": "mpi-worker", "image": "none"}
    cmd = ["sh", "-c", "echo first; echo second"]
    worker = {"replicas": 2, "cmd": cmd, "template": {"spec": {"containers": [container]}}}
    spec = {"worker": worker, "runPolicy": {"cleanUpWorkers": "all"}, **more}
    api = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "MPIJob"}
    return yaml.safe_dump({**api, "metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize("home", ["", "/usr"], ids=["5.0", "4.1"])
def test_lines_of_an_mpi_job_have_their_rank_on_a_terminal(bireme: Bireme, home: str) -> None:
    if home and find("4.1") is None:
        raise unavailable("no Open MPI 4.1: apt-get install openmpi-bin on Debian 12")
    more = {"mpiHome": home} if home else {}
    (bireme.work / "tagged.yaml").write_text(mpi_manifest(f"tagged{home.replace('/', '-')}", **more))
    with bireme.on_terminal("run", "-f", "tagged.yaml", NO_COLOR="1") as terminal:
        terminal.expect("Succeeded after")
        for rank in (0, 1):
            assert re.search(rf"rank {rank} +\| first\r", terminal.text)
            assert re.search(rf"rank {rank} +\| second\r", terminal.text)
        assert "<stdout>" not in terminal.text


@pytest.mark.parametrize(
    ("words", "label"),
    [
        (["--no-tag-ranks", "--mpi", "1", "--"], "launcher"),
        (["--mpi", "1", "--", "--output", "tag"], "rank 0"),
    ],
    ids=["switched off", "mpirun's own option"],
)
def test_ranks_are_tagged_as_the_user_says(bireme: Bireme, words: list[str], label: str) -> None:
    with bireme.on_terminal("run", *words, "echo", "first", NO_COLOR="1") as terminal:
        terminal.expect("Succeeded after")
        assert re.search(rf"{label} +\| first\r", terminal.text), terminal.text


def test_output_of_ranks_is_raw_elsewhere(bireme: Bireme) -> None:
    result = bireme("run", "-f", "-", input=mpi_manifest("raw"))
    lines = sorted(line for line in result.stdout.splitlines() if "first" in line or "second" in line)
    assert lines == [f"launcher | {line}" for line in ("first", "first", "second", "second")]
