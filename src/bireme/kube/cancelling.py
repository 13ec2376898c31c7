"""Cancellations that an error hides."""

import asyncio


def raise_if_cancelled() -> None:
    """Raise the cancellation of this task, if an error has come in its place.

    Of works that are awaited together (`gather`, a TaskGroup), Python 3.11 gives the error of one and forgets
    that all of them were cancelled meanwhile. A loop that outlives errors asks here, or nothing ends it.

    Not for a task that awaits a TaskGroup itself: one that fails can leave its task as if it were cancelled.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
