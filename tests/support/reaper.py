"""Ends what a test run would leave behind if it is killed.

A process of its own reads folders from its standard input and waits for its end, which comes however the
test run ends. Then it kills all that has one of these folders in its arguments or environment.
"""

import atexit
import subprocess
import sys
from functools import cache
from pathlib import Path

from bireme.testing.leftovers import kill_with


def watch_over(folder: Path) -> None:
    """Let nothing of a folder outlive this process."""
    pipe = _reaper().stdin
    assert pipe is not None
    pipe.write(f"{folder}/\n")
    pipe.flush()


@cache
def _reaper() -> "subprocess.Popen[str]":
    # A session of its own: who kills the group of the test run shall not kill the reaper.
    reaper = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, start_new_session=True, text=True
    )
    atexit.register(_end, reaper)
    return reaper


def _end(reaper: "subprocess.Popen[str]") -> None:
    assert reaper.stdin is not None
    reaper.stdin.close()
    reaper.wait()


if __name__ == "__main__":
    for line in sys.stdin.readlines():
        kill_with(line.rstrip("\n"))
