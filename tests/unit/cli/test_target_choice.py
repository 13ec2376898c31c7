"""Whom commands talk to: the decision, the saved choice, and every verb against stub API servers.

The stubs answer 404 to everything and record what they were asked, so that the whole matrix runs in this
process: neither a daemon nor a cluster is started.
"""

import fcntl
import itertools
import json
import os
import socketserver
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner, Result

from bireme.cli.failures import Failure
from bireme.cli.main import cli
from bireme.cli.places import Asked
from bireme.cli.target_choice import (
    Choice,
    Cluster,
    Local,
    SavedCluster,
    SavedLocal,
    SavedTarget,
    decide,
    load,
    path_of_saved,
    save,
)
from bireme.run.presence import Daemon, write_card

SAVED = SavedCluster("staging", ("/kube/a", "/kube/b"))

# ---- the decision


@pytest.mark.parametrize(
    ("asked", "without", "local", "cluster"),
    [
        (Asked(), Local(), Local(), Cluster(SAVED.kubeconfig, SAVED.context, SAVED)),
        (Asked(namespace="n"), Local(), Local(), Cluster(SAVED.kubeconfig, SAVED.context, SAVED)),
        (Asked(data_dir=Path("d")), *[Local(Path("d"))] * 3),
        (Asked(context="c"), *[Cluster((), "c")] * 3),
        (Asked(kubeconfig="k"), *[Cluster(("k",), None)] * 3),
        (Asked(kubeconfig="k", context="c"), *[Cluster(("k",), "c")] * 3),
    ],
    ids=["nothing", "namespace", "data-dir", "context", "kubeconfig", "kubeconfig and context"],
)
def test_options_decide_then_the_saved_choice_then_this_machine(
    asked: Asked, without: Choice, local: Choice, cluster: Choice
) -> None:
    assert [decide(asked, saved) for saved in (None, SavedLocal(), SAVED)] == [without, local, cluster]


@pytest.mark.parametrize("saved", [None, SavedLocal(), SAVED], ids=["none", "local", "cluster"])
@pytest.mark.parametrize(
    "asked",
    [Asked(data_dir=Path("d"), context="c"), Asked(data_dir=Path("d"), kubeconfig="k")],
    ids=["context", "kubeconfig"],
)
def test_a_folder_and_a_cluster_contradict_each_other(asked: Asked, saved: SavedTarget | None) -> None:
    with pytest.raises(click.UsageError, match="--data-dir is for this machine"):
        decide(asked, saved)


# ---- the saved choice


@pytest.mark.parametrize("saved", [SavedLocal(), SAVED], ids=["local", "cluster"])
def test_a_saved_choice_is_read_back_and_belongs_to_its_owner_alone(saved: SavedTarget) -> None:
    assert load() is None
    save(SavedLocal())
    path = save(saved)
    assert load() == saved
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("value", ["", "relative/config"], ids=["empty", "relative"])
def test_a_config_folder_that_is_not_absolute_is_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", value)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert path_of_saved() == tmp_path / ".config/bireme/target.json"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b'"local"',
        b'{"target": "elsewhere"}',
        b'{"target": "cluster", "context": "c"}',
        b'{"target": "cluster", "context": "", "kubeconfig": ["/k"]}',
        b'{"target": "cluster", "context": "c", "kubeconfig": []}',
        b'{"target": "cluster", "context": "c", "kubeconfig": ["relative"]}',
    ],
    ids=[
        "empty",
        "not text",
        "not an object",
        "unknown",
        "no files",
        "empty context",
        "empty files",
        "relative",
    ],
)
def test_a_saved_choice_that_cant_be_read_is_an_error_with_a_remedy(content: bytes) -> None:
    path = save(SavedLocal())
    path.write_bytes(content)
    with pytest.raises(Failure, match="can't read the saved target") as raised:
        load()
    assert "`bireme use local`" in raised.value.hint
    for arguments in (["get"], ["delete", "--all", "--yes"], ["run", "--replicas", "1", "--", "true"]):
        result = invoke(*arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"error: can't read the saved target {path}: ")
    assert "error: can't read" not in invoke("get", "--data-dir", "/dev/null/none").stderr
    assert invoke("use", "local").exit_code == 0
    assert load() == SavedLocal()


