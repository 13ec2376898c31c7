"""How lines that mpirun has tagged are told apart."""

from bireme.cli.rank_tags import split_ranks


def test_lines_of_a_rank_come_together_without_their_tags() -> None:
    lines = [
        b"bireme: all 2 workers are reachable",
        b"[1,0]<stdout>: one",
        b"[1,0]<stderr>: two",
        b"[1,1]<stdout>: ",
    ]
    assert [*split_ranks(lines)] == [
        (None, [b"bireme: all 2 workers are reachable"]),
        (0, [b"one", b"two"]),
        (1, [b""]),
    ]


def test_output_without_a_newline_is_told_apart() -> None:
    """As 4.1 writes it: without a space, and with a tag wherever a write began."""
    line = b"[1,1]<stdout>:two[1,1]<stdout>:-more[1,0]<stdout>:last"
    assert [*split_ranks([line])] == [(1, [b"two-more"]), (0, [b"last"])]
