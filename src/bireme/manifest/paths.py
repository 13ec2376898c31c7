"""Paths into a manifest: how the rest of the program names a place in a document."""

import re

Path = tuple[str | int, ...]

_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]+")


def format_path(path: Path) -> str:
    """Return the path as people write it: ``spec.containers[0].name``.

    A key that is not a plain identifier goes in brackets:
    ``metadata.labels[app.kubernetes.io/name]``.
    """
    written = ""
    for element in path:
        if isinstance(element, int) or not _IDENTIFIER.fullmatch(element):
            written += f"[{element}]"
        else:
            written += f".{element}" if written else element
    return written
