"""Runs jobs to their end: what `bireme run`, `bireme mpirun` and `bireme torchrun` have in common.

A command reads its arguments into a `Work`: objects to send, and what this process gives to them. `run_work`
sends the objects to the target, forwards standard input, follows the jobs and ends with their exit code.
"""

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeVar

import click

from bireme.cli.failures import say
from bireme.cli.output import echo
from bireme.cli.places import Asked, driver_option, target_options, yes_option
from bireme.cli.stdin_plan import StdinPlan

if TYPE_CHECKING:
    from bireme.cli.manifests import Manifests
    from bireme.cli.sending import Submission
    from bireme.cli.target_choice import Choice
    from bireme.cli.targets import Target

T = TypeVar("T")
Object = dict[str, Any]
Selection = Literal["usual", "all", "none"]


class RunOptions(NamedTuple):
    """The options that all these commands have."""

    asked: Asked
    name: str | None = None
    image: str | None = None
    variables: tuple[str, ...] = ()
    selection: Selection = "usual"
    driver: str | None = None
    detach: bool = False
    yes: bool = False
    tag_ranks: bool | None = None

    @property
    def env(self) -> dict[str, str]:
        """The variables that `--env` names. Raises click.UsageError for one that is not set here."""
        import os

        values = {}
        for variable in self.variables:
            name, has_value, value = variable.partition("=")
            if not has_value and name not in os.environ:
                raise click.UsageError(
                    f"--env {name}: there is no such variable here\n\nhint: --env {name}=VALUE"
                )
            values[name] = value if has_value else os.environ[name]
        return values


class Work(NamedTuple):
    """Objects to send, and what their jobs need from this process."""

    manifests: "Manifests"
    files: tuple[str, ...] = ()
    """The files of the manifests; none where the job is made of a command."""
    mpi_program: str = ""
    """The program of an MPI job that is made of a command: an mpirun that came with it is preferred."""
    exported: tuple[str, ...] = ()
    """Variables that the job gets whatever `--env-none` says."""
    stdin: StdinPlan = StdinPlan()


def run_options(function: Callable[..., T]) -> Callable[..., T]:
    """Give a command the options of RunOptions; it gets them as `options`."""

    @functools.wraps(function)
    def command(*args: Any, env_all: bool, env_none: bool, **kwargs: Any) -> T:
        if env_all and env_none:
            raise click.UsageError("give one of --env-all and --env-none")
        selection: Selection = "all" if env_all else "none" if env_none else "usual"
        own = {name: kwargs.pop(name) for name in RunOptions._fields if name in kwargs}
        return function(*args, options=RunOptions(**own, selection=selection), **kwargs)

    decorated: Callable[..., T] = command
    for option in (
        click.option("--image", help="Image of the containers; a cluster and podman need one."),
        click.option(
            "-e",
            "--env",
            "variables",
            metavar="NAME[=VALUE]",
            multiple=True,
            help="A variable for the program; without a value, as it is here.",
        ),
        click.option("--env-all", is_flag=True, help="Pass all variables to jobs on this machine."),
        click.option("--env-none", is_flag=True, help="Pass none but those of --env."),
        click.option(
            "--tag-ranks/--no-tag-ranks",
            "tag_ranks",
            default=None,
            help="Show which rank of an MPIJob printed a line. Default: on a terminal.",
        ),
        click.option("--name", help="Name of the job."),
        driver_option(None),
        click.option("-d", "--detach", is_flag=True, help="Do not wait: print the job's name and return."),
        yes_option,
        target_options,
    ):
        decorated = option(decorated)
    return decorated


def require_image(choice: "Choice", options: RunOptions) -> None:
    """Raise click.UsageError if the target needs an image and none is given, or for a driver on a cluster."""
    from bireme.cli.target_choice import Cluster

    needs = "podman" if options.driver == "podman" else ""
    if isinstance(choice, Cluster):
        needs = "a cluster" if choice.saved is None else f"a cluster (`bireme use` chose {choice.saved})"
        if options.driver:
            raise click.UsageError(f"--driver is for this machine: {needs} runs pods its own way")
    if needs and options.image is None:
        raise click.UsageError(f"{needs} needs an image\n\nhint: --image registry.example/program:1")


def refuse_driver(choice: "Choice", options: RunOptions) -> None:
    """Raise click.UsageError for a driver on a cluster."""
    require_image(choice, options._replace(image="named in the manifest"))


