"""The entry point: a group of commands that are imported when they are called."""

import os
import sys
from importlib import import_module

import click

from bireme import __version__
from bireme.cli.failures import Group

# One line per command, so that `bireme --help` imports none of them.
_COMMANDS = {
    "apiserver": "Serve Kubernetes' API on this machine, without a cluster.",
    "apply": "Create or change the objects of manifests.",
    "controller": "Run the jobs of a cluster.",
    "crds": "Print the CustomResourceDefinitions.",
    "daemon": "Run jobs on this machine, in the foreground.",
    "delete": "Delete jobs or other objects.",
    "demo": "Run a small MPI job on this machine.",
    "doctor": "Check an installation on a cluster, and say what to fix.",
    "down": "Stop the embedded mode and all that runs in it.",
    "explain": "Describe a kind or one of its fields, offline.",
    "get": "Print jobs or other objects.",
    "kubeconfig": "Print where the kubeconfig of the embedded API server is.",
    "logs": "Print the output of a job's replicas, or of a pod.",
    "manifests": "Print all objects of an installation on a cluster.",
    "mpirun": "Run an MPI program on one machine, with mpirun's own command line.",
    "pause": "Stop the pods of jobs until they are resumed.",
    "queue": "Print the queues of a cluster, and what waits in them.",
    "render": "Print the objects that a job is made of, offline.",
    "resume": "Let paused jobs go on.",
    "run": "Run jobs, show their output, and wait for their end.",
    "scheduler": "Place the pods of queued jobs on a cluster.",
    "simulate": "Say whether a queued job would start now, and where.",
    "status": "Say whether the embedded mode runs, and what it does.",
    "torchrun": "Run a PyTorch program on one machine, with torchrun's own command line.",
    "up": "Start the embedded mode in the background.",
    "use": "Choose the cluster that commands talk to, or this machine.",
    "validate": "Check manifests, offline, with the same rules as a cluster.",
    "wait": "Wait until a job has ended, or has come to another state.",
    "webhooks": "Serve the admission webhooks of a cluster.",
    "why": "Say why a queued job waits, and what would help.",
}
# Where the name means something else already.
_MODULES = {"manifests": "manifests_command"}


class LazyGroup(Group):
    """Resolves a command `name` to the attribute `command` of a module, mostly `bireme.cli.name`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = _MODULES.get(cmd_name, cmd_name)
        command: click.Command = import_module(f"bireme.cli.{module}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise _with_suggestion(error, args[0]) from error


def _with_suggestion(error: click.UsageError, name: str) -> click.UsageError:
    from bireme.admission.words import closest

    near = closest(name, _COMMANDS)
    hint = f"\n\nhint: did you mean `{near}`?" if near else ""
    return click.UsageError(f"no such command: {name}{hint}", error.ctx)


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="bireme %(version)s")
def cli() -> None:
    """Distributed batch jobs described by one Kubernetes manifest."""


def main() -> None:
    """Run the command line; no traceback reaches the user of a closed pipe."""
    _replace_closed_streams()
    try:
        cli(prog_name="bireme")
    except BrokenPipeError:
        # The reader has gone (`bireme crds | head`): say nothing, also not at interpreter exit.
        sys.stderr.close()
        sys.exit(1)


def _replace_closed_streams() -> None:
    """Let what was closed (`bireme run >&-`) lead nowhere; else a file or a socket would take its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - stays open


if __name__ == "__main__":
    main()
