"""Why a program could not be started."""

from pathlib import Path

import pytest

from bireme.node.shim.children import Command, is_nowhere


@pytest.mark.parametrize(
    ("program", "nowhere"),
    [("no-such-program", True), ("there", False), ("sub/no-such-program", False)],
)
def test_a_program_is_nowhere_if_no_folder_of_path_has_it(
    tmp_path: Path, program: str, nowhere: bool
) -> None:
    """A folder that is closed to the user makes execvp say "Permission denied" of any name."""
    (tmp_path / "there").touch(mode=0o644)
    command = Command([program], {"PATH": f"{tmp_path}/closed:{tmp_path}"}, str(tmp_path))
    assert is_nowhere(command) == nowhere
