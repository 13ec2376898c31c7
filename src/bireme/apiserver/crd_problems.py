"""What is wrong with a CustomResourceDefinition, in the words of the API server.

The server moves what all versions have in common (their schema, columns or subresources; all of it where
there is one version) to the top of the spec before it looks: paths begin at `spec.validation` then, not at
`spec.versions[0].schema`.
"""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from bireme.apiserver import crd_schemas, formats
from bireme.apiserver.errors import FieldError, forbidden_value, invalid_value, not_supported, required
from bireme.apiserver.rules import Object

_LABEL: Final = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
    " character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for"
    " validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_MIXED_CASE: Final = "may have mixed case, but should otherwise match: "
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_APPROVED: Final = "api-approved.kubernetes.io"
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
_PRESERVE: Final = (
    "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
)
_ONLY_WEBHOOK: Final = "should not be set when strategy is not set to Webhook"
_MOST_SELECTABLE: Final = 8


def problems(new: Object, old: Object | None) -> Iterator[FieldError]:
    """All that is wrong; `old` is None on creation."""
    spec, name = new["spec"], new["metadata"].get("name", "")
    if old is None and name != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
        yield invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    yield from _spec(spec)
    if old is not None:
        yield from _changes(spec, old)
    yield from _stored_versions(new)
    yield from _approval(new, old)
    if spec.get("preserveUnknownFields"):
        yield invalid_value("spec.preserveUnknownFields", True, _PRESERVE)


def _label(value: str) -> list[str]:
    found = ["must be no more than 63 characters"] if len(value.encode()) > 63 else []
    return found if _LABEL.fullmatch(value) else [*found, _LABEL_RULE]


# ---- the spec


def _spec(spec: Object) -> Iterator[FieldError]:
    yield from _group(spec.get("group", ""))
    yield from _choice("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced"))
    versions: list[Object] = spec.get("versions") or []
    shared = {
        key for key in ("schema", "subresources", "additionalPrinterColumns") if _is_shared(versions, key)
    }
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if found := _label(version.get("name", "")):
            yield invalid_value(f"{path}.name", version.get("name", ""), ",".join(found))
        yield from _deprecation(version, path)
        yield from _version(
            {k: v for k, v in version.items() if k not in shared}, version, path, f"{path}.schema"
        )
    yield from _versions(versions)
    # The server keeps the name of the first version twice.
    if versions and (found := _label(versions[0].get("name", ""))):
        yield invalid_value("spec.version", versions[0].get("name", ""), ",".join(found))
    yield from _names_required(spec["names"])
    yield from names(spec["names"], "spec.names")
    if versions:
        yield from _version(
            {key: versions[0].get(key) for key in shared}, versions[0], "spec", "spec.validation"
        )
    yield from _conversion(spec.get("conversion") or {})


def _is_shared(versions: list[Object], key: str) -> bool:
    return all(each.get(key) == versions[0].get(key) for each in versions)


def _group(group: str) -> Iterator[FieldError]:
    if not group:
        yield required("spec.group")
    elif found := formats.dns_subdomain(group):
        yield invalid_value("spec.group", group, ",".join(found))
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")


def _choice(field: str, value: str, choices: tuple[str, ...]) -> Iterator[FieldError]:
    if not value:
        yield required(field)
    elif value not in choices:
        yield not_supported(field, value, choices)


def _versions(versions: list[Object]) -> Iterator[FieldError]:
    if len({each.get("name") for each in versions}) < len(versions):
        yield invalid_value("spec.versions", versions, "must contain unique version names")
    if sum(bool(each.get("storage")) for each in versions) != 1:
        sentence = "must have exactly one version marked as storage version"
        yield invalid_value("spec.versions", versions, sentence)