def test_a_saved_choice_that_may_not_be_opened_is_an_error(tmp_path: Path) -> None:
    """A folder in place of the file: root, too, can't read it."""
    (tmp_path / "config/bireme/target.json").mkdir(parents=True)
    with pytest.raises(Failure, match=r"can't read the saved target .*: it is not a regular file"):
        load()


# ---- every verb


class Request(NamedTuple):
    method: str
    path: str


MISSING = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "none"}
EMPTY = {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}
# What the scheduler's state is made of: `queue` and `simulate` read all of these at once.
LISTED = (
    "nodes", "pods", "queues", "podgroups", "namespaces", "persistentvolumeclaims", "persistentvolumes",
    "storageclasses",
)  # fmt: skip


class Stub:
    """An API server that has nothing, on a TCP port or a Unix socket."""

    def __init__(self, socket: Path | None = None) -> None:
        self.requests: list[Request] = []
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                requests.append(Request(self.command, self.path))
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                is_list = self.path.partition("?")[0].rpartition("/")[2] in LISTED
                body = json.dumps(EMPTY if is_list else MISSING)
                self.send_response(200 if is_list else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - http.server's names

            def log_message(self, *_: Any) -> None:
                pass

        class TcpServer(ThreadingHTTPServer):
            # `queue` opens eight connections at once; the kernel drops those beyond the backlog of 5.
            request_queue_size = 64

        class UnixServer(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True
            request_queue_size = 64

        self._server: socketserver.BaseServer
        if socket is None:
            server = TcpServer(("127.0.0.1", 0), Handler)
            self.url = f"http://127.0.0.1:{server.server_port}"
            self._server = server
        else:
            self._server = UnixServer(str(socket), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class World(NamedTuple):
    """A user's files, a daemon on this machine, and a cluster."""

    home: Path
    machine: Stub
    cluster: Stub
    kubeconfig: Path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("world")
    running = home / "running/bireme"
    running.mkdir(parents=True)
    machine, cluster = Stub(home / "socket"), Stub()
    kubeconfig = home / "kubeconfig"
    kubeconfig.write_text(json.dumps(_kubeconfig("prod", cluster.url)))
    # The lock of a daemon that runs, and what it says of itself.
    lock = os.open(running / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, str(os.getpid()).encode())
    own = running / "kubeconfig"
    own.write_text(json.dumps(_kubeconfig("bireme", "https://127.0.0.1:1")))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    write_card(
        running, Daemon(os.getpid(), "https://127.0.0.1:1", str(own), now, socket=str(home / "socket"))
    )
    # A file where a folder should be: no daemon can be started below it.
    (home / "stopped").touch()
    (home / "job.yaml").write_text(JOB)
    yield World(home, machine, cluster, kubeconfig)
    machine.close()
    cluster.close()
    os.close(lock)


def _kubeconfig(name: str, server: str) -> dict[str, Any]:
    return {
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name, "user": {"token": "t"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
    }


# `newField` is a warning, which comes after the line that names the target.
JOB = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: hello}
spec:
  scheduler: {t9kScheduler: {queue: main}}
  replicaSpecs:
    - type: worker
      template: {spec: {newField: 1, containers: [{name: main, image: none, command: ["true"]}]}}
"""
VERBS = {
    "get": ["get"],
    "logs": ["logs", "hello"],
    "wait": ["wait", "hello"],
    "delete": ["delete", "hello"],
    "delete --all": ["delete", "--all"],
    "delete -f": ["delete", "-f", "job.yaml"],
    "pause": ["pause", "hello"],
    "resume": ["resume", "hello"],
    "apply": ["apply", "-f", "job.yaml"],
    "run": ["run", "-d", "-f", "job.yaml"],
    "queue": ["queue"],
    "why": ["why", "hello"],
    "simulate": ["simulate", "-f", "job.yaml"],
}
DESTRUCTIVE = ("delete", "delete --all", "delete -f", "pause")
OPTIONS = ("", "--context", "--kubeconfig", "--data-dir")
MATRIX = [
    pytest.param(*case, id=", ".join((case[0], *(word for word in case[1:] if word))))
    for case in itertools.product(
        VERBS,
        ("daemon", "no daemon"),
        ("kubeconfig", "no kubeconfig"),
        ("none saved", "local saved", "cluster saved"),
        OPTIONS,
    )
    # With an option, only where everything else contradicts it; `decide` is tested in full above.
    if not case[4]
    or case[2:4] == ("kubeconfig", "cluster saved" if case[4] == "--data-dir" else "local saved")
]


def expected_target(saved: str, option: str) -> str:
    """The rule in one line: neither the daemon nor kubectl's own kubeconfig is in it."""
    if option in ("--context", "--kubeconfig"):
        return "cluster"
    return "cluster" if saved == "cluster saved" and not option else "machine"


@pytest.mark.parametrize(("verb", "daemon", "kubeconfig", "saved", "option"), MATRIX)
def test_every_verb_talks_to_the_target_that_was_chosen(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    daemon: str,
    kubeconfig: str,
    saved: str,
    option: str,
) -> None:
    state = world.home / ("running" if daemon == "daemon" else "stopped")
    monkeypatch.chdir(world.home)
    monkeypatch.setenv("HOME", str(world.home / "nobody"))
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("KUBECONFIG", str(world.kubeconfig) if kubeconfig == "kubeconfig" else "")
    if saved != "none saved":
        is_local = saved == "local saved"
        save(SavedLocal() if is_local else SavedCluster("prod", (str(world.kubeconfig),)))
    values = {"--context": "prod", "--kubeconfig": "kubeconfig", "--data-dir": f"{state}/bireme"}
    name, *words = VERBS[verb]
    world.machine.requests.clear()
    world.cluster.requests.clear()

    result = invoke(name, *([option, values[option]] if option else []), *words)

    target = expected_target(saved, option)
    first, *more = result.stderr.splitlines()
    if target == "cluster":
        assert first.startswith(f"on {world.cluster.url} (")
        assert first.endswith("kubeconfig, context prod)")
        assert world.machine.requests == []
        unconfirmed = verb in DESTRUCTIVE
        assert bool(world.cluster.requests) is not unconfirmed
        assert (result.exit_code == 2) is unconfirmed
        assert ("must be confirmed" in result.stderr) is unconfirmed
    else:
        assert first == f"on this machine ({state}/bireme)"
        assert world.cluster.requests == []
        unconfirmed = verb == "delete --all"
        assert bool(world.machine.requests) is (daemon == "daemon" and not unconfirmed)
        if daemon == "no daemon":
            # The attempt to start one: it comes after the target was named.
            assert more[0] == f"error: can't use {state}/bireme: Not a directory"
        else:
            assert ("must be confirmed" in result.stderr) is unconfirmed


# ---- bireme use


class Kubeconfigs(NamedTuple):
    folder: Path
    first: str
    second: str


@pytest.fixture
def kubeconfigs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubeconfigs:
    """Two files of $KUBECONFIG, one of them by a relative path, and one that does not exist."""
    for name in ("first", "second"):
        (tmp_path / name).write_text(json.dumps(_kubeconfig(name, f"https://{name}.example")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", f"first:{tmp_path}/second:{tmp_path}/missing")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return Kubeconfigs(tmp_path, str(tmp_path / "first"), str(tmp_path / "second"))


def test_use_saves_a_context_with_the_absolute_paths_of_its_files(kubeconfigs: Kubeconfigs) -> None:
    result = invoke("use", "second")
    title = f"https://second.example ({kubeconfigs.second}, context second)"
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"commands talk to {title}\n")
    assert load() == SavedCluster("second", (kubeconfigs.first, kubeconfigs.second))


def test_use_takes_a_context_of_the_file_that_is_named(kubeconfigs: Kubeconfigs) -> None:
    assert invoke("use", "first", "--kubeconfig", "first").exit_code == 0
    assert load() == SavedCluster("first", (kubeconfigs.first,))


def test_use_local_replaces_a_saved_cluster(kubeconfigs: Kubeconfigs) -> None:
    invoke("use", "first")
    result = invoke("use", "local")
    assert result.stderr == f"commands talk to this machine ({kubeconfigs.folder}/.local/state/bireme)\n"
    assert load() == SavedLocal()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["third"],
            1,
            "there is no context third in {0.first}, {0.second}\n\nhint: contexts: first, second\n",
        ),
        (
            ["second", "--kubeconfig", "first"],
            1,
            "there is no context second in {0.first}\n\nhint: contexts: first\n",
        ),
        (["first", "--kubeconfig", "missing"], 1, "{0.folder}/missing: there is no such file\n"),
        (["local", "--kubeconfig", "first"], 2, "`bireme use local` is this machine, and has no kubeconfig"),
        ([""], 2, "CONTEXT or --kubeconfig is empty"),
    ],
    ids=["no such context", "in another file", "no such file", "file of this machine", "empty"],
)
def test_use_refuses_what_it_cant_find_and_keeps_the_choice(
    kubeconfigs: Kubeconfigs, arguments: list[str], code: int, message: str
) -> None:
    invoke("use", "first")
    result = invoke("use", *arguments)
    assert result.exit_code == code
    assert result.stderr.startswith(f"error: {message.format(kubeconfigs)}")
    assert load() == SavedCluster("first", (kubeconfigs.first, kubeconfigs.second))


def test_use_without_a_context_prints_the_choice_and_the_contexts(kubeconfigs: Kubeconfigs) -> None:
    contexts = f"contexts of {kubeconfigs.first}, {kubeconfigs.second}: first, second\n"
    assert (invoke("use").stdout, invoke("use").stderr) == ("local\n", contexts)
    invoke("use", "second", "--kubeconfig", "second")
    assert (invoke("use").stdout, invoke("use").stderr) == (
        "second\n",
        f"contexts of {kubeconfigs.second}: second\n",
    )
    Path(kubeconfigs.second).write_text("[")
    broken = invoke("use")
    assert (broken.exit_code, broken.stdout) == (0, "second\n")
    assert broken.stderr.startswith(f"contexts: {kubeconfigs.second}: not YAML: ")


def test_status_names_the_saved_target(kubeconfigs: Kubeconfigs) -> None:
    assert "target:" not in invoke("status").stdout
    invoke("use", "first", "--kubeconfig", "first")
    told = f"target:     context first of {kubeconfigs.first}, saved by `bireme use`\n"
    assert invoke("status").stdout.endswith(told)
    (kubeconfigs.folder / "config/bireme/target.json").write_text("{")
    assert "target:     can't read the saved target" in invoke("status").stdout


@pytest.mark.parametrize("change", ["file gone", "context gone"])
def test_a_saved_cluster_that_cant_be_resolved_is_an_error_for_every_verb(
    kubeconfigs: Kubeconfigs, change: str
) -> None:
    """Also where another file of the saved ones has a context of the same name."""
    other = _kubeconfig("first" if change == "file gone" else "second", "https://second.example")
    Path(kubeconfigs.second).write_text(json.dumps(other))
    invoke("use", "first")
    if change == "file gone":
        Path(kubeconfigs.first).unlink()
    else:
        Path(kubeconfigs.first).write_text(json.dumps(_kubeconfig("renamed", "https://first.example")))
    saved = f"context first of {kubeconfigs.first}, {kubeconfigs.second}"
    (kubeconfigs.folder / "job.yaml").write_text(JOB)
    for name, *words in VERBS.values():
        result = invoke(name, *words)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"error: can't use the saved target, {saved}: ")
        assert "hint: `bireme use local` returns to this machine" in result.stderr


@pytest.mark.parametrize("option", ["--context", "--kubeconfig"])
def test_an_empty_option_is_refused(option: str) -> None:
    """As of a variable that is not set: it must not mean the current context."""
    for name, *words in [*VERBS.values(), ["doctor"]]:
        result = invoke(name, option, "", *words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"Invalid value for '{option}': it is empty" in result.stderr


def test_doctor_needs_a_cluster_that_was_named(kubeconfigs: Kubeconfigs) -> None:
    unnamed = invoke("doctor")
    assert unnamed.exit_code == 2
    assert unnamed.stderr.startswith("error: no cluster was named\n\nhint: `bireme doctor --context CONTEXT`")
    Path(kubeconfigs.first).write_text(json.dumps(_kubeconfig("first", "http://127.0.0.1:1")))
    save(SavedCluster("first", (kubeconfigs.first,)))
    named = invoke("doctor")
    assert named.exit_code == 3
    where = f"on http://127.0.0.1:1 ({kubeconfigs.first}, context first), namespace bireme-system\n"
    assert named.stderr.startswith(where)
    Path(kubeconfigs.first).unlink()
    gone = invoke("doctor")
    assert gone.exit_code == 3
    assert gone.stderr.startswith("error: can't use the saved target, context first of ")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)
