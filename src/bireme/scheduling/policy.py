"""What whoever runs the scheduler decides."""

import msgspec


class Policy(msgspec.Struct, frozen=True):
    """Settings of the scheduler."""

    # Whether a queue may take from preemptible queues of lower priority.
    preemption: bool = True
    # Whether a start that would delay a known start of a unit ahead is put off.
    backfill: bool = True
    # Labels of nodes, the narrowest domain first, inside which a unit is packed if it fits.
    topology: tuple[str, ...] = ()
    # Whether a queue's namespaceSelector is asked; the embedded mode has one user.
    permissions: bool = True
    # How long a unit of which only a part could be bound is held, before its pods are made anew.
    binding_seconds: int = 120
    # Steps of work that a round may do for one queue; about as many microseconds.
    steps_per_queue: int = 250_000
