"""What the commands that run jobs decide without a server: names, prefixes, ends, goals, waits."""

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from bireme.admission import default, is_valid, validate
from bireme.api.names import is_dns_1035
from bireme.cli.adhoc import build_generic_job, build_mpi_job, job_name, mpi_folder
from bireme.cli.apply import differences
from bireme.cli.durations import duration, shown
from bireme.cli.endings import describe_end, exit_code
from bireme.cli.explanations import remedy_text
from bireme.cli.failures import Failure
from bireme.cli.get import read_words
from bireme.cli.main import cli
from bireme.cli.running import name_images
from bireme.cli.screen import Lines, Screen, colour_of
from bireme.cli.submitter import SubmitterOptions
from bireme.cli.table import print_table
from bireme.cli.vocabulary import named, qualified
from bireme.cli.wait import read_goal, verdict
from bireme.run.jobs import finished_at, phase
from bireme.scheduling.reasons import (
    AddMembers,
    AddNodes,
    AskForNone,
    GrowNode,
    LabelNode,
    Remedy,
    WriteProfile,
)

Object = dict[str, Any]
RUN = ("--image", "busybox", "--replicas", "1", "--", "true")


def job(phase_: str = "Running", **status: Any) -> Object:
    metadata = {"name": "hello", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "status": {"phase": phase_, **status}}


def stopping(reason: str) -> Object:
    return job("Paused", conditions=[{"type": "Paused", "status": "True", "reason": reason}])


def kubeflow(**conditions: str) -> Object:
    listed = [{"type": type_, "status": status} for type_, status in conditions.items()]
    return {"metadata": {"name": "hello"}, "status": {"conditions": listed}}


# ---- jobs of a command


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["./solver", "--input", "a"], "solver-x"),
        (["python3", "-u", "train_model.py"], "train-model-x"),
        (["python", "-m", "mpi4py", "train.py"], "train-x"),
        (["sh", "-c", "echo hi; exit 1"], "sh-x"),
        (["/opt/My Tool/3D.run"], "job-x"),
        (["env", "A=1", "mpirun", "./ring"], "ring-x"),
        (["9lives"], "job-9lives-x"),
        (["x" * 100], f"{'x' * 30}-x"),
        (["-"], "job-x"),
    ],
    ids=lambda value: value[0][:12] if isinstance(value, list) else None,
)
def test_a_job_is_named_after_what_it_runs(command: list[str], expected: str) -> None:
    assert job_name(command, "x") == expected
    assert is_dns_1035(expected)


@pytest.mark.parametrize(
    "made",
    [
        build_mpi_job("ring", 2, ["-N", "3"], ["./ring", "-v"]),
        build_generic_job("greet", 2, ["sh", "-c", "echo $(rank) $$ $(date)"]),
    ],
    ids=["mpi", "generic"],
)
def test_a_job_of_a_command_is_valid(made: Object) -> None:
    assert is_valid(validate(default(made)))


