"""A user of this machine who is not root, for tests that root runs.

The user is known only where `prefix` is put before a command: there /etc/passwd and the files beside it are
others, in a mount namespace of that command's own, and a Python in root's home can be run. Nothing of the
machine changes.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from support.fixtures import unavailable
from support.here import eventually

UID: Final = 20_000 + os.getpid() % 10_000
"""One for each test run: podman's locks are named after it."""
_NAME: Final = "bireme-test"
_FIRST_SUBORDINATE: Final = 3_000_000
_SCRIPT: Final = """
folder=$1 closed=$2 needed=$3
shift 3
for name in passwd group subuid subgid; do mount --bind "$folder/$name" "/etc/$name" || exit; done
if [ -n "$closed" ]; then
    mount --bind "$needed" "$folder/needed" && mount -t tmpfs -o mode=755 none "$closed" &&
        mkdir -p "$needed" && mount --bind "$folder/needed" "$needed" || exit
fi
exec "$@"
"""
_SECONDS: Final = 120


class OrdinaryUser:
    """`prefix` makes a command the user's, `environment` is to be added to its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.uid = folder, UID
        self.home = folder / "home"
        self.run = folder / "run"
        self.environment = {"XDG_RUNTIME_DIR": str(self.run), "USER": _NAME, "LOGNAME": _NAME}
        files = folder / "etc"
        unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _SCRIPT, "sh", str(files)]
        unshare += [_closed(Path(sys.base_prefix)), sys.base_prefix]
        become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
        self.prefix = [*unshare, *become]
        for each in (folder, files, files / "needed", self.home, self.run):
            each.mkdir(mode=0o755, exist_ok=True)
        for each in (self.home, self.run):
            os.chown(each, UID, UID)
        self.run.chmod(0o700)
        subordinate = f"{_NAME}:{_FIRST_SUBORDINATE}:65536\n"
        texts = {
            "passwd": Path("/etc/passwd").read_text() + f"{_NAME}:x:{UID}:{UID}::{self.home}:/bin/sh\n",
            "group": Path("/etc/group").read_text() + f"{_NAME}:x:{UID}:\n",
            "subuid": subordinate,
            "subgid": subordinate,
        }
        for name, text in texts.items():
            (files / name).write_text(text)

    def podman(self, *arguments: str, check: bool = True) -> str:
        """Run the user's podman to its end; return what it prints."""
        done = subprocess.run(
            [*self.prefix, "podman", *arguments],
            cwd=self.home,
            env=self.variables(),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def variables(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), **self.environment}


def _closed(path: Path) -> str:
    """The folder above a path that only root can enter, as /root; empty if there is none."""
    above = [each for each in reversed(path.parents) if not each.stat().st_mode & 0o001]
    return str(above[0]) if above else ""


@contextlib.contextmanager
def ordinary_user() -> Iterator[OrdinaryUser]:
    """A user with rootless podman, whose files go at the end."""
    for program in ("podman", "newuidmap", "setpriv", "unshare"):
        if shutil.which(program) is None:
            raise unavailable(f"no {program}: apt-get install podman runc uidmap util-linux")
    if os.getuid() != 0:
        raise unavailable("only root can run a test as another user")
    folder = Path(tempfile.mkdtemp(prefix="bireme-user-"))
    folder.chmod(0o755)
    user = OrdinaryUser(folder)
    settings = user.home / ".config/containers"
    for each in (settings.parent, settings):
        each.mkdir()
        os.chown(each, UID, UID)
    # Where podman may not use /dev/fuse it would copy images instead.
    (settings / "storage.conf").write_text('[storage]\ndriver = "overlay"\n')
    try:
        yield user
    finally:
        _end_pause_process(user)
        eventually(lambda: _is_removed(folder))
        Path(f"/dev/shm/libpod_rootless_lock_{UID}").unlink(missing_ok=True)


def _is_removed(folder: Path) -> bool:
    """Whether a folder could be removed; mounts of processes that were killed go a little later."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def _end_pause_process(user: OrdinaryUser) -> None:
    """The process in which podman keeps its namespaces; its mounts go with it."""
    with contextlib.suppress(OSError, ValueError):
        os.kill(int((user.run / "libpod/tmp/pause.pid").read_text()), signal.SIGKILL)
