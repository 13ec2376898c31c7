"""The other commands, and what the command line costs."""

import re
import subprocess
import sys

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from bireme import __version__
from bireme.api.kinds import KINDS
from bireme.cli.main import cli


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


def test_version() -> None:
    assert invoke("--version").stdout == f"bireme {__version__}\n"


def test_help_lists_every_command() -> None:
    listed = invoke("--help").stdout
    assert all(
        f"  {name} " in listed for name in ("crds", "explain", "run", "up", "down", "logs", "validate")
    )


def test_an_unknown_command_is_suggested() -> None:
    result = invoke("valdate")
    assert result.exit_code == 2
    assert "did you mean `validate`?" in result.stderr


# What each takes too much of, or what is missing, refused or not there.
_BAD = {
    "apiserver": ["--port", "many"],
    "controller": ["--kubeconfig", "/nowhere/kubeconfig"],
    "crds": ["nothing"],
    "explain": ["nothing"],
    "render": ["-f", "/nowhere/job.yaml"],
    "run": ["-f", "/nowhere/job.yaml"],
    "scheduler": ["--kubeconfig", "/nowhere/kubeconfig"],
    "simulate": ["-f"],
    "validate": ["-f", "/nowhere/job.yaml"],
    "wait": [],
    "why": ["--kubeconfig", "/nowhere/kubeconfig", "job"],
}


@pytest.mark.parametrize("name", cli.list_commands(click.Context(cli)))
def test_every_command_speaks_of_errors_in_one_voice(name: str) -> None:
    for arguments in (["--nonsense"], _BAD.get(name, ["--nonsense=1"])):
        result = invoke(name, *arguments)
        assert result.exit_code in (1, 2)
        assert result.stderr.startswith("error: "), result.stderr
        assert not re.search(r"Error:|Usage:|Traceback", result.stderr)
        assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["up", "--nonsense"], "No such option '--nonsense'."),
        (["simulate", "-f"], "Option '-f' requires an argument."),
    ],
    ids=["option", "argument"],
)
def test_what_click_finds_wrong_comes_with_a_hint(arguments: list[str], message: str) -> None:
    hint = f"`cli {arguments[0]} --help` says how it is called"
    assert invoke(*arguments).stderr == f"error: {message}\n\nhint: {hint}\n"


def test_crds_are_those_of_the_kinds() -> None:
    documents = list(yaml.safe_load_all(invoke("crds").stdout))
    assert [document["metadata"]["name"] for document in documents] == [kind.crd_name for kind in KINDS]


def test_one_crd_can_be_asked_for() -> None:
    (document,) = yaml.safe_load_all(invoke("crds", "mpijobs.kubeflow.org").stdout)
    assert document["spec"]["group"] == "kubeflow.org"
    assert invoke("crds", "nothing").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["mpijob.spec.worker.cmd"], "FIELD: cmd <[]string>"),
        (["mpijob.spec.worker.cmd"], "The MPI program and its arguments"),
        (["gj.spec.replicaSpecs.restartPolicy"], "policy\t<string>"),
        (["genericjob.spec.successRules"], "FIELD: successRules <[]map[string][]integer>"),
        (["queue.spec.priority"], "MAXIMUM: 100"),
        (["mpijob.spec.runPolicy.cleanUpWorkers"], "ENUM: true, false, all, unfinished, none"),
        (
            ["mj.spec.mpiReplicaSpecs.Worker.template.spec.containers.image"],
            "kubectl explain pod.spec.containers.image",
        ),
        (["mpijob", "--api-version", "kubeflow.org/v1alpha2"], "GROUP:      kubeflow.org"),
        (["pg", "--recursive"], "    minMember\t<integer>"),
        (["colossalaijob.spec.launcher.env"], "valueFrom"),
        (["genericjob"], "  $(service.TYPE[RANK].host)\n    the host name of a replica"),
    ],
)
def test_explain_works_offline(arguments: list[str], expected: str) -> None:
    assert expected in invoke("explain", *arguments).stdout


def test_explain_suggests_what_was_meant() -> None:
    assert "did you mean `worker`?" in invoke("explain", "mpijob.spec.workers").stderr
    assert "did you mean `mpijob`?" in invoke("explain", "mpijb").stderr


def test_a_command_imports_only_what_it_uses() -> None:
    """`--version` needs neither msgspec nor YAML; a manifest is looked at before there is a server."""
    for arguments, unwanted in (
        (["--version"], ["msgspec", "yaml", "bireme.api"]),
        (["explain", "queue"], ["yaml"]),
        (["run", "--help"], ["aiohttp", "msgspec", "yaml"]),
        (["run", "-f", "missing.yaml"], ["aiohttp", "bireme.apiserver"]),
        (["up", "--help"], ["aiohttp", "msgspec", "yaml"]),
    ):
        code = (
            "import sys; from bireme.cli.main import cli\n"
            f"try: cli({arguments!r})\nexcept SystemExit: pass\n"
            f"print([name for name in {unwanted!r} if name in sys.modules])"
        )
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert result.stdout.splitlines()[-1] == "[]"


def test_a_closed_pipe_is_no_traceback() -> None:
    command = f"{sys.executable} -m bireme.cli.main crds | head -1"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert result.stderr == ""
