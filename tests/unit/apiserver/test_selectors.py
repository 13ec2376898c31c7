"""Label and field selectors, and how a server refuses bad ones."""

from typing import Any

import msgspec
import pytest

from bireme.apiserver.errors import StatusError
from bireme.apiserver.kinds import CONFIG_MAP, EVENT, NODE, OURS, POD, Kind
from bireme.apiserver.records import Record, read_record
from bireme.apiserver.selectors import parse_fields, parse_labels

(GENERIC_JOB,) = (kind for kind in OURS if kind.kind == "GenericJob")


def kept(obj: dict[str, Any]) -> Record:
    return read_record("default/a", msgspec.json.encode(obj))


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ("", {}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("!a", {"a": "1"}, False),
        ("a=1", {"a": "1"}, True),
        ("a==1", {"a": "1"}, True),
        ("a=1", {"a": "2"}, False),
        ("a=", {"a": ""}, True),
        ("a=,b", {"a": "", "b": ""}, True),
        ("a!=1", {}, True),
        ("a!=1", {"a": "1"}, False),
        ("a in (1,2)", {"a": "2"}, True),
        ("a in (1, 2)", {}, False),
        ("a notin (1,2)", {}, True),
        ("a notin (1,2)", {"a": "3"}, True),
        ("a notin (1,2)", {"a": "1"}, False),
        ("a in ()", {"a": ""}, True),
        ("a in (,1)", {"a": ""}, True),
        ("a in (1,)", {"a": ""}, True),
        ("a>5", {"a": "6"}, True),
        ("a>5", {"a": "5"}, False),
        ("a<5", {"a": "4"}, True),
        ("a<5", {"a": "x"}, False),
        ("a<5", {}, False),
        (" a = 1 , b != 2 ", {"a": "1"}, True),
        ("a=1,b=2", {"a": "1"}, False),
        ("in in (in)", {"in": "in"}, True),
        ("example.com/a", {"example.com/a": "1"}, True),
    ],
)
def test_labels_are_selected(selector: str, labels: dict[str, str], matches: bool) -> None:
    assert parse_labels(selector).matches(kept({"metadata": {"labels": labels}})) is matches


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("!=a", "found '!=', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
    ],
)
def test_bad_label_selectors_are_refused_in_the_servers_words(selector: str, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_labels(selector)
    assert (refused.value.code, refused.value.message) == (400, message)


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("a%=b", 'unable to parse requirement: <nil>: Invalid value: "a%": name part must consist of'),
        ("a>b", "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators"),
        ("a=_b", 'unable to parse requirement: values[0][a]: Invalid value: "_b": a valid label must be'),
    ],
    ids=["key", "number", "value"],
)
def test_bad_labels_in_a_selector_are_refused(selector: str, words: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_labels(selector)
    assert refused.value.message.startswith(words)


OBJECT = {
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"nodeName": "node", "unschedulable": True},
    "status": {"phase": "Running"},
    "source": {"component": "kubelet"},
}


@pytest.mark.parametrize(
    ("kind", "selector", "matches"),
    [
        (POD, "", True),
        (POD, "spec.nodeName=node", True),
        (POD, "spec.nodeName==node", True),
        (POD, "spec.nodeName!=node", False),
        (POD, "spec.nodeName=node,status.phase=Pending", False),
        (POD, "status.podIP=", True),
        (POD, "spec.hostNetwork=false", True),
        (CONFIG_MAP, "metadata.name=a", True),
        (CONFIG_MAP, "metadata.namespace=other", False),
        (CONFIG_MAP, r"metadata.name=a\,b", False),
        (GENERIC_JOB, "metadata.name!=b", True),
        (NODE, "spec.unschedulable=true", True),
        (EVENT, "source=kubelet", True),
    ],
)
def test_fields_are_selected(kind: Kind, selector: str, matches: bool) -> None:
    assert parse_fields(selector, kind).matches(kept(OBJECT)) is matches


@pytest.mark.parametrize(
    ("kind", "selector", "message"),
    [
        (POD, "spec.foo=x", "field label not supported: spec.foo"),
        (GENERIC_JOB, "spec.foo=x", "field label not supported: spec.foo"),
        (
            CONFIG_MAP,
            "data.k=v",
            '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (POD, "nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
        (POD, "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        (POD, r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b"),
        (NODE, "metadata.namespace=a", "field label not supported: metadata.namespace"),
    ],
)
def test_bad_field_selectors_are_refused_in_the_servers_words(
    kind: Kind, selector: str, message: str
) -> None:
    with pytest.raises(StatusError) as refused:
        parse_fields(selector, kind)
    assert (refused.value.code, refused.value.message) == (400, message)


def test_an_escaped_value_is_the_plain_one() -> None:
    def named(name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}}

    assert parse_fields(r"metadata.name=a\,b\=c\\", POD).matches(kept(named("a,b=c\\")))
