"""Roles and RoleBindings. They are kept, and grant nothing."""

from collections.abc import Iterator, Sequence
from typing import Final

from bireme.apiserver import checks, formats
from bireme.apiserver.errors import FieldError, invalid_value, not_supported, required
from bireme.apiserver.rules import Object, Rules

GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")


class RoleRules(Rules):
    """The rules of Roles."""

    def default(self, new: Object) -> None:
        new["rules"] = new.get("rules") or None

    def content_problems(self, new: Object, old: Object | None) -> list[FieldError]:  # noqa: ARG002
        return [
            problem
            for index, rule in enumerate(new.get("rules") or ())
            for problem in _rule_problems(f"rules[{index}]", rule)
        ]


class RoleBindingRules(Rules):
    """The rules of RoleBindings: the role stays."""

    def default(self, new: Object) -> None:
        reference = new.get("roleRef") or {}
        new["roleRef"] = reference | {"apiGroup": reference.get("apiGroup") or GROUP}
        if subjects := new.get("subjects"):
            new["subjects"] = [_subject(each) for each in subjects]

    def problems(self, new: Object, old: Object | None) -> list[FieldError]:
        if old is None or new["roleRef"] == old["roleRef"]:
            return []
        given = new["roleRef"]
        # As the server's own type names its fields.
        shown = {"APIGroup": given["apiGroup"], "Kind": given.get("kind", ""), "Name": given.get("name", "")}
        return [invalid_value("roleRef", shown, "cannot change roleRef")]

    def content_problems(self, new: Object, old: Object | None) -> list[FieldError]:  # noqa: ARG002
        return [*_reference_problems(new["roleRef"]), *_subject_problems(new.get("subjects") or ())]


def _subject(subject: Object) -> Object:
    if subject.get("apiGroup") or subject.get("kind") not in ("User", "Group"):
        return subject
    return subject | {"apiGroup": GROUP}


def _rule_problems(field: str, rule: Object) -> Iterator[FieldError]:
    if not rule.get("verbs"):
        yield required(f"{field}.verbs", "verbs must contain at least one value")
    if paths := rule.get("nonResourceURLs"):
        sentence = "namespaced rules cannot apply to non-resource URLs"
        yield invalid_value(f"{field}.nonResourceURLs", paths, sentence)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            sentence = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid_value(f"{field}.nonResourceURLs", paths, sentence)
        return
    if not rule.get("apiGroups"):
        yield required(f"{field}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{field}.resources", "resource rules must supply at least one resource")


def _reference_problems(reference: Object) -> Iterator[FieldError]:
    yield from checks.one_of("roleRef.apiGroup", reference["apiGroup"], (GROUP,))
    yield from checks.one_of("roleRef.kind", reference.get("kind", ""), ("Role", "ClusterRole"))
    name = reference.get("name")
    if not name:
        yield required("roleRef.name")
        return
    for problem in formats.path_segment(name):
        yield invalid_value("roleRef.name", name, problem)


def _subject_problems(subjects: Sequence[Object]) -> Iterator[FieldError]:
    for index, subject in enumerate(subjects):
        field, kind, group = f"subjects[{index}]", subject.get("kind", ""), subject.get("apiGroup", "")
        name = subject.get("name")
        if not name:
            yield required(f"{field}.name")
        elif kind == "ServiceAccount":
            yield from checks.subdomain(f"{field}.name", name)
        if kind not in _SUBJECTS:
            yield not_supported(f"{field}.kind", kind, _SUBJECTS)
        else:
            yield from checks.one_of(f"{field}.apiGroup", group, ("" if kind == "ServiceAccount" else GROUP,))
