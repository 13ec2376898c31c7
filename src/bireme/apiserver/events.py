"""Events: what happened to an object. Those with an `eventTime` are of the newer sort, and must say more."""

from collections.abc import Iterator
from typing import Final

from bireme.apiserver import formats
from bireme.apiserver.errors import FieldError, invalid_value, required
from bireme.apiserver.rules import Object, Rules

_LONGEST: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_ALWAYS: Final[Object] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
"""What is written even where it is empty."""
_NEEDED: Final = ("reportingInstance", "action", "reason")


class EventRules(Rules):
    """The rules of Events."""

    def default(self, new: Object) -> None:
        for field, empty in _ALWAYS.items():
            new.setdefault(field, empty)

    def content_problems(self, new: Object, old: Object | None) -> list[FieldError]:  # noqa: ARG002
        return [*_namespace_problems(new), *(_newer_problems(new) if new.get("eventTime") else ())]


def _namespace_problems(event: Object) -> Iterator[FieldError]:
    """An event stands in the namespace of what it is about; `default` has those about what has none."""
    about = (event.get("involvedObject") or {}).get("namespace", "")
    namespace, newer = event["metadata"].get("namespace", ""), bool(event.get("eventTime"))
    homeless = ("", "default", "kube-system") if newer else ("", "default")
    fits = (newer or about == namespace) if about else namespace in homeless
    if not fits:
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")


def _newer_problems(event: Object) -> Iterator[FieldError]:
    component = event.get("reportingComponent", "")
    if not component:
        yield required("reportingComponent")
    for problem in formats.label_key(component):
        yield invalid_value("reportingComponent", component, problem)
    for field, most in _LONGEST.items():
        text = event.get(field, "")
        if not text and field in _NEEDED:
            yield required(field)
        if len(text.encode()) > most:
            yield invalid_value(field, "", f"can have at most {most} characters")
