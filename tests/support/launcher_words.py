"""What launchers say of a failure, and what is made of it."""

from datetime import UTC, datetime

from bireme.api.job import FirstFailure, ReplicaStatus
from bireme.planning.cause import first_failure
from bireme.planning.outcome import Outcome
from bireme.planning.replicas import Replica

LOST = """\
[job-worker-0:00000] *** An error occurred in Socket closed
[job-worker-0:00000] *** reported by process [3203334145,1]
[job-worker-0:00000] *** on a NULL communicator
[job-worker-0:00000] *** Unknown error
[job-worker-0:00000] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,
[job-worker-0:00000] ***    and MPI will try to terminate your MPI job as well)
"""
"""How a rank loses another, as the real mpirun says it."""


def cause(message: str) -> FirstFailure:
    """Who failed first, by the words of the launcher of two workers with two ranks each."""
    outcome = Outcome(end="failed", container="launcher", exit_code=1, message=message)
    launcher = Replica("launcher", 0, "job-launcher", ReplicaStatus(), None, outcome)
    first = first_failure(
        [launcher],
        datetime(2026, 1, 1, tzinfo=UTC),
        keep_message=True,
        workers=["job-worker-0", "job-worker-1"],
        worker_of=lambda rank: rank // 2,
        slots=4,
    )
    assert first is not None
    return first
