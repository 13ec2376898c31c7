"""Kinds of which little is shown."""

from datetime import datetime
from typing import Any, Final

from bireme.apiserver.printing.ages import age, read_moment
from bireme.apiserver.printing.columns import CREATED_AT, NAME
from bireme.apiserver.printing.fields import created, mapping, name_of, number, text
from bireme.apiserver.printing.printer import Printer
from bireme.apiserver.rules import Object
from bireme.apiserver.times import write_time

_ZERO_TIME: Final = "0001-01-01T00:00:00Z"


def undescribed(obj: Object, _: datetime) -> list[Any]:
    moment = read_moment(created(obj))
    return [name_of(obj), write_time(moment) if moment else _ZERO_TIME]


UNDESCRIBED: Final = Printer([NAME, CREATED_AT], undescribed)
"""Prints kinds without a printer of their own: the name, and the very moment of creation."""


def service_account(obj: Object, now: datetime) -> list[Any]:
    return [name_of(obj), age(created(obj), now)]


def namespace(obj: Object, now: datetime) -> list[Any]:
    return [name_of(obj), text(mapping(obj, "status"), "phase"), age(created(obj), now)]


def config_map(obj: Object, now: datetime) -> list[Any]:
    entries = len(mapping(obj, "data")) + len(mapping(obj, "binaryData"))
    return [name_of(obj), entries, age(created(obj), now)]


def secret(obj: Object, now: datetime) -> list[Any]:
    return [name_of(obj), text(obj, "type"), len(mapping(obj, "data")), age(created(obj), now)]


def lease(obj: Object, now: datetime) -> list[Any]:
    return [name_of(obj), text(mapping(obj, "spec"), "holderIdentity"), age(created(obj), now)]


def priority_class(obj: Object, now: datetime) -> list[Any]:
    is_default = obj.get("globalDefault") is True
    policy = text(obj, "preemptionPolicy")
    return [name_of(obj), number(obj, "value"), is_default, age(created(obj), now), policy]
