"""Role bindings."""

from datetime import datetime
from typing import Any

from bireme.apiserver.printing.ages import age
from bireme.apiserver.printing.fields import created, mapping, name_of, objects, text
from bireme.apiserver.rules import Object


def role_binding(obj: Object, now: datetime) -> list[Any]:
    role = mapping(obj, "roleRef")
    subjects = objects(obj, "subjects")
    accounts = [
        f"{text(each, 'namespace')}/{text(each, 'name')}"
        for each in subjects
        if each.get("kind") == "ServiceAccount"
    ]
    return [
        name_of(obj),
        f"{text(role, 'kind')}/{text(role, 'name')}",
        age(created(obj), now),
        _names(subjects, "User"),
        _names(subjects, "Group"),
        ", ".join(accounts),
    ]


def _names(subjects: list[Object], kind: str) -> str:
    return ", ".join(text(each, "name") for each in subjects if each.get("kind") == kind)
