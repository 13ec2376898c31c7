"""What mpirun's arguments say."""

import pytest

from bireme.api.mpirun import normalize, process_count, slots_per_worker


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["-bind-to", "none"], ["--bind-to", "none"]),
        (["-np", "4", "-N", "2"], ["--np", "4", "-N", "2"]),
        (["--mca", "btl", "-tcp"], ["--mca", "btl", "-tcp"]),
        (["-x", "A=-b", "-v"], ["-x", "A=-b", "-v"]),
        (["--enable-recovery", "-max-restarts", "3", "-q"], ["-q"]),
        (["-some-flag", "value", "-other"], ["--some-flag", "value", "--other"]),
    ],
)
def test_long_options_get_two_dashes_and_values_stay(given: list[str], expected: list[str]) -> None:
    assert normalize(given) == expected


@pytest.mark.parametrize(
    ("arguments", "workers", "slots"),
    [
        ([], 3, 1),
        (["-N", "4"], 2, 4),
        (["-npernode", "3"], 2, 3),
        (["--map-by", "ppr:8:node"], 2, 8),
        (["--map-by", "ppr:2:node:PE=4"], 2, 2),
        (["--map-by", "ppr:2:socket"], 2, 1),
        (["--map-by", "PPR:4:NODE"], 2, 4),
        (["--map-by=ppr:3:node"], 2, 3),
        (["-np", "5"], 2, 3),
        (["--np=8"], 2, 4),
        (["-n", "4"], 4, 1),
        (["-np", "8", "-N", "2"], 4, 2),
        (["-pernode"], 4, 1),
        (["-np", "many"], 4, 1),
        (["-x", "-np", "4"], 4, 1),
    ],
)
def test_slots_come_from_per_node_options_then_from_the_number_of_ranks(
    arguments: list[str], workers: int, slots: int
) -> None:
    assert slots_per_worker(arguments, workers) == slots


def test_the_last_count_wins() -> None:
    assert process_count(["-np", "2", "--np", "6"]) == 6