def _deprecation(version: Object, path: str) -> Iterator[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    field = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        yield invalid_value(field, warning, "can only be set for deprecated versions")
        return
    if len(warning.encode()) > 256:
        yield invalid_value(field, warning, "must be <= 256 characters long")
    if not warning:
        yield invalid_value(field, warning, "must not be an empty string")


def _version(parts: Object, version: Object, path: str, schema_path: str) -> Iterator[FieldError]:
    """The parts of a version that stand under a path; the rest of it stands elsewhere."""
    schema = (parts.get("schema") or {}).get("openAPIV3Schema")
    if schema:
        has_status = (version.get("subresources") or {}).get("status") is not None
        yield from crd_schemas.problems(schema, f"{schema_path}.openAPIV3Schema", has_status=has_status)
    scale = (parts.get("subresources") or {}).get("scale")
    if scale is not None:
        yield from _scale(scale, f"{path}.subresources.scale")
    for index, column in enumerate(parts.get("additionalPrinterColumns") or ()):
        yield from _column(column, f"{path}.additionalPrinterColumns[{index}]")
    selectable = parts.get("selectableFields") or []
    for index, each in enumerate(selectable):
        if not each.get("jsonPath"):
            yield required(f"{path}.selectableFields[{index}].jsonPath")
    if len(selectable) > _MOST_SELECTABLE:
        body = f"Too many: {len(selectable)}: must have at most {_MOST_SELECTABLE} items"
        yield FieldError("FieldValueTooMany", f"{path}.selectableFields", body)


def _scale(scale: Object, path: str) -> Iterator[FieldError]:
    for key, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        json_path = scale.get(key, "")
        if not json_path:
            yield required(f"{path}.{key}")
        elif found := list(_json_path(json_path, f"{path}.{key}")):
            yield from found
        elif not json_path.startswith(f"{root}."):
            yield invalid_value(f"{path}.{key}", json_path, f"should be a json path under {root}")


def _column(column: Object, path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield required(f"{path}.name")
    types, form = f"must be one of {','.join(_COLUMN_TYPES)}", column.get("format")
    if not column.get("type"):
        yield required(f"{path}.type", types)
    elif column["type"] not in _COLUMN_TYPES:
        yield invalid_value(f"{path}.type", column["type"], types)
    if form and form not in _COLUMN_FORMATS:
        yield invalid_value(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not column.get("jsonPath"):
        yield required(f"{path}.JSONPath")
    else:
        yield from _json_path(column["jsonPath"], f"{path}.JSONPath")


def _json_path(json_path: str, field: str) -> Iterator[FieldError]:
    if not json_path.startswith("."):
        yield invalid_value(field, json_path, "must be a simple json path starting with .")


# ---- names


def _names_required(given: Object) -> Iterator[FieldError]:
    for key in ("plural", "singular", "kind", "listKind"):
        if not given.get(key):
            yield required(f"spec.names.{key}")


def names(given: Object, path: str) -> Iterator[FieldError]:
    for key in ("plural", "singular", "kind", "listKind"):
        value = given.get(key, "")
        in_kind = key.lower().endswith("kind")
        found = _label(value.lower() if in_kind else value)
        if value and found:
            yield invalid_value(f"{path}.{key}", value, (_MIXED_CASE if in_kind else "") + ",".join(found))
    yield from _labels(given.get("shortNames") or [], f"{path}.shortNames")
    if given.get("kind") and given["kind"] == given.get("listKind"):
        yield invalid_value(f"{path}.listKind", given["listKind"], "kind and listKind may not be the same")
    yield from _labels(given.get("categories") or [], f"{path}.categories")


def _labels(values: list[str], path: str) -> Iterator[FieldError]:
    for index, value in enumerate(values):
        if found := _label(value):
            yield invalid_value(f"{path}[{index}]", value, ",".join(found))


# ---- conversion


def _conversion(conversion: Object) -> Iterator[FieldError]:
    path, webhook = "spec.conversion", conversion.get("webhook") or {}
    strategy, client = conversion.get("strategy", ""), webhook.get("clientConfig")
    reviews: list[Any] = webhook.get("conversionReviewVersions") or []
    yield from _choice(f"{path}.strategy", strategy, ("None", "Webhook"))
    if strategy == "Webhook":
        yield from _webhook(client, reviews, path)
        return
    if client is not None:
        yield forbidden_value(f"{path}.webhookClientConfig", _ONLY_WEBHOOK)
    if reviews:
        yield forbidden_value(f"{path}.conversionReviewVersions", _ONLY_WEBHOOK)


def _webhook(client: Object | None, reviews: list[Any], path: str) -> Iterator[FieldError]:
    if client is None:
        yield required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
    elif ("url" in client) == ("service" in client):
        yield required(f"{path}.webhookClientConfig", "exactly one of url or service is required")
    if not reviews:
        yield required(f"{path}.conversionReviewVersions")
    elif not {"v1", "v1beta1"} & set(reviews):
        sentence = "must include at least one of v1, v1beta1"
        yield invalid_value(f"{path}.conversionReviewVersions", reviews, sentence)


# ---- what may change, and the rest


def _changes(spec: Object, old: Object) -> Iterator[FieldError]:
    before = old["spec"]
    for field, value, was in (
        ("spec.scope", spec.get("scope"), before.get("scope")),
        ("spec.names.kind", spec["names"].get("kind"), before["names"].get("kind")),
        ("spec.group", spec.get("group"), before.get("group")),
        ("spec.names.plural", spec["names"].get("plural"), before["names"].get("plural")),
    ):
        if value != was:
            yield invalid_value(field, value, "field is immutable")


def _stored_versions(new: Object) -> Iterator[FieldError]:
    stored = (new.get("status") or {}).get("storedVersions") or []
    versions = new["spec"].get("versions") or []
    there = {each.get("name") for each in versions}
    if not stored:
        yield invalid_value("status.storedVersions", None, "must have at least one stored version")
        return
    for each in versions:
        if each.get("storage") and each.get("name") not in stored:
            yield invalid_value(
                "status.storedVersions", stored, f"must have the storage version {each['name']}"
            )
    for index, name in enumerate(stored):
        if name not in there:
            sentence = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in"
                " spec.versions until a storage migration ensures no data remains persisted in"
                f" {name} and removes {name} from status.storedVersions"
            )
            yield invalid_value(f"status.storedVersions[{index}]", name, sentence)


def _approval(new: Object, old: Object | None) -> Iterator[FieldError]:
    """Kinds of Kubernetes' own groups need an approval."""
    group = new["spec"].get("group", "")
    if not re.fullmatch(r"(.*\.)?(k8s|kubernetes)\.io", group):
        return
    given = new["metadata"].get("annotations", {}).get(_APPROVED, "")
    if old is not None and _approval_state(old) == _approval_state(new):
        return
    field, must = (
        f"metadata.annotations[{_APPROVED}]",
        f'protected groups must have approval annotation "{_APPROVED}"',
    )
    if _approval_state(new) == "missing":
        yield required(field, f"{must}, {_SEE}")
    elif _approval_state(new) == "invalid":
        sentence = f'{must} with either a URL or a reason starting with "unapproved", {_SEE}'
        yield invalid_value(field, given, sentence)


def _approval_state(crd: Object) -> str:
    given = crd["metadata"].get("annotations", {}).get(_APPROVED, "")
    if not given:
        return "missing"
    if given.startswith("unapproved"):
        return "bypassed"
    url = urlsplit(given)
    return "approved" if url.scheme and url.netloc else "invalid"
