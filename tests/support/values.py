"""Values of an installation, with those that have no default."""

from typing import Any, Final

from bireme.installation.values import overlay, read_values

IMAGE: Final[dict[str, Any]] = {"image": {"repository": "registry.example/bireme"}}
SET_IMAGE: Final = "image.repository=registry.example/bireme"


def with_image(values: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the values that are given, on top of an image."""
    return overlay(IMAGE, values or {})


def complete_values(values: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return every value of an installation that sets these."""
    return read_values(with_image(values))
