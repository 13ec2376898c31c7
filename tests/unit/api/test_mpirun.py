"""What mpirun's arguments say."""

import pytest

from bireme.api.mpirun import (
    asks_to_bind,
    binds_by_variable,
    normalize,
    process_count,
    slots_per_worker,
    spell_long_options,
    split_program,
    total_processes,
    unknown_options,
)


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
    ("given", "expected"),
    [
        (["-bind-to", "none", "./a.out", "-np"], ["--bind-to", "none", "./a.out", "-np"]),
        (
            ["-np", "4", "-x", "A", "-mca", "btl", "^ib", "a"],
            ["--np", "4", "-x", "A", "--mca", "btl", "^ib", "a"],
        ),
        (["--map-by", "slot", "a"], ["--map-by", "slot", "a"]),
        (["-genv", "A", "b", "a"], ["-genv", "A", "b", "a"]),
        ([], []),
    ],
    ids=["program's own", "several", "two already", "another MPI's", "empty"],
)
def test_known_long_options_of_a_command_line_get_two_dashes(given: list[str], expected: list[str]) -> None:
    assert spell_long_options(given) == expected


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


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--oversubscribe"], ["--oversubscribe", "--map-by", "slot"]),
        (["-oversubscribe", "-np", "5"], ["--oversubscribe", "--np", "5", "--map-by", "slot"]),
        (["--map-by", ":OVERSUBSCRIBE"], ["--map-by", "slot:OVERSUBSCRIBE"]),
        (["--oversubscribe", "--map-by", "node"], ["--oversubscribe", "--map-by", "node"]),
        (["--oversubscribe", "-N", "3"], ["--oversubscribe", "-N", "3"]),
        (["--map-by", "node:oversubscribe"], ["--map-by", "node:oversubscribe"]),
        (["--map-by", ":PE=2"], ["--map-by", ":PE=2"]),
    ],
)
def test_oversubscription_without_a_mapping_is_mapped_by_slot(given: list[str], expected: list[str]) -> None:
    assert normalize(given) == expected


@pytest.mark.parametrize(
    ("arguments", "binds"),
    [
        ([], False),
        (["-np", "4", "--map-by", "node"], False),
        (["--bind-to", "core"], True),
        (["-bind-to", "core:overload-allowed"], True),
        (["--bind-to=socket"], True),
        (["--bind-to", "none"], False),
        (["--map-by", "slot:PE=2"], True),
        (["--map-by", "ppr:2:node:pe=4"], True),
        (["--cpu-set", "0,1"], True),
        (["--rankfile", "ranks"], True),
        (["--mca", "hwloc_base_binding_policy", "core"], True),
        (["--prtemca", "hwloc_default_binding_policy", "core"], True),
        (["--mca", "btl", "tcp,self"], False),
        (["-x", "--bind-to"], False),
    ],
)
def test_arguments_that_bind_ranks_are_recognized(arguments: list[str], binds: bool) -> None:
    assert asks_to_bind(arguments) is binds


def test_mca_parameters_that_bind_ranks_are_recognized() -> None:
    assert asks_to_bind([], {"hwloc_base_binding_policy": "core"})
    assert not asks_to_bind([], {"btl": "tcp,self"})


@pytest.mark.parametrize(
    ("name", "value", "binds"),
    [
        ("OMPI_MCA_hwloc_base_binding_policy", "core", True),
        ("PRTE_MCA_hwloc_default_binding_policy", "numa:if-supported", True),
        ("OMPI_MCA_hwloc_base_binding_policy", "none", False),
        ("OMPI_MCA_btl", "self", False),
    ],
)
def test_variables_that_bind_ranks_are_recognized(name: str, value: str, binds: bool) -> None:
    assert binds_by_variable(name, value) is binds


@pytest.mark.parametrize(
    ("words", "options", "program"),
    [
        (["a.out", "-n", "4"], [], ["a.out", "-n", "4"]),
        (["-n", "4", "./a.out", "--x"], ["-n", "4"], ["./a.out", "--x"]),
        (["--mca", "btl", "tcp", "-q", "a.out"], ["--mca", "btl", "tcp", "-q"], ["a.out"]),
        (["--bind-to=core", "a.out"], ["--bind-to=core"], ["a.out"]),
        (["-n", "1", "a", ":", "-n", "2", "b"], ["-n", "1"], ["a", ":", "-n", "2", "b"]),
        (["-n", "4"], ["-n", "4"], []),
        (["-n", "4", "--", "--odd"], ["-n", "4"], ["--odd"]),
        (["--use-hwthread-cpus", "a.out"], ["--use-hwthread-cpus"], ["a.out"]),
    ],
)
def test_a_command_line_is_split_at_the_program(
    words: list[str], options: list[str], program: list[str]
) -> None:
    assert split_program(words) == (options, program)


def test_programs_of_one_command_line_are_counted_together() -> None:
    assert total_processes(["-n", "1"], ["a", ":", "-n", "2", "b", ":", "c"]) == 4
    assert total_processes([], ["a", ":", "-n", "2", "b"]) is None
    assert slots_per_worker(["-n", "1"], 1, ["a", ":", "-n", "2", "b"]) == 3


def test_options_that_may_take_a_value_are_unknown() -> None:
    assert unknown_options(["--odd", "a.out"]) == ["--odd"]
    assert unknown_options(["--odd=1", "--display-topo", "-n", "2"]) == []
