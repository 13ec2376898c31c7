"""A program that looks for a variable which the user has set gets a hint."""

from datetime import UTC, datetime
from typing import Any, Final

import pytest

from bireme.cli.missing_variables import explain_missing
from bireme.cli.submitter import SubmitterOptions
from bireme.cli.targets import Target
from bireme.run.presence import Daemon

HERE: Final = Target(Daemon(1, "https://127.0.0.1:1", "/data/kubeconfig", datetime(2026, 1, 1, tzinfo=UTC)))
CLUSTER: Final = Target()


def failed(message: str) -> dict[str, Any]:
    return {"status": {"firstFailure": {"message": message}}}


@pytest.mark.parametrize(
    ("message", "target", "passed", "names"),
    [
        ("KeyError: 'DATA_DIR'", HERE, (), ["DATA_DIR"]),
        ("sh: 1: DATA_DIR: parameter not set", HERE, (), ["DATA_DIR"]),
        ("bash: DATA_DIR: unbound variable", HERE, (), ["DATA_DIR"]),
        ("KeyError: 'DATA_DIR'", CLUSTER, (), ["DATA_DIR"]),
        ("KeyError: 'DATA_DIR'", HERE, ("DATA_DIR",), []),
        ("KeyError: 'NOT_SET'", HERE, (), []),
        ("KeyError: 'OMP_NUM_THREADS'", HERE, (), []),
        ("KeyError: 'OMP_NUM_THREADS'", CLUSTER, (), ["OMP_NUM_THREADS"]),
        ("ValueError: DATA_DIR", HERE, (), []),
    ],
)
def test_only_variables_that_the_job_lacks_get_a_hint(
    monkeypatch: pytest.MonkeyPatch, message: str, target: Target, passed: tuple[str, ...], names: list[str]
) -> None:
    monkeypatch.setenv("DATA_DIR", "/data")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("NOT_SET", raising=False)
    hints = list(explain_missing(failed(message), SubmitterOptions(), passed, target))
    assert [hint.split()[1] for hint in hints] == names
