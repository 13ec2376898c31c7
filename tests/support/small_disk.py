"""A file system of a few MiB, and ways to fill it."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from support.fixtures import unavailable


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """Mount a tmpfs of this size."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "bireme-test", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        raise unavailable("a full disk needs the right to mount a tmpfs: run as root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def free(disk: Path) -> int:
    stat = os.statvfs(disk)
    return stat.f_bavail * stat.f_frsize


def fill(disk: Path, leave: int = 0) -> None:
    """Take all the space, but for a little."""
    with contextlib.suppress(OSError), (disk / "filler").open("ab", buffering=0) as filler:
        filler.write(b"\0" * max(0, free(disk) - leave))
    if not leave:
        with contextlib.suppress(OSError), (disk / "filler").open("ab", buffering=0) as filler:
            while filler.write(b"\0"):
                pass


def empty(disk: Path) -> None:
    """Give back what `fill` took. Idempotent."""
    (disk / "filler").unlink(missing_ok=True)


@contextlib.contextmanager
def taking_all_space(disk: Path) -> Iterator[None]:
    """Fill the disk, and take what becomes free at once."""
    fill(disk)
    over = threading.Event()

    def take() -> None:
        while not over.is_set():
            fill(disk)

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
