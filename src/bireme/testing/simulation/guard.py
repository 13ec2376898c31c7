"""Holds our own code to virtual time: a wall clock, a socket or a thread in a simulation is an error."""

import contextlib
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from bireme.testing.simulation.loop import NotSimulatedError

_OURS: Final = "bireme."
_FORBIDDEN: Final[tuple[tuple[Any, str], ...]] = (
    (time, "time"),
    (time, "monotonic"),
    (time, "perf_counter"),
    (time, "clock_gettime"),
    (time, "sleep"),
    (random, "random"),
    (random, "uniform"),
    (random, "choice"),
    (socket, "create_connection"),
    (subprocess, "run"),
    (threading.Thread, "start"),
)


@contextlib.contextmanager
def outside_world_forbidden() -> Iterator[None]:
    """Refuse what a simulation can't repeat, if a module of ours asks for it; libraries may read the time."""
    kept = [(owner, name, getattr(owner, name)) for owner, name in _FORBIDDEN]
    for owner, name, real in kept:
        setattr(owner, name, _refusing(f"{owner.__name__}.{name}", real))
    try:
        yield
    finally:
        for owner, name, real in kept:
            setattr(owner, name, real)


def _refusing(what: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.startswith(_OURS):
            raise NotSimulatedError(f"{caller} called {what}")
        return real(*args, **kwargs)

    return refuse
