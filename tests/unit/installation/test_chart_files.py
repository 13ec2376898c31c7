"""The chart as a folder."""

from pathlib import Path

CHART = Path(__file__).parents[3] / "deploy/helm/bireme"


def test_the_chart_has_no_symbolic_links() -> None:
    """helm warns of each on every install."""
    paths = list(CHART.rglob("*"))
    assert paths
    assert [path for path in paths if path.is_symlink()] == []
