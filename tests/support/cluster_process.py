"""`bireme controller` and `bireme scheduler` as processes beside a cluster, asked by HTTP how they are."""

import contextlib
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from support.control_plane import ControlPlane
from support.ports import free_port

BIREME = Path(sys.executable).parent / "bireme"


@contextlib.contextmanager
def cluster_process(
    plane: ControlPlane, command: str, *options: str
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The process and its health port; it is killed in the end."""
    port = free_port()
    where = ("--kubeconfig", str(plane.kubeconfig), "--health-port", str(port))
    argv = [str(BIREME), command, *where, *options]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    try:
        yield process, port
    finally:
        process.kill()
        process.communicate()


def get(port: int, path: str) -> tuple[int, str]:
    """Status and text of an answer; 0 while there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError:
        return 0, ""
