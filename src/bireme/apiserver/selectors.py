"""Label and field selectors: what a list or a watch is about."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from bireme.apiserver import errors, formats
from bireme.apiserver.errors import invalid_value
from bireme.apiserver.kinds import Kind
from bireme.apiserver.records import Record
from bireme.apiserver.rules import Object

# An operator made of symbols, or a word; blanks part them. `==` before `=`: the longest wins.
_TOKEN: Final = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+|$)")
_SYMBOLS: Final = ("==", "!=", "=", "!", "(", ")", ",", "<", ">", "")
_OPERATORS: Final = ("in", "notin", "=", "==", "!=", ">", "<")
_INTEGER: Final = re.compile(r"[+-]?\d+")
_PATHS: Final = {"source": "source.component"}
_FALSE_UNLESS_SET: Final = ("spec.hostNetwork", "spec.unschedulable")


class Requirement(NamedTuple):
    """One term of a label selector; `exists` and `!` are operators without values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "!=" | "notin":
                return value is None or value not in self.values
            case ">" | "<":
                return value is not None and _beyond(value, self.operator, self.values[0])
        return value is not None and value in self.values


def _beyond(value: str, operator: str, limit: str) -> bool:
    if _INTEGER.fullmatch(value) is None:
        return False
    return int(value) > int(limit) if operator == ">" else int(value) < int(limit)


class LabelSelector(NamedTuple):
    """All requirements must hold; none at all selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, record: Record) -> bool:
        labels: Mapping[str, str] = record.labels or {}
        return all(each.matches(labels) for each in self.requirements)


class FieldSelector(NamedTuple):
    """Terms of (field, whether it shall be equal, value)."""

    terms: tuple[tuple[str, bool, str], ...] = ()

    def matches(self, record: Record) -> bool:
        if not self.terms:
            return True
        obj = record.object()
        return all((_field(obj, field) == value) is equal for field, equal, value in self.terms)


class Selection(NamedTuple):
    """What a list or a watch is about."""

    namespace: str = ""
    labels: LabelSelector = LabelSelector()
    fields: FieldSelector = FieldSelector()

    @property
    def is_unselective(self) -> bool:
        """Whether it takes all that is in its namespace."""
        return not self.labels.requirements and not self.fields.terms

    def matches(self, record: Record) -> bool:
        if self.namespace and not record.key.startswith(f"{self.namespace}/"):
            return False
        return self.labels.matches(record) and self.fields.matches(record)


def parse_labels(text: str) -> LabelSelector:
    """Read a label selector; a malformed one is a BadRequest, in the API server's words."""
    return LabelSelector(tuple(_LabelParser(text).parse()))


class _LabelParser:
    """Recursive descent over the tokens; every token but the last, which is empty, is consumed once."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._place = 0

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while self._peek():
            if self._peek() != "!" and not self._is_word():
                raise errors.bad_request(
                    f"found '{self._peek()}', expected: !, identifier, or 'end of string'"
                )
            requirements.append(self._requirement())
            separator = self._take()
            if separator not in (",", ""):
                raise errors.bad_request(f"found '{separator}', expected: ',' or 'end of string'")
            if separator == "":
                break
            if self._peek() != "!" and not self._is_word():
                raise errors.bad_request(f"found '{self._peek()}', expected: identifier after ','")
        return requirements

    def _requirement(self) -> Requirement:
        negated = self._peek() == "!" and bool(self._take())
        if not self._is_word():
            raise _unparsed(f"found '{self._peek()}', expected: identifier")
        key = self._take()
        for problem in formats.label_key(key)[:1]:
            raise _unparsed(f"<nil>: {invalid_value('', key, problem).body}")
        if self._peek() in (",", ""):
            return Requirement(key, "!" if negated else "exists")
        operator = self._take()
        if operator not in _OPERATORS:
            raise _unparsed(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._set() if operator in ("in", "notin") else self._value()
        return _checked(Requirement(key, "=" if operator == "==" else operator, values))

    def _value(self) -> tuple[str, ...]:
        if self._peek() in (",", ""):
            return ("",)
        if not self._is_word():
            raise _unparsed(f"found '{self._peek()}', expected: identifier")
        return (self._take(),)

    def _set(self) -> tuple[str, ...]:
        if (opening := self._take()) != "(":
            raise _unparsed(f"found '{opening}' expected: '('")
        if self._peek() not in (",", ")") and not self._is_word():
            raise _unparsed(f"found '{self._peek()}', expected: ',', ')' or identifier")
        values, value = set(), ""
        while (word := self._take()) != ")":
            if word == ",":
                values.add(value)
                value = ""
            elif value or word in _SYMBOLS:
                raise _unparsed(f"found '{word}', expected: ',' or ')'")
            else:
                value = word
        return tuple(sorted(values | {value}))

    def _peek(self) -> str:
        token: str = self._tokens[self._place]
        return token

    def _take(self) -> str:
        token = self._peek()
        self._place = min(self._place + 1, len(self._tokens) - 1)
        return token

    def _is_word(self) -> bool:
        return self._peek() not in _SYMBOLS


def _checked(requirement: Requirement) -> Requirement:
    for index, value in enumerate(requirement.values):
        if requirement.operator in "<>" and _INTEGER.fullmatch(value) is None:
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise _unparsed(f"values[{index}]: {invalid_value('', value, detail).body}")
        for problem in formats.label_value(value)[:1]:
            body = invalid_value("", value, problem).body
            raise _unparsed(f"values[{index}][{requirement.key}]: {body}")
    return requirement


def _unparsed(why: str) -> errors.StatusError:
    return errors.bad_request(f"unable to parse requirement: {why}")


def parse_fields(text: str, kind: Kind) -> FieldSelector:
    """Read a field selector; a field that the kind can't be selected by is a BadRequest."""
    terms = sorted(filter(None, re.findall(r"(?:[^,\\]|\\.|\\$)+", text)))
    return FieldSelector(tuple(_field_term(text, term, kind) for term in terms))


def _field_term(text: str, term: str, kind: Kind) -> tuple[str, bool, str]:
    parts = re.fullmatch(r"(.*?)(!=|==|=)(.*)", term, re.DOTALL)
    if parts is None:
        raise errors.bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
    field, operator, value = parts.groups()
    value = _unescaped(value)
    _check_field(field, kind)
    return field, operator != "!=", value


def _unescaped(value: str) -> str:
    if bad := re.search(r"\\([^\\,=]|$)", re.sub(r"\\[\\,=]", "", value)):
        raise errors.bad_request(f"invalid field selector: invalid escape sequence: {bad[0]}")
    if re.search(r"[,=]", re.sub(r"\\[\\,=]", "", value)):
        raise errors.bad_request("invalid field selector: unescaped character in value: 61")
    return re.sub(r"\\([\\,=])", r"\1", value)


def _check_field(field: str, kind: Kind) -> None:
    common = ("metadata.name", "metadata.namespace") if kind.namespaced else ("metadata.name",)
    if field in common or field in kind.fields:
        return
    if kind.custom or kind.fields:
        raise errors.bad_request(f"field label not supported: {field}")
    raise errors.bad_request(
        f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def _field(obj: Object, field: str) -> str:
    value: object = obj
    for step in _PATHS.get(field, field).split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool) or field in _FALSE_UNLESS_SET:
        return "true" if value else "false"
    return "" if value is None else str(value)
