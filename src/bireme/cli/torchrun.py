"""`bireme torchrun`: a PyTorch program on one machine, with torchrun's own command line."""

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

import click

from bireme.cli.foreign_options import ForeignCommand
from bireme.cli.running import RunOptions, Work, checked, require_image, run_options, run_work

_HINT: Final = "bireme torchrun --nproc-per-node 2 train.py"
_FLAGS: Final = frozenset({"standalone", "m", "module", "no-python", "run-path", "no-numa"})
_RENDEZVOUS: Final = frozenset(
    {"nnodes", "node-rank", "master-addr", "master-port", "rdzv-backend", "rdzv-endpoint", "rdzv-id"}
)


class CommandLine(NamedTuple):
    """A command line of torchrun: processes per node, other options, and the script with its arguments."""

    processes: str
    arguments: list[str]
    script: list[str]


@click.command(cls=ForeignCommand)
@click.argument("words", metavar="[TORCHRUN-OPTIONS] SCRIPT [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
@click.option("--gpus", type=click.IntRange(0), metavar="N", help="GPUs. Default: one for each process.")
@run_options
def command(words: tuple[str, ...], gpus: int | None, options: RunOptions) -> None:
    """Run a PyTorch program as torchrun does, on one machine.

    \b
    bireme torchrun --nproc-per-node 2 train.py --epochs 3
    bireme torchrun --name fit --env-all --standalone --nproc-per-node gpu -m package.train

    The job is a ColossalAIJob with one worker. Options of Bireme come first; from the first other word on,
    everything is torchrun's. Processes meet on this machine; for several nodes write a ColossalAIJob.
    """
    import secrets

    from bireme.cli.adhoc import LOCAL_IMAGE, build_torch_job, job_name
    from bireme.cli.manifests import Manifests
    from bireme.cli.stdin_plan import plan_stdin
    from bireme.cli.target_choice import read_choice
    from bireme.node.machine import count_gpus

    line = parse(words)
    choice = read_choice(options.asked)
    require_image(choice, options)
    there = count_gpus()
    processes = count_processes(line.processes, there, len(os.sched_getaffinity(0)))
    if gpus is None:
        gpus = processes if processes <= there else 0
    name, image = job_name(line.script, secrets.token_hex(3)), options.image or LOCAL_IMAGE
    job = build_torch_job(name, processes, line.arguments, line.script, image, options.env, gpus)
    plan = plan_stdin("none", detach=options.detach)
    run_work(choice, options, Work(Manifests([checked(job)]), stdin=plan))


def parse(words: Sequence[str]) -> CommandLine:
    """Split torchrun's command line. Raises click.UsageError for options that are not for one machine."""
    processes, arguments, position = "1", list[str](), 0
    while position < len(words) and words[position].startswith("-"):
        option, has_value, value = words[position].partition("=")
        name = option.lstrip("-").replace("_", "-")
        values = list(words[position : position + 1])
        if not has_value and name not in _FLAGS:
            value = words[position + 1] if position + 1 < len(words) else ""
            values = list(words[position : position + 2])
        position += len(values)
        if name == "nproc-per-node":
            processes = value
        elif name in _RENDEZVOUS and not (name == "nnodes" and value in ("1", "1:1")):
            raise click.UsageError(
                f"{option}: `bireme torchrun` runs on one machine\n\n"
                "hint: a ColossalAIJob has several workers: bireme explain colossalaijob.spec.worker"
            )
        elif name not in ("standalone", "nnodes"):
            arguments += values
    script = list(words[position:])
    if not script:
        raise click.UsageError(f"nothing to run\n\nhint: {_HINT}")
    return CommandLine(processes, arguments, script)


def count_processes(wanted: str, gpus: int, cpus: int) -> int:
    """Return how many processes `--nproc-per-node` means: a number, or `gpu`, `cpu` or `auto`."""
    if wanted in ("gpu", "cpu", "auto"):
        if wanted == "gpu" and not gpus:
            raise click.UsageError("--nproc-per-node gpu: this machine has no GPU")
        return cpus if wanted == "cpu" or not gpus else gpus
    if not wanted.isdecimal() or int(wanted) < 1:
        raise click.UsageError(f"--nproc-per-node {wanted}: must be a number, or gpu, cpu or auto")
    return int(wanted)
