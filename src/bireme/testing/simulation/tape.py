"""What goes wrong in a run, and when: as data, so that a failure can be kept, shortened and played again."""

from typing import Literal

import msgspec

Place = Literal["call", "watch", "write"]
"""The n-th call of a controller, the n-th event on one of its watches, the n-th write of the cluster."""


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One mishap. `seconds` is how long it lasts or takes, `which` chooses among what it can hit."""

    at: Place
    number: int
    name: str
    seconds: float = 0.0
    which: int = 0

    def __str__(self) -> str:
        length = f" for {self.seconds:g} s" if self.seconds else ""
        return f"{self.at} {self.number}: {self.name}{length}"


class Tape(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run: the scenario, the seed of the schedule, and the faults."""

    scenario: str
    seed: int = 0
    faults: tuple[Fault, ...] = ()
    note: str = ""
    """Why the tape is kept."""

    def with_faults(self, faults: tuple[Fault, ...]) -> "Tape":
        return msgspec.structs.replace(self, faults=faults)


def encode(tape: Tape) -> str:
    return msgspec.json.format(msgspec.json.encode(tape), indent=1).decode()


def decode(text: str | bytes) -> Tape:
    return msgspec.json.decode(text, type=Tape)