def test_the_mpirun_beside_a_program_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("its/bin/python", "its/bin/mpirun", "its/pyvenv.cfg", "bin/env", "bin/mpirun"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{tmp_path}/its/bin")
    monkeypatch.chdir(tmp_path)
    words = ("python", "its/bin/python", f"{tmp_path}/its/bin/python")
    assert [mpi_folder(word) for word in words] == [f"{tmp_path}/its/bin"] * 3
    assert [mpi_folder(word) for word in ("env", "bin/env", "nowhere")] == [None] * 3
    first = SubmitterOptions(first=(f"{tmp_path}/its/bin",)).path.split(":")
    assert first[:2] == [f"{tmp_path}/its/bin", f"{tmp_path}/bin"]


def test_dollars_of_a_command_reach_it_unchanged() -> None:
    made = build_generic_job("greet", 1, ["sh", "-c", "kill $$"])
    (container,) = made["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"]
    assert container["command"] == ["sh", "-c", "kill $$$$"]


@pytest.mark.parametrize(
    ("driver", "named"), [("", True), ("process", True), ("podman", False)], ids=["none", "process", "podman"]
)
@pytest.mark.parametrize("of_template", [False, True], ids=["job", "template"])
def test_images_that_podman_uses_are_not_told_to_be_unused(
    driver: str, *, named: bool, of_template: bool
) -> None:
    job = build_generic_job("greet", 1, ["true"], image="registry.example/x:1")
    template = job["spec"]["replicaSpecs"][0]["template"]
    about = template.setdefault("metadata", {}) if of_template else job["metadata"]
    if driver:
        about["annotations"] = {"bireme.dev/driver": driver}
    assert name_images([job]) == named


# ---- lines and prefixes


def screen(*, coloured: bool = False, live: bool = False) -> tuple[Screen, io.BytesIO, io.StringIO]:
    output, talk = io.BytesIO(), io.StringIO()
    return Screen(output, talk, coloured=coloured, live=live), output, talk


def test_names_stand_in_one_column() -> None:
    shown_on, output, _ = screen()
    for name in ("launcher", "worker-0"):
        shown_on.add_name(name)
    shown_on.add_name("worker-10")
    shown_on.write("launcher", [b"a", b"b"])
    shown_on.write("worker-10", [b"c"])
    shown_on.write("worker-0", [])
    assert output.getvalue() == b"launcher  | a\nlauncher  | b\nworker-10 | c\n"


def test_a_replica_keeps_its_colour_and_its_neighbour_has_another() -> None:
    colours = [colour_of(f"worker-{index}") for index in range(4)]
    assert len(set(colours)) == 4
    assert colours == [colour_of(f"worker-{index}") for index in range(4)]
    assert isinstance(colour_of("launcher"), int)


def test_only_the_prefix_is_coloured() -> None:
    shown_on, output, _ = screen(coloured=True)
    shown_on.add_name("worker-0")
    shown_on.write("worker-0", [b"text"])
    assert output.getvalue() == f"\x1b[{colour_of('worker-0')}mworker-0 | \x1b[0mtext\n".encode()


def test_the_status_line_stands_below_what_is_written() -> None:
    shown_on, output, talk = screen(live=True)
    shown_on.show_status("hello Running 1/1")
    shown_on.write("", [b"line"])
    shown_on.show_status("")
    drawn = "\x1b[2mhello Running 1/1\x1b[0m"
    assert talk.getvalue() == f"{drawn}\r\x1b[K{drawn}\r\x1b[K"
    assert output.getvalue() == b"line\n"


def test_a_question_stands_below_what_is_written_until_it_is_answered() -> None:
    shown_on, _, talk = screen(live=True)
    shown_on.show_status("hello Running 1/1")
    shown_on.ask("stop? ")
    shown_on.show_status("hello Running 0/1")
    shown_on.write("", [b"line"])
    shown_on.say("word")
    shown_on.ask("")
    before, after = "\x1b[2mhello Running 1/1\x1b[0m", "\x1b[2mhello Running 0/1\x1b[0m"
    clear = "\r\x1b[K"
    assert talk.getvalue() == f"{before}{clear}stop? {clear}stop? {clear}word\nstop? {clear}{after}"


def test_a_narrow_terminal_shows_what_can_be_answered() -> None:
    shown_on, _, talk = screen(live=True)
    shown_on.ask("why " * 100 + "[y]es / [n]o: ")
    assert len(talk.getvalue()) < 80
    assert talk.getvalue().endswith("why [y]es / [n]o: ")


class Teletype(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("kind", "drawn"), [("xterm", "\x1b[2mhello\x1b[0m"), ("dumb", "")])
def test_a_terminal_that_knows_only_letters_gets_no_status_line(
    monkeypatch: pytest.MonkeyPatch, kind: str, drawn: str
) -> None:
    monkeypatch.setenv("TERM", kind)
    talk = Teletype()
    Screen(io.BytesIO(), talk).show_status("hello")
    assert talk.getvalue() == drawn


def test_there_is_no_status_line_without_a_terminal() -> None:
    shown_on, _, talk = screen()
    shown_on.show_status("hello")
    shown_on.say("word")
    assert talk.getvalue() == "word\n"


def test_chunks_that_end_anywhere_become_lines() -> None:
    lines = Lines()
    assert lines.feed(b"a\nb") == [b"a"]
    assert lines.feed(b"c\n\n") == [b"bc", b""]
    assert lines.end() == []
    assert lines.feed(b"rest") == []
    assert lines.end() == [b"rest"]
    assert lines.feed(b"x" * 3_000_000) == []
    (cut,) = lines.feed(b"x" * 2_000_000)
    assert len(cut) == 5_000_000


def test_lines_of_mpirun_lose_the_nuls_before_them() -> None:
    lines = Lines(of_mpirun=True)
    assert lines.feed(b"help\n\0\0a\0b\n\0") == [b"help", b"a\0b"]
    assert lines.end() == []
    assert Lines().feed(b"\0raw\n") == [b"\0raw"]


def test_a_progress_bar_is_shown_as_it_grows_and_keeps_the_name() -> None:
    shown_on, output, talk = screen(live=True)
    shown_on.add_name("worker-0")
    shown_on.show_status("job Running 1/1")
    lines = Lines()
    for chunk in (b"\r 10%", b"\r\x1b[32m 20%\x1b[0m", b"\r 30%\n"):
        shown_on.write("worker-0", lines.feed(chunk))
        shown_on.show_progress("worker-0", lines.progress)
    status, clear = "\x1b[2mjob Running 1/1\x1b[0m", "\r\x1b[K"
    bars = [f"\x1b[2mworker-0 |  {percent}%\x1b[0m" for percent in (10, 20)]
    assert talk.getvalue() == clear.join([status, *bars, status])
    prefix = b"worker-0 | "
    assert output.getvalue() == (
        prefix + b"\r" + prefix + b" 10%\r" + prefix + b"\x1b[32m 20%\x1b[0m\r" + prefix + b" 30%\n"
    )


def test_a_progress_bar_does_not_hide_what_is_typed() -> None:
    shown_on, _, talk = screen(live=True)
    shown_on.ask("stop? ")
    shown_on.show_progress("worker-0", b"10%")
    assert talk.getvalue() == "stop? "


def test_line_ends_of_other_systems_are_no_progress_bars() -> None:
    shown_on, output, _ = screen()
    lines = Lines()
    shown_on.write("a", lines.feed(b"one\r\ntwo\r\n"))
    assert output.getvalue() == b"a | one\r\na | two\r\n"
    assert lines.progress == b""


# ---- how a job ended


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (job("Succeeded"), 0),
        (job("Failed"), 1),
        (job("Failed", firstFailure={"replica": "hello-worker-0", "exitCode": 7}), 7),
        (job("Failed", firstFailure={"exitCode": 137, "signal": 9}), 137),
        (job("Failed", firstFailure={"exitCode": 0}), 1),
        (job("Failed", firstFailure={"exitCode": 300}), 1),
        (kubeflow(Created="True", Running="False", Succeeded="True"), 0),
        (kubeflow(Failed="True"), 1),
    ],
    ids=["succeeded", "no cause", "code", "signal", "zero", "too large", "kubeflow", "kubeflow failed"],
)
def test_the_exit_code_is_that_of_the_replica_that_failed_first(ended: Object, code: int) -> None:
    assert exit_code(ended) == code


