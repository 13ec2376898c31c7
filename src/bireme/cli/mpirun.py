"""`bireme mpirun`: an MPI program on one machine, with mpirun's own command line."""

from collections.abc import Sequence
from typing import Final

import click

from bireme.cli.foreign_options import ForeignCommand
from bireme.cli.running import RunOptions, Work, checked, require_image, run_options, run_work

_HINT: Final = "bireme mpirun -n 4 ./program"


@click.command(cls=ForeignCommand)
@click.argument("words", metavar="[MPIRUN-OPTIONS] PROGRAM [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
@run_options
def command(words: tuple[str, ...], options: RunOptions) -> None:
    """Run an MPI program as mpirun does: on one machine, with shared memory between all ranks.

    \b
    bireme mpirun -n 4 ./a.out input.dat
    bireme mpirun --name fit --env-all -n 2 --bind-to core python3 fit.py

    The job is an MPIJob with one worker. Options of Bireme come first; from the first other word on,
    everything is mpirun's. Without a number of ranks there is one for each core. Standard input goes to rank
    0. `bireme run --mpi N` makes several workers instead, as on a cluster.
    """
    from bireme.api.mpirun import ranks_per_node, split_program, total_processes
    from bireme.cli.target_choice import read_choice

    arguments, program = split_program(words)
    choice = read_choice(options.asked)
    require_image(choice, options)
    if ranks_per_node(arguments) is None and total_processes(arguments, program) is None:
        arguments = ["-n", str(_count_cores()), *arguments]
    run_work(choice, options, mpi_work(1, arguments, program, options, takes_terminal=True))


def mpi_work(
    workers: int,
    arguments: Sequence[str],
    words: Sequence[str],
    options: RunOptions,
    *,
    stdin: bool | None = None,
    takes_terminal: bool = False,
) -> Work:
    """Make an MPIJob of a command; options of mpirun may stand before the program in `words`."""
    import secrets

    from bireme.api.mpirun import exported_variables, split_contexts, split_program, stdin_option
    from bireme.cli.adhoc import LOCAL_IMAGE, build_mpi_job, job_name
    from bireme.cli.manifests import Manifests
    from bireme.cli.stdin_plan import plan_stdin

    more, program = split_program(words)
    arguments = [*arguments, *more]
    _check(arguments)
    if not program:
        raise click.UsageError(f"nothing to run\n\nhint: {_HINT}")
    others = [split_program(context)[0] for context in split_contexts(program)[1:]]
    for context in others:
        _check(context)
    target = stdin_option(arguments)
    if target not in (None, "none", "0"):
        raise click.UsageError(f"--stdin {target}: only rank 0 can read standard input, or none")
    wanted = False if target == "none" else stdin
    plan = plan_stdin("rank 0", wanted=wanted, detach=options.detach, takes_terminal=takes_terminal)
    name = job_name(split_contexts(program)[0], secrets.token_hex(3))
    image = options.image or LOCAL_IMAGE
    job = build_mpi_job(name, workers, arguments, program, image, options.env, with_stdin=plan.forwards)
    return Work(
        Manifests([checked(job)]),
        mpi_program=program[0],
        exported=exported_variables([*arguments, *(word for context in others for word in context)]),
        stdin=plan,
    )


def _check(arguments: Sequence[str]) -> None:
    """Raise click.UsageError for options of mpirun that can't be passed on."""
    from bireme.api.mpirun import HOST_OPTIONS, parse_options, unknown_options

    for option in parse_options(arguments):
        if option.name in HOST_OPTIONS:
            raise click.UsageError(
                f"{arguments[option.index]}: Bireme tells mpirun its hosts: the workers of the job\n\n"
                "hint: bireme run --mpi N -- PROGRAM makes N workers"
            )
    for option_word in unknown_options(arguments):
        raise click.UsageError(
            f"{option_word}: not known whether this option of mpirun takes a value\n\n"
            f"hint: write {option_word}=VALUE, or put `--` before the program"
        )


def _count_cores() -> int:
    import os

    from bireme.node.cpus import read_cores

    return len(read_cores(os.sched_getaffinity(0)))
