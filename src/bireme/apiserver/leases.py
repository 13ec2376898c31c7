"""Leases: who holds something, and until when."""

from bireme.apiserver.errors import FieldError, invalid_value
from bireme.apiserver.rules import Object, Rules


class LeaseRules(Rules):
    """The rules of Leases. Coordinated leader election is off, as it is by default."""

    def prepare_create(self, new: Object) -> None:
        off = ("strategy", "preferredHolder")
        new["spec"] = {key: value for key, value in (new.get("spec") or {}).items() if key not in off}

    def prepare_update(self, new: Object, old: Object) -> None:  # noqa: ARG002
        self.prepare_create(new)

    def content_problems(self, new: Object, old: Object | None) -> list[FieldError]:  # noqa: ARG002
        spec = new.get("spec") or {}
        seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        problems = []
        if seconds is not None and seconds <= 0:
            problems.append(invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            sentence = "must be greater than or equal to 0"
            problems.append(invalid_value("spec.leaseTransitions", transitions, sentence))
        return problems