def checked(job: Object) -> Object:
    """Return the job. Raises Failure for the first error that admission finds in it."""
    from bireme.admission import default, validate
    from bireme.api.paths import format_path
    from bireme.cli.failures import Failure

    for problem in validate(default(job)):
        if problem.severity == "error":
            raise Failure(f"{format_path(problem.path)}: {problem.message}", problem.hint or "")
    return job


def run_work(choice: "Choice", options: RunOptions, work: Work) -> NoReturn:
    """Run the work on the chosen target. Raises SystemExit with the exit code of the command."""
    # Imported late, so that a wrong manifest is reported before a daemon or a client is started.
    from bireme.cli.targets import prepare, run

    work = work._replace(manifests=_renamed(work.manifests, options.name))
    if _tags_ranks(options):
        work = work._replace(manifests=_tagged(work.manifests))
    target = prepare(choice)
    work.manifests.show_warnings()
    if work.stdin.note:
        say(f"note: {work.stdin.note}")
    raise SystemExit(run(_run(target, options, work)))


def _tags_ranks(options: RunOptions) -> bool:
    import sys

    if options.tag_ranks is not None:
        return options.tag_ranks
    return sys.stdout.isatty() and not options.detach


def _tagged(manifests: "Manifests") -> "Manifests":
    """The manifests, with the MPIJobs in them asking mpirun for the rank of each line."""
    from bireme.api.job import BATCH_GROUP_VERSION
    from bireme.cli.manifests import with_annotations
    from bireme.planning.identity import TAG_ANNOTATION

    objects = [
        with_annotations(obj, {TAG_ANNOTATION: "true"})
        if (obj.get("apiVersion"), obj.get("kind")) == (BATCH_GROUP_VERSION, "MPIJob")
        else obj
        for obj in manifests.objects
    ]
    return manifests._replace(objects=objects)


def _renamed(manifests: "Manifests", name: str | None) -> "Manifests":
    if name is None:
        return manifests
    from bireme.cli.manifests import is_job, with_metadata

    objects = manifests.objects
    jobs = [obj for obj in objects if is_job(obj)]
    if len(jobs) != 1:
        raise click.UsageError(f"--name names one job, and there are {len(jobs)}")
    renamed = [checked(with_metadata(obj, name=name)) if is_job(obj) else obj for obj in objects]
    return manifests._replace(objects=renamed)


async def _run(target: "Target", options: RunOptions, work: Work) -> int:
    from bireme.cli.adhoc import mpi_folder
    from bireme.cli.failure_hints import explain_mpirun, explain_quotes
    from bireme.cli.missing_variables import explain_missing
    from bireme.cli.sending import plan_submissions, send
    from bireme.cli.submitter import SubmitterOptions, annotations_for
    from bireme.cli.targets import connected
    from bireme.cli.watching import watch_jobs

    namespace = options.asked.namespace
    folder = mpi_folder(work.mpi_program) if work.mpi_program else None
    submitter = SubmitterOptions(
        (folder,) if folder else (), options.driver or "", options.selection, work.exported
    )
    async with connected(target, namespace) as connection:
        if work.files and _ignores_images(target, options) and name_images(work.manifests.objects):
            say("note: images are not used, but the programs of this machine (--driver podman uses images)")
        submissions = await plan_submissions(connection, work.manifests.objects, namespace)
        if target.is_cluster and not options.yes:
            _confirm_replacement(target, submissions, work.files)
        sending = send(connection, submissions, annotations_for(connection, submitter))
        if not options.detach:
            passed = frozenset(options.env) | frozenset(work.exported)
            uses_images = not _ignores_images(target, options)

            def explain(job: Object) -> Iterator[str]:
                yield from explain_missing(job, submitter, passed, target)
                if not uses_images:
                    yield from explain_mpirun(job, submitter.path)
                    yield from explain_quotes(job)

            return await watch_jobs(connection, sending, with_stdin=work.stdin.forwards, explain=explain)
        for job in await sending:
            echo(job.title)
        return 0


def _ignores_images(target: "Target", options: RunOptions) -> bool:
    return target.daemon is not None and "podman" not in (options.driver, target.daemon.driver)


def name_images(objects: list[Object]) -> bool:
    """Whether a job names an image that is not used, where the process driver is the default."""
    import msgspec

    from bireme.cli.manifests import is_job
    from bireme.node.submitter import DRIVER

    # The job or one of its pod templates may choose podman, by an annotation of the same name.
    podman = msgspec.json.encode({DRIVER: "podman"})[1:-1]
    jobs = [msgspec.json.encode(obj) for obj in objects if is_job(obj)]
    return any(b'"image":' in job and podman not in job for job in jobs)


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
