"""Logs are one JSON object per line."""

import io
import json
import logging

from bireme.control.logs import JsonFormatter


def test_a_line_has_the_message_and_what_it_speaks_of() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("bireme.test")
    logger.propagate = False
    logger.addHandler(handler)
    logger.warning("pass failed: %s", "no\nroute", extra={"job": "a", "uid": "u-1"})
    logger.removeHandler(handler)
    line = json.loads(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert (line["level"], line["message"], line["job"], line["uid"]) == (
        "warning", "pass failed: no\nroute", "a", "u-1",
    )  # fmt: skip