@pytest.mark.parametrize(
    ("first", "lines"),
    [
        (
            {"replica": "hello-worker-1", "rank": 3, "exitCode": 7, "reason": "Error", "message": "a\nb\n"},
            ["  first failure: rank 3 on worker-1: exit code 7", "    a", "    b"],
        ),
        (
            {"replica": "hello-launcher", "exitCode": 137, "signal": 9, "reason": "OOMKilled"},
            ["  first failure: launcher: signal 9 (OOMKilled)"],
        ),
        ({"replica": "hello-worker-0", "reason": "Evicted"}, ["  first failure: worker-0: Evicted"]),
        (
            {"replica": "x", "exitCode": 1, "message": "\n".join(map(str, range(30)))},
            ["  first failure: x: exit code 1", *(f"    {line}" for line in range(20, 30))],
        ),
    ],
    ids=["rank", "signal", "no code", "long message"],
)
def test_the_last_lines_name_the_root_cause(first: Object, lines: list[str]) -> None:
    ended = job("Failed", firstFailure=first, completionTime="2026-01-01T00:01:05Z")
    assert describe_end(ended) == ["hello: Failed after 1m5s", *lines]


def test_a_failure_without_a_replica_is_told_by_its_condition() -> None:
    conditions = [{"type": "Failed", "status": "True", "message": "spec.worker: nonsense"}]
    assert describe_end(job("Failed", conditions=conditions))[1:] == ["  spec.worker: nonsense"]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (job("Paused"), "Paused"),
        ({"metadata": {}}, "Pending"),
        (kubeflow(Created="True"), "Pending"),
        (kubeflow(Created="True", Running="True"), "Running"),
        (kubeflow(Running="True", Restarting="True"), "Pending"),
        (kubeflow(Running="False", Failed="True"), "Failed"),
    ],
    ids=["phase", "nothing yet", "created", "running", "restarting", "failed"],
)
def test_every_kind_of_job_has_a_phase(told: Object, expected: str) -> None:
    assert phase(told) == expected


def test_an_end_has_a_time_even_where_none_is_told() -> None:
    assert finished_at(job("Running")) is None
    assert finished_at(job("Failed")) == datetime(2026, 1, 1, tzinfo=UTC)


# ---- waiting


