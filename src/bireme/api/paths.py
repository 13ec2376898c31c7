"""Where a value stands inside an object."""

import re

Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def format_path(path: Path) -> str:
    """Write a path as users know it: `spec.containers[0].name`, `metadata.labels[example.com/team]`."""
    parts: list[str] = []
    for element in path:
        if isinstance(element, str) and _PLAIN_KEY.fullmatch(element):
            parts.append(f".{element}" if parts else element)
        else:
            parts.append(f"[{element}]")
    return "".join(parts)
