import pytest

from bireme.apiserver.managed.elements import ElementError, by_keys, by_value, canonical, describe, rank


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("f:name", "f:name", id="a field"),
        pytest.param("f:a:b", "f:a:b", id="a field with a colon"),
        pytest.param('k:{"port": 80, "name":"x"}', 'k:{"name":"x","port":80}', id="keys in another order"),
        pytest.param('k:{"port":80.0}', 'k:{"port":80}', id="a whole number with a fraction"),
        pytest.param('v:"<a>"', 'v:"\\u003ca\\u003e"', id="what Go escapes"),
        pytest.param("v: 7", "v:7", id="a number"),
        pytest.param("i:07", "i:7", id="a place"),
        pytest.param("q:x", None, id="a sort that is not known"),
    ],
)
def test_an_element_has_one_text(written: str, expected: str | None) -> None:
    assert canonical(written) == expected


@pytest.mark.parametrize("written", ["", "f", "name", "k:{", "k:7", "v:", "i:x"])
def test_what_is_no_element_is_refused(written: str) -> None:
    with pytest.raises(ElementError):
        canonical(written)


def test_elements_are_sorted_by_what_they_say() -> None:
    expected = [
        ".", "f:a", "f:b", 'k:{"name":"a"}', 'k:{"name":"a!"}', 'k:{"port":80}', 'k:{"port":443}',
        'k:{"port":443,"protocol":"TCP"}', 'k:{"port":443,"protocol":"UDP"}', "v:9", "v:10", 'v:"a"',
        "v:false", "v:true", "i:2", "i:10",
    ]  # fmt: skip
    assert sorted(set(expected), key=rank) == expected


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        pytest.param("f:spec", ".spec", id="a field"),
        pytest.param(by_keys(("name", "port"), "c", 80), '[name="c",port=80]', id="keys"),
        pytest.param(by_value("x"), '[="x"]', id="a text"),
        pytest.param(by_value(True), "[=true]", id="a truth"),
        pytest.param("i:3", "[3]", id="a place"),
    ],
)
def test_an_element_in_a_sentence(element: str, expected: str) -> None:
    assert describe(element) == expected


def test_keys_that_python_takes_for_equal_are_told_apart() -> None:
    assert by_keys(("a",), 1) != by_keys(("a",), True)
    assert by_keys(("a",), {"b": 1}) == 'k:{"a":{"b":1}}'
