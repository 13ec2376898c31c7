"""Tells a user who follows jobs that the disk of the daemon is full."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bireme.disk import is_full

if TYPE_CHECKING:
    from bireme.run.presence import Daemon


class DiskNotice:
    """Says that the disk is full, and later that it is not, each at most once. Not for a cluster."""

    def __init__(self, daemon: "Daemon | None", say: Callable[[str], None]) -> None:
        self._folder = Path(daemon.kubeconfig).parent if daemon is not None else None
        self._say = say
        self._said_full = self._said_space = False

    def look(self) -> None:
        """Look at the disk, and say what is new."""
        if self._folder is None or self._said_space:
            return
        full = _is_full(self._folder)
        if full and not self._said_full:
            self._said_full = True
            self._say(
                f"the disk of {self._folder} is full: output is cut and no pod is started;"
                " `bireme delete JOB` removes a job with its output, or free space on that disk"
            )
        elif not full and self._said_full:
            self._said_space = True
            self._say(f"there is space again on the disk of {self._folder}")


def _is_full(folder: Path) -> bool:
    try:
        return is_full(folder)
    except OSError:
        return False
