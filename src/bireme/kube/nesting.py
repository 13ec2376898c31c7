"""JSON that is nested deeper than Python takes by itself, of which something must be read all the same."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Final

_DEEPEST: Final = 12_000
"""An API server takes 10,000 levels; to skip one costs a decoder a few hundred bytes of the stack."""


@contextlib.contextmanager
def deep_nesting() -> Iterator[None]:
    """Let decoders go as deep as an API server does. For decoders only: Python's own frames are larger."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(max(usual, _DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)
