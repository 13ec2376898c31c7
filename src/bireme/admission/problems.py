"""What admission says about an object: errors that refuse it, warnings that do not."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec

from bireme.admission.words import closest
from bireme.api.paths import Path, format_path

MOST_ERRORS: Final = 100
_MOST_GUESSES: Final = 50
Severity = Literal["error", "warning"]


class _Absent(msgspec.Struct, frozen=True):
    """There is no value to show: the field is missing, or the problem is not about one value."""


ABSENT: Final = _Absent()


class RenameKey(msgspec.Struct, frozen=True, tag=True):
    """Write the field's name as `new`."""

    new: str


class QuoteScalar(msgspec.Struct, frozen=True, tag=True):
    """Quote the value, keeping its very text, so that YAML reads a string."""


class ReplaceScalar(msgspec.Struct, frozen=True, tag=True):
    """Write `text` instead of the value."""

    text: str


class SplitItem(msgspec.Struct, frozen=True, tag=True):
    """Make several list items of one."""

    parts: tuple[str, ...]


class WrapScalar(msgspec.Struct, frozen=True, tag=True):
    """Write `{key: value}` instead of the value."""

    key: str


Fix = RenameKey | QuoteScalar | ReplaceScalar | SplitItem | WrapScalar
"""The one right way to repair a problem; where there are several, a problem has none."""


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong, where, why, and what to do about it.

    `rule` is a stable word for programs; `message` says the same, with the value, for people.
    `at_key` says that the field's name is to blame rather than its value.
    """

    severity: Severity
    path: Path
    rule: str
    message: str
    value: Any = ABSENT
    hint: str | None = None
    fix: Fix | None = None
    at_key: bool = False

    def __str__(self) -> str:
        return f"{format_path(self.path)}: {self.message}"

    @property
    def explained(self) -> str:
        """What is wrong and what to do about it, in one line, without the place."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


class TooManyErrorsError(Exception):
    """There are so many errors that nobody would read more of them."""


class Findings:
    """Collects problems in the order in which they are found.

    However large and wrong an object is, to say so costs little: so many errors end the search
    (TooManyErrorsError), warnings beyond as many are left out, and few words are guessed at.
    """

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._errors = self._warnings = self._guesses = 0

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._problems)

    def error(
        self,
        path: Path,
        rule: str,
        message: str,
        *,
        value: Any = ABSENT,
        hint: str | None = None,
        fix: Fix | None = None,
        at_key: bool = False,
    ) -> None:
        self._problems.append(Problem("error", path, rule, message, value, hint, fix, at_key))
        self._errors += 1
        if self._errors == MOST_ERRORS:
            raise TooManyErrorsError

    def warn(
        self,
        path: Path,
        rule: str,
        message: str,
        *,
        value: Any = ABSENT,
        hint: str | None = None,
        at_key: bool = False,
    ) -> None:
        self._warnings += 1
        if self._warnings <= MOST_ERRORS:
            self._problems.append(Problem("warning", path, rule, message, value, hint, None, at_key))

    def guess(self, word: str, candidates: Iterable[str]) -> str | None:
        """The candidate that `word` was most likely meant to be; None also where that was asked too often."""
        self._guesses += 1
        return closest(word, candidates) if self._guesses <= _MOST_GUESSES else None

    def add_below(self, other: "Findings", covered: set[Path]) -> None:
        """Take over what another pass found, except at or below a place that is covered already."""
        for problem in other:
            if not any(problem.path[:length] in covered for length in range(len(problem.path) + 1)):
                self._problems.append(problem)

    @property
    def error_paths(self) -> set[Path]:
        return {problem.path for problem in self._problems if problem.severity == "error"}


def sort_problems(problems: Iterator[Problem] | list[Problem]) -> list[Problem]:
    """Errors before warnings, otherwise in the order found."""
    return sorted(problems, key=lambda problem: problem.severity == "warning")
