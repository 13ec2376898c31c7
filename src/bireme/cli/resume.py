"""`bireme resume`: let a paused job go on."""

import click

from bireme.cli.output import echo
from bireme.cli.pause import find_pausable, switch
from bireme.cli.places import Asked, target_options
from bireme.cli.targets import Target, choose, connected, run


@click.command()
@click.argument("words", metavar="JOB...", nargs=-1, required=True)
@target_options
def command(words: tuple[str, ...], asked: Asked) -> None:
    """Let paused jobs go on: all their pods start anew, as resumeSpecs says if the job had started.

    \b
    bireme resume hello
    bireme wait hello --for running

    Exit status: 1 if one of them has ended, or is of a kind that has no pause.
    """
    run(_resume(choose(asked), asked.namespace, words))


async def _resume(target: Target, namespace: str | None, words: tuple[str, ...]) -> None:
    async with connected(target, namespace) as connection:
        for found in [await find_pausable(connection, word) for word in words]:
            await switch(connection, found, paused=False)
            echo(f"{found.title} resumed")
