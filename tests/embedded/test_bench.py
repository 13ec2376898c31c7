"""The benchmark of the embedded mode, small: that it measures what it says. Its limits are kept elsewhere."""

import math
import shutil

import pytest
from bench import embedded
from bench.measurement import BIN

pytestmark = pytest.mark.xdist_group("commands")


def test_every_figure_is_measured() -> None:
    with embedded.daemon() as running:
        before = running.cpu_seconds()
        assert embedded.measure_pods(running, 4) > 0
        output = embedded.measure_output(running, 3_000_000, 0)
        assert output.lost == 0
        assert min(output.followed, output.written) > 0
        assert running.cpu_seconds() > before
    rest = embedded.measure_rest(0.2)
    assert rest.cpu_percent >= 0
    assert 20 < rest.rss_mb < 500


@pytest.mark.skipif(
    shutil.which("mpirun") is None and not (BIN / "mpirun").exists(),
    reason="needs mpirun: pip install 'bireme[mpi]'",
)
def test_every_way_to_launch_is_measured() -> None:
    # Open MPI 5.0 at times hangs after programs that end before all nodes have started theirs.
    with embedded.daemon() as running:
        launch = embedded.measure_launch(running, runs=1, program=("sleep", "1"))
    assert all(1000 < each < math.inf for each in launch), launch
