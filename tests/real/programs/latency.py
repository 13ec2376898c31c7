"""Measure ping-pong and allreduce; rank 0 prints one JSON object of microseconds.

A figure is that of the best batch of calls. Rank 0 tells the others when to stop, so that a slow transport
gets fewer batches, not a longer run.
"""

import json
from array import array
from collections.abc import Callable

from mpi4py import MPI

PING_PONG_SIZES = (0, 65_536, 1_048_576)
ALLREDUCE_SIZES = (8, 65_536, 1_048_576)
SECONDS_EACH = 0.2
"""For how long a figure is measured."""
BYTES_PER_BATCH = 4_000_000
MOST_CALLS = 200

world = MPI.COMM_WORLD


def best_microseconds(call: Callable[[], None], size: int) -> float:
    """Return the time of one call in the best batch, as rank 0 sees it."""
    calls = max(4, min(MOST_CALLS, BYTES_PER_BATCH // max(size, 1)))
    best, deadline, is_over = float("inf"), MPI.Wtime() + SECONDS_EACH, False
    while not is_over:
        world.Barrier()
        start = MPI.Wtime()
        for _ in range(calls):
            call()
        end = MPI.Wtime()
        best = min(best, (end - start) / calls)
        is_over = world.bcast(end > deadline)
    return best * 1e6


def ping_pong(size: int) -> Callable[[], None]:
    """Return half a round trip between the first rank and the last, which is on the last worker."""
    message, last = bytearray(size), world.size - 1

    def round_trip() -> None:
        if world.rank == 0:
            world.Send(message, last)
            world.Recv(message, last)
        elif world.rank == last:
            world.Recv(message, 0)
            world.Send(message, 0)

    return round_trip


def allreduce(size: int) -> Callable[[], None]:
    part = array("d", [float(world.rank)]) * (size // 8)
    total = array("d", bytes(size))
    return lambda: world.Allreduce(part, total)


def main() -> None:
    figures = {}
    for size in PING_PONG_SIZES:
        figures[f"ping-pong {size} B"] = best_microseconds(ping_pong(size), size) / 2
    for size in ALLREDUCE_SIZES:
        figures[f"allreduce {size} B"] = best_microseconds(allreduce(size), size)
    if world.rank == 0:
        print(json.dumps(figures), flush=True)


main()
