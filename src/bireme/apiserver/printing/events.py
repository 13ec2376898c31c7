"""Events, of either API: the older has timestamps and a count, the newer a time and a series."""

from datetime import datetime
from typing import Any, Final

from bireme.apiserver.printing.ages import UNKNOWN, age
from bireme.apiserver.printing.fields import mapping, name_of, number, present, text
from bireme.apiserver.rules import Object

_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""What Go takes for white space; Python takes more."""


def event(obj: Object, now: datetime) -> list[Any]:
    about = mapping(obj, "involvedObject")
    first = _first_known(age(obj.get("firstTimestamp"), now), age(obj.get("eventTime"), now))
    last, count = _last_seen(obj, first, now)
    return [
        last,
        text(obj, "type"),
        text(obj, "reason"),
        _target(about),
        text(about, "fieldPath"),
        _source(obj),
        text(obj, "message").strip(_SPACES),
        first,
        count,
        name_of(obj),
    ]


def _first_known(*ages: str) -> str:
    return next((each for each in ages if each != UNKNOWN), UNKNOWN)


def _last_seen(obj: Object, first: str, now: datetime) -> tuple[str, int]:
    """When an event was last seen, and how often."""
    series = present(obj, "series")
    if series is not None:
        return age(series.get("lastObservedTime"), now), number(series, "count")
    return _first_known(age(obj.get("lastTimestamp"), now), first), number(obj, "count") or 1


def _target(about: Object) -> str:
    kind, name = text(about, "kind").lower(), text(about, "name")
    return f"{kind}/{name}" if name else kind


def _source(obj: Object) -> str:
    source = mapping(obj, "source")
    component = text(source, "component") or text(obj, "reportingComponent")
    instance = text(source, "host") or text(obj, "reportingInstance")
    return f"{component}, {instance}" if instance else component
