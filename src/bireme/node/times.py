"""Moments as pods carry them: whole seconds, UTC."""

from datetime import UTC, datetime


def write_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_time(text: str) -> datetime:
    return datetime.fromisoformat(text)
