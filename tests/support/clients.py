"""The programs of `make clients`: an old kubectl, and one that uses client-go."""

import functools
import os
import subprocess
from pathlib import Path

from support.control_plane import BinariesMissingError

BUILD = Path(__file__).parents[2] / "hack/clients/build"


@functools.cache
def clients_folder() -> Path:
    """Return where the programs are or would be, by the build script's own rules."""
    path = subprocess.run([BUILD, "path"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(path.stdout.strip())


def find_client(name: str) -> Path:
    """Return `kubectl-old` or `informer`. Raises BinariesMissingError where it is not built."""
    found = clients_folder() / name
    if not os.access(found, os.X_OK):
        raise BinariesMissingError(f"no {name} in {found.parent}: run `make clients`")
    return found
