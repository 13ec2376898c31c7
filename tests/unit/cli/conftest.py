"""Commands in this process must not read the developer's own saved target."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _no_saved_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
