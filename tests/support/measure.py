"""Measure what a part of a test costs: memory of this process, and how long the event loop is held.

Both are independent of other load on the machine: the loop is measured in CPU time of its thread.
"""

import asyncio
import gc
import re
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
_STATUS = Path("/proc/self/status")


class MeasuredLoop(asyncio.SelectorEventLoop):
    """An event loop that records the CPU time of its longest iteration."""

    longest_seconds = 0.0

    def _run_once(self) -> None:
        begin = time.thread_time()
        super()._run_once()  # type: ignore[misc]
        self.longest_seconds = max(self.longest_seconds, time.thread_time() - begin)


class Cost:
    """What a coroutine cost, after `run`."""

    def __init__(self) -> None:
        self.loop_seconds = 0.0
        self.grown_bytes = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end in a loop of its own."""
        # What pytest keeps is not looked at: a collection of its objects would hold the loop.
        gc.collect()
        gc.freeze()
        before = _read("VmRSS")
        # Resets the peak, VmHWM, to the current size.
        Path("/proc/self/clear_refs").write_text("5")
        loop = MeasuredLoop()
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                result = runner.run(work)
        finally:
            gc.unfreeze()
        self.loop_seconds = loop.longest_seconds
        self.grown_bytes = _read("VmHWM") - before
        return result


def _read(field: str) -> int:
    match = re.search(rf"^{field}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1]) * 1024
