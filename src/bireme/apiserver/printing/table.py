"""Tables, and metadata alone: what a client is sent instead of objects, where it asks for that."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

from bireme.apiserver.kinds import Kind
from bireme.apiserver.printing import bindings, claims, custom, events, nodes, plain, pods, services
from bireme.apiserver.printing.columns import columns_of
from bireme.apiserver.printing.fields import mapping
from bireme.apiserver.printing.printer import Cells, Conditions, Printer, no_conditions
from bireme.apiserver.rules import Object

_META: Final = "meta.k8s.io/v1"
_OF_LISTS: Final = ("resourceVersion", "continue", "remainingItemCount")
_LAST_INITIAL_EVENT: Final = "k8s.io/initial-events-end"


def _printer(resource: str, cells: Cells, conditions: Conditions = no_conditions) -> tuple[str, Printer]:
    return resource, Printer(columns_of(resource), cells, conditions)


_PRINTERS: Final = dict(
    (
        _printer("namespaces", plain.namespace),
        _printer("nodes", nodes.node),
        _printer("pods", pods.pod, pods.conditions),
        _printer("services", services.service),
        _printer("configmaps", plain.config_map),
        _printer("secrets", plain.secret),
        _printer("serviceaccounts", plain.service_account),
        _printer("events", events.event),
        _printer("leases.coordination.k8s.io", plain.lease),
        _printer("rolebindings.rbac.authorization.k8s.io", bindings.role_binding),
        _printer("persistentvolumeclaims", claims.claim),
        _printer("priorityclasses.scheduling.k8s.io", plain.priority_class),
    )
)


def table(
    kind: Kind,
    items: Iterable[Object],
    now: datetime,
    *,
    include: str = "Metadata",
    metadata: Object | None = None,
    with_columns: bool = True,
) -> Object:
    """Objects as a Table of meta.k8s.io/v1: a row for each, in their order. Does not raise.

    `include` says what goes with a row: the whole Object, its Metadata, or None. `metadata` is that of the
    list; None says that `items` is one object, whose version is the table's. Only the first table of a watch
    has columns.
    """
    printer = _printer_of(kind)
    item_of = _ITEMS.get(include, partial)
    items = list(items)
    if metadata is None:
        metadata = mapping(items[0], "metadata") if len(items) == 1 else {}
    rows = [_row(printer, item_of, obj, now) for obj in items]
    return {
        "kind": "Table",
        "apiVersion": _META,
        "metadata": _list_metadata(metadata),
        "columnDefinitions": printer.columns if with_columns else None,
        "rows": None if printer is plain.UNDESCRIBED and not rows else rows,
    }


def partial(obj: Object) -> Object:
    """Of an object, its metadata alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": mapping(obj, "metadata")}


def partial_list(items: Iterable[Object], metadata: Object) -> Object:
    """Of a list, its metadata and that of each object."""
    partials = [partial(obj) for obj in items]
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": _META,
        "metadata": _list_metadata(metadata),
        "items": partials or None,
    }


def _printer_of(kind: Kind) -> Printer:
    if kind.custom:
        return custom.printer(kind.columns)
    return _PRINTERS.get(kind.resource, plain.UNDESCRIBED)


def _list_metadata(metadata: Object) -> Object:
    """What of metadata a list has, without what is empty."""
    return {field: metadata[field] for field in _OF_LISTS if metadata.get(field)}


def _row(printer: Printer, item_of: Callable[[Object], Any], obj: Object, now: datetime) -> Object:
    row: Object = {"cells": printer.cells(obj, now)}
    if conditions := printer.conditions(obj):
        row["conditions"] = conditions
    row["object"] = item_of(obj)
    return row


def _whole(obj: Object) -> Object:
    return obj


def _marked(obj: Object) -> Object | None:
    """Nothing, but for the bookmark that ends a watch's first events: it is known by its annotation."""
    annotations = mapping(mapping(obj, "metadata"), "annotations")
    return partial(obj) if annotations.get(_LAST_INITIAL_EVENT) == "true" else None


_ITEMS: Final[dict[str, Callable[[Object], Object | None]]] = {"Object": _whole, "None": _marked}
