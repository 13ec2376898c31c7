"""Tables as a whole: metadata, columns, and what goes with each row."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bireme.apiserver import kinds
from bireme.apiserver.kinds import CORE, Kind
from bireme.apiserver.printing.table import partial, partial_list, table
from support.printed_widgets import BROKEN, PLAIN, WIDGET

NOW = datetime(2019, 5, 6, 7, 13, 9, tzinfo=UTC)
METADATA = {"name": "a", "resourceVersion": "7", "labels": {"x": "y"}}
OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": METADATA, "data": {"a": "1"}}
PARTIAL = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": METADATA}


def names(kind: Kind) -> list[str]:
    return [column["name"] for column in table(kind, [], NOW)["columnDefinitions"]]


@pytest.mark.parametrize(
    ("include", "carried"), [("None", None), ("Metadata", PARTIAL), ("Object", OBJECT)], ids=str
)
def test_a_row_carries_what_was_asked_for(include: str, carried: object) -> None:
    (row,) = table(kinds.CONFIG_MAP, [OBJECT], NOW, include=include)["rows"]
    assert row == {"cells": ["a", 1, "<unknown>"], "object": carried}


def test_the_bookmark_that_ends_the_first_events_always_carries_its_metadata() -> None:
    metadata = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
    (row,) = table(kinds.POD, [{"metadata": metadata}], NOW, include="None")["rows"]
    assert row["object"] == PARTIAL | {"metadata": metadata}


def test_the_table_of_one_object_has_its_version() -> None:
    assert table(kinds.CONFIG_MAP, [OBJECT], NOW)["metadata"] == {"resourceVersion": "7"}


def test_the_table_of_a_list_has_the_lists_metadata_but_for_what_is_empty() -> None:
    listed = {"resourceVersion": "9", "continue": "x", "remainingItemCount": 2}
    assert table(kinds.CONFIG_MAP, [OBJECT], NOW, metadata=listed)["metadata"] == listed
    last = {"resourceVersion": "9", "continue": ""}
    assert table(kinds.CONFIG_MAP, [OBJECT], NOW, metadata=last)["metadata"] == {"resourceVersion": "9"}


def test_later_events_of_a_watch_have_no_columns() -> None:
    assert table(kinds.POD, [OBJECT], NOW, with_columns=False)["columnDefinitions"] is None


def test_a_list_without_objects_has_no_rows() -> None:
    assert table(kinds.POD, [], NOW)["rows"] == []
    assert table(PLAIN, [], NOW)["rows"] == []
    assert table(kinds.ROLE, [], NOW)["rows"] is None, (
        "as the real server answers for kinds without a printer"
    )


@pytest.mark.parametrize("kind", [*CORE, WIDGET, PLAIN, BROKEN], ids=lambda kind: kind.plural)
def test_a_row_has_a_cell_for_each_column(kind: Kind) -> None:
    made = table(kind, [{"metadata": {"name": "a"}}], NOW)
    assert len(made["rows"][0]["cells"]) == len(made["columnDefinitions"])
    assert all(
        column.keys() == {"name", "type", "format", "description", "priority"}
        for column in made["columnDefinitions"]
    )


def test_columns_are_those_of_the_kind() -> None:
    assert names(kinds.POD) == [
        "Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates",
    ]  # fmt: skip
    assert names(kinds.CUSTOM_RESOURCE_DEFINITION) == ["Name", "Created At"]
    assert names(PLAIN) == ["Name", "Age"]
    assert names(BROKEN) == ["Name", "one"], "what follows a broken column is not shown"


def test_metadata_alone_is_a_list_of_its_own() -> None:
    listed: dict[str, Any] = {"resourceVersion": "9"}
    assert partial(OBJECT) == PARTIAL
    assert partial_list([OBJECT], listed)["items"] == [PARTIAL]
    assert partial_list([], listed) == {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": listed,
        "items": None,
    }
