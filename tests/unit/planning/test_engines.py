"""The door to other gang engines."""

from datetime import UTC, datetime

import msgspec
import pytest

from bireme.cli.controller import ENGINES
from bireme.control.groups import group_resource
from bireme.planning import Observed, Settings, plan
from bireme.planning.actions import Create, CreatePod
from bireme.planning.engines import NAMES, has_groups
from bireme.testing.builders import generic_job, replicas

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_command_offers_every_engine() -> None:
    assert sorted(ENGINES) == sorted(NAMES)


@pytest.mark.parametrize("engine", NAMES)
def test_a_job_without_a_queue_is_the_same_under_every_engine(engine: str) -> None:
    job = generic_job(replicas("worker", 2))
    made = plan(Observed(job, settings=Settings(gang_engine=engine)), NOW)
    assert made.actions == plan(Observed(job), NOW).actions


@pytest.mark.parametrize("engine", NAMES)
def test_groups_are_created_where_the_controller_looks_for_them(engine: str) -> None:
    job = generic_job(replicas("worker", 2), scheduler={"t9kScheduler": {"queue": "q", "priority": 0}})
    made = plan(Observed(job, settings=Settings(gang_engine=engine)), NOW)
    groups = [each.object for each in made.actions if isinstance(each, Create) and each.kind == "PodGroup"]
    resource = group_resource(engine)
    assert [group["apiVersion"] for group in groups] == [resource.api_version] * has_groups(engine)
    pods = [each.object for each in made.actions if isinstance(each, CreatePod)]
    assert len(pods) == 2
    assert b"bireme-0" not in msgspec.json.encode(pods)
