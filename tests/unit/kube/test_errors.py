"""Answers become exceptions that say what the server said."""

import json

import pytest

from bireme.kube.errors import ApiError, Forbidden, ServerError, error_from
from unit.kube.scripted import status


def test_a_status_is_quoted() -> None:
    body = status(403, "Forbidden", causes=[{"reason": "NamespaceTerminating", "message": "m"}])
    error = error_from(403, {}, json.dumps(body).encode())
    assert isinstance(error, Forbidden)
    assert str(error) == "Forbidden for a test (403 Forbidden)"
    assert error.is_namespace_terminating


def test_another_403_has_nothing_to_do_with_the_namespace() -> None:
    assert not error_from(403, {}, json.dumps(status(403, "Forbidden")).encode()).is_namespace_terminating


@pytest.mark.parametrize(
    ("body", "text"),
    [(b"<h1>Bad gateway</h1>\n", "<h1>Bad gateway</h1> (502)"), (b"", "502"), (b"\xff", "\ufffd (502)")],
)
def test_a_proxy_s_page_is_quoted_too(body: bytes, text: str) -> None:
    error = error_from(502, {}, body)
    assert isinstance(error, ServerError)
    assert str(error) == text


@pytest.mark.parametrize(
    "body",
    [
        b'{"details":{"retryAfterSeconds":1' + b"0" * 400 + b"}}",
        b'{"a":' * 2000 + b"1" + b"}" * 2000,
        b'{"reason":"\xff"}',
    ],
    ids=["patience without end", "nested", "not UTF-8"],
)
def test_any_answer_makes_an_error(body: bytes) -> None:
    assert isinstance(error_from(503, {}, body), ServerError)


def test_a_code_of_no_class_is_still_an_api_error() -> None:
    error = error_from(418, {}, b"{}")
    assert type(error) is ApiError
    assert error.code == 418


def test_details_that_are_not_as_expected_do_no_harm() -> None:
    assert ApiError(500, details={"causes": "x"}).causes == []
    assert ApiError(500, details={"causes": [1]}).causes == []
