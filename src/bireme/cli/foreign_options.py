"""Commands that take another program's command line, after options of their own."""

from collections.abc import Sequence
from typing import Any

import click


class ForeignCommand(click.Command):
    """Takes its own long options first; from the first other word on, everything is the other program's.

    Short options are the other program's alone: `-n` means its number of ranks, not a namespace.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for param in self.params:
            if isinstance(param, click.Option):
                param.opts = [name for name in param.opts if name.startswith("--")]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = count_own(self, ctx, args)
        theirs = args[own:]
        if theirs[:1] == ["--"]:
            theirs = theirs[1:]
        return super().parse_args(ctx, [*args[:own], "--", *theirs])


def count_own(command: click.Command, ctx: click.Context, args: Sequence[str]) -> int:
    """Return how many words, from the first on, are options of a command and their values."""
    options = {
        name: param
        for param in command.get_params(ctx)
        if isinstance(param, click.Option)
        for name in (*param.opts, *param.secondary_opts)
    }
    position = 0
    while position < len(args) and (param := options.get(args[position].partition("=")[0])) is not None:
        takes_value = not (param.is_flag or param.count or "=" in args[position])
        position += 2 if takes_value else 1
    return min(position, len(args))
