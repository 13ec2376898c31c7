"""`bireme run`: run jobs to their end, here or on a cluster."""

import re
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from bireme.cli.foreign_options import count_own
from bireme.cli.running import RunOptions, Work, checked, refuse_driver, require_image, run_options, run_work

if TYPE_CHECKING:
    from bireme.cli.manifests import Manifests
    from bireme.cli.target_choice import Choice

Object = dict[str, Any]

_HINT: Final = "bireme run -f job.yaml, or bireme run --mpi 4 -- ./program"
_LAUNCHERS: Final = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "srun")
_COUNT: Final = re.compile(r"-n(p?)([0-9]*)")


class Program(NamedTuple):
    """A command that a job is to be made of, and how often it runs."""

    words: tuple[str, ...]
    mpi: int | None
    slots: int | None
    replicas: int | None


class _Command(click.Command):
    """Explains mpirun's number of ranks, `-np 8` or `-n 8`, which click would take for a namespace."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = args[: count_own(self, ctx, args) + 2]
        for word, following in pairwise([*own, ""]):
            count = _COUNT.fullmatch(word)
            if count and (count[1] or count[2] or following.isdecimal()):
                raise click.UsageError(_explain_count(word, count[2] or following), ctx)
            if word == "--":
                break
        return super().parse_args(ctx, args)


def _explain_count(word: str, number: str) -> str:
    ranks = number if number.isdecimal() else "8"
    return (
        f"{word} is mpirun's option, and `run` has --mpi and --slots\n\n"
        f"hint: bireme mpirun -np {ranks} ./program, or bireme run --mpi {ranks} -- ./program;"
        " --namespace names a namespace"
    )


@click.command(cls=_Command, context_settings={"allow_interspersed_args": False})
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-f", "--filename", "files", metavar="FILE|DIR|-", multiple=True, help="Manifests; `-` is stdin."
)
@click.option("--mpi", type=click.IntRange(1), metavar="N", help="Run COMMAND as an MPIJob with N workers.")
@click.option(
    "--slots", type=click.IntRange(1), metavar="S", help="Ranks per worker, with --mpi. Default: 1."
)
@click.option("--replicas", type=click.IntRange(1), metavar="N", help="Run COMMAND N times, as a GenericJob.")
@click.option(
    "--stdin/--no-stdin",
    "stdin",
    default=None,
    help="Pass standard input on, to rank 0 or the only replica. Default: with --mpi, if it is no terminal.",
)
@run_options
def command(
    words: tuple[str, ...],
    files: tuple[str, ...],
    mpi: int | None,
    slots: int | None,
    replicas: int | None,
    stdin: bool | None,
    options: RunOptions,
) -> None:
    """Run jobs, show what their replicas print, and wait for their end.

    \b
    bireme run -f job.yaml
    bireme run --mpi 4 --slots 2 -- python3 train.py
    bireme run --replicas 3 -- sh -c 'echo replica $(rank)'

    Jobs run on this machine, in a daemon that is started if there is none, or on the cluster that --context,
    --kubeconfig or `bireme use` names. A finished job of the same name is replaced; on a cluster you are
    asked first, and without a terminal --yes is needed. Exit status: 0 on success, else that of the replica
    that failed first (1 if it has none); 130 when stopped by Ctrl-C.
    """
    from bireme.cli.target_choice import read_choice

    program = Program(words, mpi, slots, replicas)
    choice = read_choice(options.asked)
    if files:
        refuse_driver(choice, options)
        work = _of_manifests(files, program, options, stdin=stdin)
    else:
        work = _of_command(choice, program, options, stdin=stdin)
    run_work(choice, options, work)


def _of_manifests(
    files: tuple[str, ...], program: Program, options: RunOptions, *, stdin: bool | None
) -> Work:
    if any(program) or options.image or options.variables:
        raise click.UsageError("a manifest says itself what to run\n\nhint: give -f or a command, not both")
    from bireme.cli.manifests import load

    manifests = load(files)
    if stdin and "-" in files:
        raise click.UsageError("standard input is the manifest: --stdin has nothing to pass on")
    if stdin:
        manifests = _reading_stdin(manifests)
    if "-" in files:
        return Work(manifests, files)
    from bireme.cli.stdin_plan import plan_stdin

    return Work(manifests, files, stdin=plan_stdin("replica", wanted=stdin, detach=options.detach))


def _reading_stdin(manifests: "Manifests") -> "Manifests":
    """The manifests, with the one job in them reading standard input. Raises click.UsageError if it can't."""
    from bireme.cli.manifests import is_job, with_annotations
    from bireme.planning.identity import STDIN_ANNOTATION

    jobs = [obj for obj in manifests.objects if is_job(obj)]
    if len(jobs) != 1 or (jobs[0]["apiVersion"], jobs[0]["kind"]) != (_BATCH, "MPIJob"):
        raise click.UsageError(
            "--stdin with manifests is for one MPIJob\n\n"
            "hint: in other kinds, `stdin: true` lets a container read what `kubectl attach -i` sends"
        )
    objects = [
        with_annotations(obj, {STDIN_ANNOTATION: "true"}) if is_job(obj) else obj for obj in manifests.objects
    ]
    return manifests._replace(objects=objects)


_BATCH: Final = "batch.tensorstack.dev/v1beta1"


def _of_command(choice: "Choice", program: Program, options: RunOptions, *, stdin: bool | None) -> Work:
    if not program.words:
        raise click.UsageError(f"nothing to run\n\nhint: {_HINT}")
    if (program.mpi is None) == (program.replicas is None):
        raise click.UsageError(f"give one of --mpi and --replicas with a command\n\nhint: {_HINT}")
    if program.slots and program.mpi is None:
        raise click.UsageError("--slots goes with --mpi")
    require_image(choice, options)
    if program.mpi is not None:
        from bireme.cli.mpirun import mpi_work

        _refuse_launcher(program)
        arguments = ["-N", str(program.slots or 1)]
        return mpi_work(program.mpi, arguments, program.words, options, stdin=stdin)
    return _replica_work(program, options, stdin=stdin)


def _refuse_launcher(program: Program) -> None:
    """Refuse a launcher in the place of the program: each rank would start a world of its own."""
    name = PurePath(program.words[0]).name
    rest = " ".join(program.words[1:])
    if name in _LAUNCHERS:
        raise click.UsageError(
            f"{program.words[0]}: Bireme calls mpirun itself, so that every rank would start another one\n\n"
            f"hint: bireme mpirun {rest}, or bireme run --mpi {program.mpi} -- PROGRAM without {name}"
        )
    if name == "torchrun":
        raise click.UsageError(f"torchrun starts its processes itself\n\nhint: bireme torchrun {rest}")


def _replica_work(program: Program, options: RunOptions, *, stdin: bool | None) -> Work:
    import secrets

    from bireme.cli.adhoc import LOCAL_IMAGE, build_generic_job, job_name
    from bireme.cli.manifests import Manifests
    from bireme.cli.stdin_plan import plan_stdin

    replicas = program.replicas or 1
    if stdin and replicas > 1:
        raise click.UsageError("--stdin is for one replica: it can't be read by several")
    plan = plan_stdin("replica", wanted=stdin, detach=options.detach)
    name = job_name(program.words, secrets.token_hex(3))
    image = options.image or LOCAL_IMAGE
    job = build_generic_job(name, replicas, program.words, image, options.env, with_stdin=plan.forwards)
    return Work(Manifests([checked(job)]), stdin=plan)
