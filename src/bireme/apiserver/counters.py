"""What a server draws at random, counted: the same in every run."""

import itertools
from collections.abc import Callable
from typing import Final

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


def counted_uids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012x}"


def counted_suffixes() -> Callable[[], str]:
    """The suffixes of generated names, of the letters that a server takes."""
    words = itertools.product(_SUFFIX_LETTERS, repeat=5)
    return lambda: "".join(next(words))
