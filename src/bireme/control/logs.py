"""Structured logs: one JSON object per line, with the job they speak of."""

import json
import logging
from typing import TextIO

from bireme.terminal_text import escape_json, neutralise

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """What a log collector expects; `extra` fields stand beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _STANDARD},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escape_json(json.dumps(line, default=str, ensure_ascii=False))


class TextFormatter(logging.Formatter):
    """Lines for people: level and message, and nothing that a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        return neutralise(super().format(record))


def log_to(stream: TextIO, *, level: int = logging.INFO, as_json: bool = True) -> None:
    """Send all logs there."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter("%(levelname)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
