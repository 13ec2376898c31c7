"""A short slice of the benchmarks: they run, and the limits have room to spare on any machine."""

from bench import cli_start, scheduling, validate


def test_the_command_line_starts_about_as_fast_as_its_library() -> None:
    (result,) = cli_start.measure(runs=5)
    assert result.measured < 2 * result.limit


def test_a_large_file_is_validated_at_once() -> None:
    (result,) = validate.measure(runs=3)
    assert result.measured < 8 * result.limit


def test_the_measured_file_is_what_the_name_says() -> None:
    text = validate.manifest()
    assert (text.count("\n"), text.count("---") + 1) == (validate.LINES, validate.DOCUMENTS)


def test_a_scheduler_of_a_hundred_nodes_is_measured() -> None:
    figures = scheduling.measure_size(100)
    assert figures["placements"] > 500
    assert figures["gang"] < 1