@pytest.mark.parametrize(
    ("state", "found", "over", "code"),
    [
        (None, job("Running"), False, 1),
        (None, job("Succeeded"), True, 0),
        (None, job("Failed"), True, 1),
        ("finished", job("Failed"), True, 0),
        ("Failed", job("Failed"), True, 0),
        ("failed", job("Succeeded"), True, 1),
        ("running", job("Pending"), False, 1),
        ("running", job("Succeeded"), True, 0),
        ("paused", stopping("Stopped"), True, 0),
        ("paused", stopping("Stopping"), False, 1),
        ("delete", job("Succeeded"), False, 1),
        ("delete", None, True, 0),
        ("running", None, True, 1),
        ("condition=failed", kubeflow(Failed="True"), True, 0),
        ("condition=Running=false", kubeflow(Running="False"), True, 0),
    ],
)
def test_wait_is_over_when_the_goal_is_reached_or_out_of_reach(
    state: str | None, found: Object | None, over: bool, code: int
) -> None:
    goal = read_goal(state)
    assert over == (found is None or goal.is_over(found))
    assert verdict("hello", goal, found) == code


@pytest.mark.parametrize("state", ["nonsense", "condition=", "phase=Running", ""])
def test_a_state_that_is_none_is_refused(state: str) -> None:
    with pytest.raises(click.UsageError, match="not a state"):
        read_goal(state)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("25", 25), ("25s", 25), ("1h30m", 5400), ("2d", 172800), ("500ms", 0.5), ("0", None)],
)
def test_durations(text: str, expected: float | None) -> None:
    read = duration(text)
    assert (read.total_seconds() if read is not None else None) == expected


def test_a_duration_that_is_none_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="no duration"):
        duration("soon")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(-1, "0s"), (59.9, "59s"), (60, "1m"), (190, "3m10s"), (7500, "2h5m"), (86400 * 3 + 3600, "3d1h")],
)
def test_durations_for_people(seconds: float, expected: str) -> None:
    assert shown(timedelta(seconds=seconds)) == expected


# ---- kinds, tables, differences, failures


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("gj", ["genericjob.batch.tensorstack.dev"]),
        ("mpijob", ["mpijob.batch.tensorstack.dev", "mpijob.kubeflow.org"]),
        ("mpijobs.kubeflow.org", ["mpijob.kubeflow.org"]),
        ("po", ["pod"]),
        ("ConfigMap", ["configmap"]),
        ("leases.coordination.k8s.io", ["lease.coordination.k8s.io"]),
        ("nonsense", []),
    ],
)
def test_words_for_kinds(word: str, expected: list[str]) -> None:
    assert [qualified(resource) for resource in named(word)] == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), [("jobs", None)]),
        (("pods",), [("pods", None)]),
        (("pods", "a", "b"), [("pods", "a"), ("pods", "b")]),
        (("pod/a",), [("pod", "a")]),
        (("gj/a", "mpijob.kubeflow.org/b"), [("gj", "a"), ("mpijob.kubeflow.org", "b")]),
        (("genericjob", "x", "mpijob/x"), [("genericjob", "x"), ("mpijob", "x")]),
    ],
    ids=["nothing", "kind", "names", "one", "several kinds", "both forms"],
)
def test_what_get_is_asked_for(words: tuple[str, ...], expected: list[tuple[str, str | None]]) -> None:
    assert read_words(words) == expected


@pytest.mark.parametrize(
    ("remedy", "text"),
    [
        (AddNodes(1, {"cpu": 5000}), "add 1 node with at least 5 cpu, which its rules let in"),
        (AddNodes(2, {"cpu": 5000}), "add 2 nodes with at least 5 cpu each, which its rules let in"),
        (AddMembers({"": 1}), "create 1 more pod"),
        (AddMembers({"": 1, "launcher": 1}), "create 1 and 1 of role launcher more pods"),
        (
            GrowNode("vm", {"cpu": 3000, "memory": 2 << 30}),
            (
                "ask for less, or let this machine offer more: "
                "`bireme down`, then `bireme up --cpu 3 --memory 2Gi`"
            ),
        ),
        (AskForNone("vm", ["nvidia.com/gpu"]), "ask for less of nvidia.com/gpu: this machine has no more"),
        (
            LabelNode("vm", {"zone": "mars"}),
            (
                "give this machine's node the labels: `kubectl label --overwrite node vm zone=mars`,"
                " or change the nodeSelector that asks for them"
            ),
        ),
        (
            WriteProfile("q", "small", {"cpu": 2000}),
            (
                "write the key small of the ConfigMap resource-shapes in namespace home, such as"
                " `kubectl -n home patch configmap resource-shapes --type=merge"
                """ -p '{"data": {"small": "{cpu: 2}"}}'`"""
                " (`kubectl -n home create configmap resource-shapes` makes it),"
                " or take resourceShapeProfile out of queue q"
            ),
        ),
    ],
    ids=["node", "nodes", "pod", "pods", "larger machine", "device", "labels", "profile"],
)
def test_what_would_help_is_said_of_one_and_of_several(remedy: Remedy, text: str) -> None:
    assert remedy_text(remedy, "home") == text


