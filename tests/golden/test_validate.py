"""Manifests and, to the letter, what `bireme validate` says about them.

`case.input.yaml` → `case.expected.txt`; `make golden` writes the latter.
"""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from bireme.cli.main import cli

FOLDER = Path(__file__).parent / "validate"
CASES = sorted(FOLDER.glob("*/*.input.yaml"))
UPDATE = os.environ.get("BIREME_GOLDEN") == "update"


def case_id(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.input.yaml')}"


@pytest.mark.parametrize("path", CASES, ids=case_id)
def test_output_is_as_expected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    result = CliRunner().invoke(cli, ["validate", "-f", path.name], catch_exceptions=False)
    actual = f"{result.output}exit status: {result.exit_code}\n"
    expected = path.with_name(path.name.replace(".input.yaml", ".expected.txt"))
    if UPDATE:
        expected.write_text(actual)
    assert actual == expected.read_text()
    assert result.exit_code == (1 if path.parent.name == "invalid" else 0)


def test_there_are_at_least_sixty_invalid_manifests() -> None:
    assert sum(path.parent.name == "invalid" for path in CASES) >= 60


def test_every_expectation_has_its_manifest() -> None:
    expected = {path.name.removesuffix(".expected.txt") for path in FOLDER.glob("*/*.expected.txt")}
    assert expected == {path.name.removesuffix(".input.yaml") for path in CASES}
