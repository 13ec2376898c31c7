"""The limit of open files: the daemon's own is raised, pods get the one that the daemon was started with.

Shells commonly limit a process to 1,024 descriptors, and let it raise that. A daemon with many clients and
pods needs more. Programs in pods must not inherit the higher limit: `ulimit -n` is the caller's there, and
programs that use select(2) or close every possible descriptor break under a high one.
"""

import resource

Limit = tuple[int, int]
"""Soft and hard."""

_caller: list[Limit] = []


def raise_limit() -> None:
    """Raise the soft limit of this process to the hard one. Idempotent."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        _caller[:] = [(soft, hard)]


def caller_limit() -> Limit:
    """Return the limit that this process was started with."""
    return _caller[0] if _caller else resource.getrlimit(resource.RLIMIT_NOFILE)


def restore_limit(pid: int) -> None:
    """Give a child the limit that this process was started with."""
    resource.prlimit(pid, resource.RLIMIT_NOFILE, caller_limit())
