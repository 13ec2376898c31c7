"""Quantities are Kubernetes' own, to the last billionth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.api.quantity import Quantity, QuantityError, parse_quantity


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("1", 10**9),
        ("500m", 5 * 10**8),
        ("1.5Gi", 3 * 2**29 * 10**9),
        ("0.5Ki", 512 * 10**9),
        ("2k", 2 * 10**12),
        ("16G", 16 * 10**18),
        ("1e3", 10**12),
        ("1E3", 10**12),
        ("1.5e-2", 15 * 10**6),
        ("+2", 2 * 10**9),
        ("-3", -3 * 10**9),
        (".5", 5 * 10**8),
        ("5.", 5 * 10**9),
        ("100n", 100),
        ("0.1n", 1),
        ("1u", 1000),
        (2, 2 * 10**9),
        (0.25, 25 * 10**7),
    ],
)
def test_every_notation_is_read_exactly(text: str | float, nanos: int) -> None:
    assert parse_quantity(text).nanos == nanos


@pytest.mark.parametrize(
    "text", ["", "4GB", "1 Gi", "Gi", "1ki", "0x10", "1e", "--1", "1.2.3", "NaN", "1e1e1", "１"]
)
def test_what_kubernetes_does_not_know_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


def test_requests_round_up_and_allocatable_rounds_down() -> None:
    quantity = parse_quantity("1500.5m")
    assert (quantity.millis(), quantity.millis_available()) == (1501, 1500)
    assert (quantity.units(), quantity.units_available()) == (2, 1)


def test_numbers_beyond_the_range_are_capped() -> None:
    assert parse_quantity("1e100").units() == 2**63 - 1
    assert parse_quantity("-9e30").units_available() == -(2**63 - 1)
    assert parse_quantity("1e-100").nanos == 1


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("1024Mi", "1Gi"), ("0.5", "500m"), ("1000", "1k"), ("1000e3", "1e6"), ("512Ki", "512Ki"),
     ("1.5Gi", "1536Mi"),
     ("1000m", "1"), ("100", "100"), ("0", "0"), ("1500m", "1500m"), ("2048", "2048"), ("1e0", "1")],
)  # fmt: skip
def test_canonical_form(text: str, canonical: str) -> None:
    assert str(parse_quantity(text)) == canonical


@given(st.integers(-(10**24), 10**24), st.sampled_from(["BinarySI", "DecimalSI", "DecimalExponent"]))
def test_canonical_form_reads_back_as_the_same_amount(nanos: int, notation: str) -> None:
    quantity = Quantity(nanos, notation)  # type: ignore[arg-type]
    assert parse_quantity(str(quantity)).nanos == nanos


def test_sums_and_differences_are_exact() -> None:
    tenth = parse_quantity("100m")
    assert str(sum((tenth for _ in range(9)), start=tenth)) == "1"
    assert str(parse_quantity("1Gi") - parse_quantity("1Mi")) == "1023Mi"
