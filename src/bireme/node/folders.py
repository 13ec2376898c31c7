"""Where the node keeps what belongs to pods, and the programs that they find on their PATH.

bin/                         bireme-agent, bireme-rank
pods/UID/                    pod.json state.json shim.sock, volumes/, output/CONTAINER/ATTEMPT.log
names/NAMESPACE/POD          a link to the pod's folder
departed/UID/output/         what a pod wrote that is gone, for a while
"""

import contextlib
import shutil
import sys
from pathlib import Path
from typing import Final

import bireme
from bireme.disk import space_of
from bireme.node.prrte import RANK, RANK_PROGRAM

ROOT: Final = Path(bireme.__file__).parent.parent
"""What a Python without `site` must have on its path to find us."""
_AGENT: Final = """#!/bin/sh
exec '{python}' -I -S -c '
import sys
sys.path.insert(0, sys.argv.pop(1))
from bireme.node.remote_shell import main
sys.exit(main(sys.argv[1:]))' '{root}' "$@"
"""


class PodFolder:
    """The folder of one pod."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.orders = path / "pod.json"
        self.state = path / "state.json"
        self.socket = path / "shim.sock"
        self.volumes = path / "volumes"
        self.messages = path / "messages"

    def output(self, container: str, attempt: int) -> Path:
        return self.path / "output" / container / f"{attempt}.log"

    def make(self) -> None:
        for folder in (self.path, self.volumes, self.messages, self.path / "output"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def remove(self) -> None:
        """Twice is once."""
        shutil.rmtree(self.path, ignore_errors=True)


class NodeFolder:
    """The folder of the node."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path.parent
        """The data folder, which the node shares with the API server and the command line."""
        self.programs = path / "bin"
        self.departed = path / "departed"

    def prepare(self) -> None:
        """Make the folders, and the programs in them."""
        shutil.rmtree(self.departed, ignore_errors=True)
        for folder in (
            self.path,
            *(self.path / name for name in ("bin", "pods", "names", "networks", "claims")),
        ):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        programs = {"bireme-agent": _AGENT.format(python=sys.executable, root=ROOT), RANK: RANK_PROGRAM}
        for name, text in programs.items():
            _put(self.programs / name, text)

    def pod(self, uid: str) -> PodFolder:
        return PodFolder(self.path / "pods" / uid)

    def kept(self, uid: str) -> PodFolder:
        """Where the output is of a pod that is gone."""
        return PodFolder(self.departed / uid)

    def keep_output(self, folder: PodFolder) -> PodFolder:
        """Put what a pod wrote aside; its folder can go then.

        Nothing is kept on a disk with little space: the pod may have been deleted to free some.
        """
        kept = self.kept(folder.path.name)
        space = space_of(self.path)
        if space.free < space.headroom:
            return kept
        with contextlib.suppress(OSError):
            kept.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder.path / "output").rename(kept.path / "output")
        return kept

    def pods(self) -> list[PodFolder]:
        """Those that are there, whoever made them."""
        return [PodFolder(path) for path in sorted((self.path / "pods").iterdir()) if path.is_dir()]

    def names(self, namespace: str) -> Path:
        return self.path / "names" / namespace

    def link(self, namespace: str, name: str, folder: PodFolder) -> None:
        """Let a pod be found by its name."""
        place = self.names(namespace)
        place.mkdir(mode=0o700, exist_ok=True)
        new = place / f".{name}.new"
        new.unlink(missing_ok=True)
        new.symlink_to(folder.path)
        new.replace(place / name)

    def unlink(self, namespace: str, name: str, folder: PodFolder) -> None:
        """Forget a name, if it is still this pod's."""
        place = self.names(namespace) / name
        with contextlib.suppress(OSError):
            if place.readlink() == folder.path:
                place.unlink()


def _put(program: Path, text: str) -> None:
    """Write a program whole and at once, unless it is there: pods that run may be using it."""
    with contextlib.suppress(OSError):
        if program.read_text() == text:
            return
    new = program.with_name(f".{program.name}.new")
    new.write_text(text)
    new.chmod(0o700)
    new.replace(program)
