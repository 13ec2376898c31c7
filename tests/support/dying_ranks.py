"""Programs whose rank 3 dies, after the prelude and the sum of their place: it alone is to blame."""

from typing import Final

EXIT: Final = "os._exit(3)"
KILL: Final = "os.kill(os.getpid(), signal.SIGKILL)"


def apart(death: str, wait: str) -> str:
    """It dies when all others have done what they do together, and only wait."""
    gone = "for other in range(3): world.recv(source=other)\n    " + death
    return f"if world.rank == 3:\n    {gone}\nworld.send(None, 3)\n{wait}"


def amid(death: str) -> str:
    """It dies while the others wait for it: they lose it, and fail as well."""
    return f"for turn in range(10**6):\n    if (turn, world.rank) == (9, 3): {death}\n    world.Barrier()\n"
