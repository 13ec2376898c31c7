"""When a call is made again, and after how long."""

from typing import Final, NamedTuple

from bireme.kube.errors import ApiError, KubeError, ServerError, TooManyRequests, TransportError

LONGEST_ASKED_SECONDS: Final = 30.0
"""A server that asks for more patience gets this much; the caller has a clock of its own."""


class Backoff(NamedTuple):
    """Waits that double from the first to the longest, each jittered down by up to a half."""

    first_seconds: float
    longest_seconds: float

    def delay(self, failures: int, random: float, asked: float | None = None) -> float:
        """The wait after so many failures, from 1; `random` is from 0 to 1.

        What the server has asked for is added to, as it asked everybody else for the same.
        """
        plain = min(self.longest_seconds, self.first_seconds * 2.0 ** min(failures - 1, 30))
        return plain * (0.5 + random / 2) + min(asked or 0.0, LONGEST_ASKED_SECONDS)


CALLS: Final = Backoff(0.1, 5.0)
MOST_TRIES: Final = 5


def asked_patience(error: KubeError) -> float | None:
    """The seconds that the server asked us to wait."""
    return error.retry_after if isinstance(error, ApiError) else None


def is_refused(error: KubeError) -> bool:
    """Whether nothing was done: the call can be made again though twice would be wrong."""
    match error:
        case TooManyRequests():
            return True
        case ServerError():
            return error.code == 503 and error.retry_after is not None
        case TransportError():
            return not error.ambiguous
    return False


def is_transient(error: KubeError) -> bool:
    """Whether a call that may be made twice is worth making again."""
    return isinstance(error, TooManyRequests | ServerError | TransportError)
