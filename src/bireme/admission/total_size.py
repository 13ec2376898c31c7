"""The size of all pods of a job together.

A job is one object of at most 3 MB, but the controller writes its template once for each replica. Without a
limit, a job of 1 MB with 5,000 replicas would make it send 5 GB, and etcd store them.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from bireme.admission.problems import Findings
from bireme.api.paths import Path

MAX_TOTAL_BYTES: Final = 128 << 20
"""How many bytes the pods of one job may have together: 5,000 replicas of 26 KB each."""
_VARIABLE_BYTES: Final = 63
"""The longest value of a job's variable, a DNS label."""


class ReplicaSize(NamedTuple):
    """A template, or another part of a job, that is written once for each of `replicas` pods."""

    parts: tuple[Any, ...]
    replicas: int
    path: Path

    def total_bytes(self) -> int:
        encoded = [msgspec.json.encode(part) for part in self.parts]
        return self.replicas * sum(len(part) + _variables(part) * _VARIABLE_BYTES for part in encoded)


def check_total_size(sizes: Iterable[ReplicaSize], out: Findings) -> None:
    """Refuse a job whose pods are too large together; name the largest template."""
    totals = [(size.total_bytes(), size) for size in sizes]
    total = sum(number for number, _ in totals)
    if total <= MAX_TOTAL_BYTES:
        return
    _, largest = max(totals, key=lambda pair: pair[0])
    each = largest.total_bytes() // largest.replicas
    out.error(
        largest.path,
        "too-large",
        f"{largest.replicas} pods of about {_kib(each)} each: about {_mib(total)} in all,"
        f" at most {_mib(MAX_TOTAL_BYTES)} are allowed",
        hint="move large values into a ConfigMap that the pods mount, or split the job",
    )


def _variables(part: bytes) -> int:
    """Count the variables whose values may be longer than their names."""
    return part.count(b"$(") - part.count(b"$(rank)")


def _kib(size: int) -> str:
    return f"{-(-size // 1024)} KiB"


def _mib(size: int) -> str:
    return f"{-(-size // (1 << 20))} MiB"
