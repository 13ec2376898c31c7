"""The table of permissions in the docs: every permission of every role is in it."""

from collections.abc import Iterator
from typing import Any

import pytest

from bireme.installation.authority import Authority
from bireme.installation.objects import build_objects
from bireme.installation.permissions import permission_tables
from support.values import complete_values

ON = {
    "kubeflow": {"enabled": True},
    "scheduler": {"enabled": True},
    "networkPolicy": {"jobs": True},
}
VALUES: dict[str, dict[str, Any]] = {
    "all namespaces": ON,
    "one namespace": {**ON, "watchNamespace": "team"},
    "volcano": {"gangEngine": "volcano"},
    "native": {"gangEngine": "native"},
}


def granted(values: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Account, resource and verb of each permission that our own accounts are given."""
    objects = build_objects(complete_values(values), "home", Authority())
    roles = {(each["kind"], each["metadata"]["name"]): each for each in objects if "rules" in each}
    for binding in objects:
        for subject in binding.get("subjects") or ():
            if subject["kind"] != "ServiceAccount":
                continue
            role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
            for rule in role["rules"]:
                (group,) = rule["apiGroups"]
                for resource in rule["resources"]:
                    plural, slash, below = resource.partition("/")
                    name = f"{plural}{'.' + group if group else ''}{slash}{below}"
                    yield from ((subject["name"], name, verb) for verb in rule["verbs"])


def listed() -> set[tuple[str, str, str]]:
    """The same of the tables."""
    found, account = set(), ""
    for line in permission_tables().splitlines():
        if line.startswith("Account `"):
            account = line.split("`")[1]
        elif line.startswith("| `"):
            _, what, verbs, *_ = line.split("|")
            resources = what.split("`")[1::2]
            found |= {(account, each, verb.strip()) for each in resources for verb in verbs.split(",")}
    return found


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_every_permission_of_a_role_is_in_the_table(values: dict[str, Any]) -> None:
    assert set(granted(values)) - listed() == set()


def test_every_permission_of_the_table_is_in_a_role() -> None:
    everything = {each for values in VALUES.values() for each in granted(values)}
    everything |= set(granted({"gangEngine": "coscheduling"}))
    names = {"bireme-controller", "bireme-scheduler", "resource-shapes"}
    assert {each for each in listed() if each[1] not in names} - everything == set()