def test_a_table_is_printed_as_kubectl_prints_it() -> None:
    table = {
        "columnDefinitions": [
            {"name": "Name"},
            {"name": "Closed"},
            {"name": "Node", "priority": 1},
            {"name": "Age"},
        ],
        "rows": [
            {"cells": ["a", True, "n1", "5s"], "object": {"metadata": {"namespace": "x"}}},
            {"cells": ["longer", None, "n2", "2d"], "object": {"metadata": {"namespace": "y"}}},
        ],
    }
    assert print_table(table, wide=False) == [
        "NAME     CLOSED   AGE",
        "a        true     5s",
        "longer            2d",
    ]
    wide = print_table(table, wide=True, prefix="pod/", namespaced=True)
    assert wide[1] == "x           pod/a        true     n1     5s"


def test_differences_leave_out_what_only_the_server_writes() -> None:
    before = {"kind": "A", "metadata": {"name": "a", "resourceVersion": "1"}, "data": {"x": "1"}}
    after = {"kind": "A", "metadata": {"name": "a", "resourceVersion": "2"}, "data": {"x": "2"}, "status": {}}
    assert differences(before, before) == []
    assert [line for line in differences(before, after) if line[0] in "+-"] == ['-  x: "1"', '+  x: "2"']


def test_a_failure_is_an_error_a_blank_line_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    Failure("it broke\n\nhint: mend it").show()
    Failure("plain").show()
    assert capsys.readouterr().err == "error: it broke\n\nhint: mend it\nerror: plain\n"
    assert Failure("late", exit_code=124).exit_code == 124


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "nothing to run"),
        (["run", "--", "true"], "give one of --mpi and --replicas"),
        (["run", "--mpi", "2", "--replicas", "2", "--", "true"], "give one of --mpi and --replicas"),
        (["run", "-f", "job.yaml", "--mpi", "2", "--", "true"], "a manifest says itself what to run"),
        (["run", "--replicas", "2", "--slots", "2", "--", "true"], "--slots goes with --mpi"),
        (["run", "--context", "x", "--replicas", "2", "--", "true"], "a cluster needs an image"),
        (["run", "--driver", "podman", "--replicas", "2", "--", "true"], "podman needs an image"),
        (["run", "--context", "x", "--driver", "podman", "-f", "-"], "--driver is for this machine"),
        (["run", "-f", "missing.yaml"], "missing.yaml: no such file or directory"),
        (["wait", "hello", "--for", "nonsense"], "not a state"),
        (["wait", "hello", "--timeout", "soon"], "no duration"),
        (["get", "gj/hello", "pods"], "gj/hello pods: not a kind and names of it"),
        (["get", "pods/"], "pods/: not a kind and names of it"),
        (["get", "pods", ""], "not a kind and names of it"),
        (["get", "pods", "hello", "-A"], "--all-namespaces goes with a kind, not with names"),
        (["get", "pod/hello", "-l", "a=b"], "--selector goes with a kind, not with names"),
        (["delete"], "name jobs, or give -f, or --all"),
        (["delete", "hello", "--all"], "name jobs, or give -f, or --all"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_wrong_command_line_is_explained(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_job_that_cant_be_named_so_is_refused_before_anything_starts() -> None:
    result = CliRunner().invoke(cli, ["run", "--name", "Not_A_Name", "--replicas", "1", "--", "true"])
    assert result.exit_code == 1
    assert "error: metadata.name: " in result.stderr


def test_a_cluster_that_is_not_there_is_no_traceback(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        '{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a"}}],'
        ' "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}]}'
    )
    for arguments, message in (
        (["get", "--context", "nowhere", "--kubeconfig", str(kubeconfig)], "nowhere"),
        (["logs", "hello", "--kubeconfig", str(tmp_path / "missing")], "there is no such file"),
        (["run", "--kubeconfig", str(tmp_path / "missing"), *RUN], "there is no such file"),
        (["run", "--kubeconfig", str(kubeconfig), *RUN], "can't connect to 127.0.0.1:1"),
    ):
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 1
        assert message in result.stderr.partition("error: ")[2]
