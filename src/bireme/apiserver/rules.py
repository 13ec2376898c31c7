"""What a kind may do differently from the others. Pods and namespaces do; most kinds do not."""

# ruff: noqa: ARG002 - a kind without rules of its own looks at nothing

from datetime import datetime
from typing import Any

from bireme.apiserver.errors import FieldError

Object = dict[str, Any]
"""An object as plain data. What the store hands out is shared: it is read, never changed."""


class Rules:
    """The rules of a kind without rules of its own.

    `new` is always a dict that may be changed at its top, and in its metadata; what lies deeper is shared
    with stored objects and must be replaced, not changed.
    """

    def default(self, new: Object) -> None:
        """Fill in what is left out, on every write."""

    def prepare_create(self, new: Object) -> None:
        """Set what the server alone decides on creation."""

    def prepare_update(self, new: Object, old: Object) -> None:
        """Take back what a write to the main resource may not change."""

    def prepare_status(self, new: Object, old: Object) -> None:
        """Take back what a write to the status subresource may not change, beyond the spec."""

    def problems(self, new: Object, old: Object | None) -> list[FieldError]:
        """What is wrong with an object beyond its metadata; `old` is None on creation."""
        return []

    def content_problems(self, new: Object, old: Object | None) -> list[FieldError]:
        """What is wrong with the values in an object; asked only where objects are decoded, too."""
        return []

    def status_problems(self, new: Object, old: Object) -> list[FieldError]:
        return []

    def grace_seconds(self, obj: Object, requested: int | None) -> int | None:
        """How long an object stays after it was asked to go; None where the kind knows no grace."""
        return None

    def hold(self, obj: Object, now: datetime) -> Object | None:
        """The object as it stays when it is asked to go, where the kind has a way of its own; or None."""
        return None

    def may_go(self, obj: Object) -> bool:
        """Whether an object without finalizers can be removed."""
        return True
