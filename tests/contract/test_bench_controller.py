"""A short slice of the controller's benchmark: it runs, and measures what its name says."""

import math

import pytest
from bench import controller

pytestmark = pytest.mark.xdist_group("control_plane")


def test_the_controller_is_measured_against_the_bare_limit() -> None:
    (result,) = controller.measure((controller.Shape(10, 3),), with_peer=False)
    assert result.name == "controller ÷ bare limit, 10 jobs × 3 pods"
    assert 0 < result.measured < math.inf
