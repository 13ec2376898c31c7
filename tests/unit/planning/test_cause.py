"""What is kept of a last message."""

from bireme.planning.cause import tail


def test_a_message_ends_where_its_words_do() -> None:
    """The real mpirun ends its own with an empty line that holds a NUL."""
    assert tail("why\n  Exit code: 3\n-----\n\0\n") == "why\n  Exit code: 3\n-----"


def test_only_the_end_of_a_long_message_is_kept() -> None:
    assert tail("\n".join(map(str, range(100)))).split("\n") == [str(line) for line in range(80, 100)]
    assert len(tail("ä" * 5000).encode()) == 2048
