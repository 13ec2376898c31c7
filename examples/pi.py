"""Compute pi with MPI: each rank adds up its part of a sum, and all ranks have the result.

bireme run --mpi 2 --slots 2 -- python3 examples/pi.py
"""

import os

from mpi4py import MPI

STEPS = 400_000
world = MPI.COMM_WORLD
part = sum(4 / (1 + ((i + 0.5) / STEPS) ** 2) for i in range(world.rank, STEPS, world.size)) / STEPS
pi = world.allreduce(part)
host = os.environ["HOSTNAME"]
print(f"rank {world.rank} of {world.size} on {host}: my part {part:.9f}, all together {pi:.9f}", flush=True)
