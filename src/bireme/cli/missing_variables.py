"""Explains the failure of a program that looks for a variable which the user has set, but jobs do not get."""

import os
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

from bireme.node.submitter import select_variables
from bireme.run.jobs import first_failure

if TYPE_CHECKING:
    from bireme.cli.submitter import SubmitterOptions
    from bireme.cli.targets import Target

_LOOKED_UP: Final = re.compile(
    r"KeyError: '([A-Za-z_][A-Za-z0-9_]*)'"
    r"|\b([A-Za-z_][A-Za-z0-9_]*): (?:unbound variable|parameter not set)",
)


def explain_missing(
    job: dict[str, Any],
    submitter: "SubmitterOptions",
    passed: Collection[str],
    target: "Target",
) -> Iterator[str]:
    """Yield a hint for each variable that the first failure names, and that is set here, not in the job."""
    message = str(first_failure(job).get("message") or "")
    given = set(passed)
    if not target.is_cluster:
        given |= select_variables(os.environ, submitter.selection, submitter.names).keys()
    names = dict.fromkeys(match[1] or match[2] for match in _LOOKED_UP.finditer(message))
    for name in names:
        if name in os.environ and name not in given:
            more = "" if target.is_cluster else ", --env-all all variables"
            yield f"hint: {name} is set here, but the job does not get it: -e {name} passes it on{more}"
