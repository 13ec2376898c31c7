"""kubectl for the embedded mode of a test."""

from support.control_plane import BinariesMissingError, find_kubectl
from support.fixtures import unavailable
from support.here import Here


def kubectl(here: Here, *arguments: str) -> list[str]:
    """The command line of kubectl for an embedded mode."""
    try:
        program = find_kubectl()
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None
    return [str(program), "--kubeconfig", str(here.running.server.kubeconfig), *arguments]
