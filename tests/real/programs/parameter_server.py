"""Synchronous training with a parameter server.

parameter_server.py server PORT WORKERS
parameter_server.py worker HOST PORT RANK

In each round every worker sends the gradient of its own points, and the server answers with the new weights.
The server adds gradients in the order of ranks, so that the result does not depend on their order of arrival.
"""

import random
import sys
import time
from multiprocessing.connection import Client, Connection, Listener

TARGET = (1.0, 2.0, 3.0, 4.0)
ROUNDS = 300
POINTS = 50
RATE = 0.1
KEY = b"parameters"
PATIENCE_SECONDS = 60.0


def serve(port: int, workers: int) -> None:
    with Listener(("", port), backlog=workers, authkey=KEY) as listener:
        accepted = [listener.accept() for _ in range(workers)]
    by_rank = sorted(((connection.recv(), connection) for connection in accepted), key=lambda pair: pair[0])
    weights = [0.0] * len(TARGET)
    for _ in range(ROUNDS):
        gradients = [connection.recv() for _, connection in by_rank]
        weights = [
            weight - RATE * sum(parts) / workers
            for weight, parts in zip(weights, zip(*gradients, strict=True), strict=True)
        ]
        for _, connection in by_rank:
            connection.send(weights)
    print("weights", *weights, flush=True)


def connect(host: str, port: int) -> "Connection":
    """Connect to the server, which may start later than a worker."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return Client((host, port), authkey=KEY)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def work(host: str, port: int, rank: int) -> None:
    chance = random.Random(rank)
    points = [[chance.gauss(0, 1) for _ in TARGET] for _ in range(POINTS)]
    with connect(host, port) as server:
        server.send(rank)
        weights = [0.0] * len(TARGET)
        for _ in range(ROUNDS):
            server.send(gradient(points, weights))
            weights = server.recv()


def gradient(points: list[list[float]], weights: list[float]) -> list[float]:
    totals = [0.0] * len(weights)
    for point in points:
        error = sum(x * (weight - target) for x, weight, target in zip(point, weights, TARGET, strict=True))
        totals = [total + error * x for total, x in zip(totals, point, strict=True)]
    return [total / len(points) for total in totals]


if sys.argv[1] == "server":
    serve(int(sys.argv[2]), int(sys.argv[3]))
else:
    work(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
