"""`bireme run`: run jobs to their end, here or on a cluster."""

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bireme.cli.places import Asked, driver_option, target_options, yes_option

if TYPE_CHECKING:
    from bireme.cli.manifests import Manifests
    from bireme.cli.sending import Submission
    from bireme.cli.target_choice import Choice
    from bireme.cli.targets import Target

Object = dict[str, Any]

_HINT = "bireme run -f job.yaml, or bireme run --mpi 4 -- ./program"


class Program(NamedTuple):
    """A command that a job is to be made of, and how often it runs."""

    words: tuple[str, ...]
    mpi: int | None
    slots: int | None
    replicas: int | None
    image: str | None
    variables: tuple[str, ...]


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-f", "--filename", "files", metavar="FILE|DIR|-", multiple=True, help="Manifests; `-` is stdin."
)
@click.option("--mpi", type=click.IntRange(1), metavar="N", help="Run COMMAND as an MPIJob with N workers.")
@click.option(
    "--slots", type=click.IntRange(1), metavar="S", help="Ranks per worker, with --mpi. Default: 1."
)
@click.option("--replicas", type=click.IntRange(1), metavar="N", help="Run COMMAND N times, as a GenericJob.")
@click.option("--image", help="Image of COMMAND's containers; a cluster and podman need one.")
@click.option(
    "-e",
    "--env",
    "variables",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="A variable for COMMAND; without a value, as it is here.",
)
@click.option("--name", help="Name of the job instead of that of the manifest.")
@driver_option(None)
@click.option("-d", "--detach", is_flag=True, help="Do not wait: print the job's name and return.")
@yes_option
@target_options
def command(
    words: tuple[str, ...],
    files: tuple[str, ...],
    mpi: int | None,
    slots: int | None,
    replicas: int | None,
    image: str | None,
    variables: tuple[str, ...],
    name: str | None,
    driver: str | None,
    asked: Asked,
    *,
    detach: bool,
    yes: bool,
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

    program = Program(words, mpi, slots, replicas, image, variables)
    choice = read_choice(asked)
    needs_image = _image_requirement(choice, driver)
    manifests = _renamed(_manifests(files, program, needs_image), name)
    # Only now: what is wrong with a manifest is told before anything is started, or imported for it.
    from bireme.cli.targets import prepare, run

    target = prepare(choice)
    manifests.show_warnings()
    said = {"bireme.dev/driver": driver} if driver else {}
    here = target.daemon is not None and "podman" not in (driver, target.daemon.driver)
    unused = bool(files) and here and _name_images(manifests.objects)
    going = _run(
        target,
        asked.namespace,
        manifests.objects,
        said,
        _own_mpi(program),
        images_unused=unused,
        detach=detach,
        confirmed=yes or not target.is_cluster,
        files=files,
    )
    raise SystemExit(run(going))


def _image_requirement(choice: "Choice", driver: str | None) -> str:
    """Return what needs an image, if anything. Raises click.UsageError for a driver on a cluster."""
    from bireme.cli.target_choice import Cluster

    if not isinstance(choice, Cluster):
        return "podman" if driver == "podman" else ""
    cluster = "a cluster" if choice.saved is None else f"a cluster (`bireme use` chose {choice.saved})"
    if driver:
        raise click.UsageError(f"--driver is for this machine: {cluster} runs pods its own way")
    return cluster


def _own_mpi(program: Program) -> list[str]:
    """The folder of the mpirun that came with an MPI program, if any."""
    if program.mpi is None:
        return []
    from bireme.cli.adhoc import mpi_folder

    folder = mpi_folder(program.words[0])
    return [] if folder is None else [folder]


def _name_images(objects: list[Object]) -> bool:
    import msgspec

    from bireme.cli.manifests import is_job

    return any(b'"image":' in msgspec.json.encode(obj) for obj in objects if is_job(obj))


def _manifests(files: tuple[str, ...], program: Program, needs_image: str) -> "Manifests":
    """What to send: what manifests hold, or a job that is made of a command."""
    from bireme.cli.manifests import Manifests, load

    if files:
        if any(program):
            raise click.UsageError(
                "a manifest says itself what to run\n\nhint: give -f or a command, not both"
            )
        return load(files)
    if not program.words:
        raise click.UsageError(f"nothing to run\n\nhint: {_HINT}")
    if (program.mpi is None) == (program.replicas is None):
        raise click.UsageError(f"give one of --mpi and --replicas with a command\n\nhint: {_HINT}")
    if program.slots and program.mpi is None:
        raise click.UsageError("--slots goes with --mpi")
    if needs_image and program.image is None:
        raise click.UsageError(f"{needs_image} needs an image\n\nhint: --image registry.example/program:1")
    return Manifests([_checked(_job_of(program))])


def _job_of(program: Program) -> Object:
    import secrets

    from bireme.cli.adhoc import LOCAL_IMAGE, build_generic_job, build_mpi_job, job_name

    words, image = list(program.words), program.image or LOCAL_IMAGE
    name, env = job_name(words, secrets.token_hex(3)), _variables(program.variables)
    if program.mpi is not None:
        return build_mpi_job(name, program.mpi, program.slots or 1, words, image, env)
    return build_generic_job(name, program.replicas or 1, words, image, env)


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    """What `--env` says; a variable that is not set here is an error."""
    import os

    found = {}
    for each in given:
        name, has_value, value = each.partition("=")
        if not has_value and name not in os.environ:
            raise click.UsageError(
                f"--env {name}: there is no such variable here\n\nhint: --env {name}=VALUE"
            )
        found[name] = value if has_value else os.environ[name]
    return found


def _checked(job: Object) -> Object:
    from bireme.admission import default, validate
    from bireme.api.paths import format_path
    from bireme.cli.failures import Failure

    for problem in validate(default(job)):
        if problem.severity == "error":
            raise Failure(f"{format_path(problem.path)}: {problem.message}", problem.hint or "")
    return job


def _renamed(manifests: "Manifests", name: str | None) -> "Manifests":
    if name is None:
        return manifests
    from bireme.cli.manifests import is_job, with_metadata

    objects = manifests.objects
    jobs = [obj for obj in objects if is_job(obj)]
    if len(jobs) != 1:
        raise click.UsageError(f"--name names one job, and there are {len(jobs)}")
    renamed = [_checked(with_metadata(obj, name=name)) if is_job(obj) else obj for obj in objects]
    return manifests._replace(objects=renamed)


async def _run(
    target: "Target",
    namespace: str | None,
    objects: list[Object],
    said: dict[str, str],
    first: list[str],
    *,
    images_unused: bool,
    detach: bool,
    confirmed: bool,
    files: tuple[str, ...],
) -> int:
    from bireme.cli.failures import say
    from bireme.cli.sending import caller_annotations, plan_submissions, send
    from bireme.cli.targets import connected
    from bireme.cli.watching import watch_jobs

    async with connected(target, namespace) as connection:
        if images_unused:
            say("note: images are not used, but the programs of this machine (--driver podman uses images)")
        submissions = await plan_submissions(connection, objects, namespace)
        if not confirmed:
            _confirm_replacement(target, submissions, files)
        sending = send(connection, submissions, caller_annotations(*first) | said)
        if not detach:
            return await watch_jobs(connection, sending)
        for job in await sending:
            click.echo(job.title)
        return 0


def _confirm_replacement(target: "Target", submissions: "list[Submission]", files: tuple[str, ...]) -> None:
    """Ask before jobs of earlier runs are deleted on a cluster. Raises Failure without a yes."""
    from bireme.cli.confirmation import confirm, require_terminal
    from bireme.cli.sending import describe_job
    from bireme.run.jobs import phase

    earlier = [job for submission in submissions for job in submission.predecessors]
    if not earlier:
        return
    count = f"{len(earlier)} finished job{'' if len(earlier) == 1 else 's'}"
    names = [
        f"{describe_job(job)} ({phase(job.object)}) in namespace {job.object['metadata']['namespace']}"
        for job in earlier
    ]
    require_terminal(f"replacing {' and '.join(names)}", target.title, files)
    confirm(f"delete and replace {count}", names, target.title, otherwise="nothing was sent")
