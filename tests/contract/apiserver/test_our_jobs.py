"""Our own kinds on our server, through kubectl: it refuses what `bireme validate` refuses, and nothing else.

A real server with our CRDs alone accepts some of these; tests/contract/test_crds.py holds that.
"""

from pathlib import Path

import pytest

from support.embedded import EmbeddedServer

pytestmark = pytest.mark.xdist_group("control_plane")

TOP = Path(__file__).parents[3]
MANIFESTS = TOP / "tests/golden/validate"
LOST_ON_THE_WAY = {"queue-with-namespace.input.yaml", "yaml-duplicate-key.input.yaml"}
"""kubectl itself takes out what is wrong with these."""
DRY_RUN = ("create", "--dry-run=server", "--namespace=default", "-f")


def test_valid_jobs_are_accepted(embedded: EmbeddedServer) -> None:
    result = embedded.kubectl(*DRY_RUN, str(MANIFESTS / "valid"), check=False)
    assert (
        result.code,
        [line for line in result.stderr.splitlines() if not line.startswith("Warning: ")],
    ) == (0, [])
    assert result.stdout.count(" created (server dry run)\n") >= len(
        list((MANIFESTS / "valid").glob("*.yaml"))
    )


def test_examples_are_accepted(embedded: EmbeddedServer) -> None:
    result = embedded.kubectl(*DRY_RUN, str(TOP / "examples"), check=False)
    assert (result.code, result.stderr) == (0, "")


def test_invalid_jobs_are_refused(embedded: EmbeddedServer) -> None:
    result = embedded.kubectl(*DRY_RUN, str(MANIFESTS / "invalid"), check=False)
    files = {path.name for path in (MANIFESTS / "invalid").glob("*.input.yaml")}
    assert {name for name in files if name not in result.stderr} == LOST_ON_THE_WAY
    assert result.code == 1


def test_a_refusal_names_the_field_and_the_fix(embedded: EmbeddedServer) -> None:
    result = embedded.kubectl(*DRY_RUN, str(MANIFESTS / "invalid/enum-unknown.input.yaml"), check=False)
    assert "spec.cleanUpPolicy" in result.stderr
