"""Rules for an object's own metadata, and for the names that derive from it."""

from collections.abc import Iterable, Mapping
from typing import Any

from bireme.admission.problems import Findings
from bireme.admission.words import describe
from bireme.api.kinds import GENERIC_JOB, JOB_KINDS, Kind
from bireme.api.meta import ObjectMeta
from bireme.api.names import (
    GENERATED_SUFFIX,
    MAX_LABEL,
    is_dns_1035,
    is_dns_1123,
    is_dns_subdomain,
    is_label_value,
    is_qualified_name,
)
from bireme.api.paths import Path
from bireme.api.stop_signal import STOP_SIGNAL_ANNOTATION, StopSignalError, parse_stop_signal

_NAME: Path = ("metadata", "name")
_GENERATE_NAME: Path = ("metadata", "generateName")


def check(metadata: Mapping[str, Any], kind: Kind, out: Findings) -> None:
    """Check name, namespace, labels and annotations."""
    _check_name(metadata, kind, out)
    namespace = metadata.get("namespace")
    if namespace is not None and not kind.namespaced:
        message = f"{kind.kind} belongs to the cluster and has no namespace"
        out.error(
            ("metadata", "namespace"), "namespace", message, value=namespace, hint="remove it", at_key=True
        )
    elif namespace is not None and not is_dns_1123(namespace):
        message = f"{describe(namespace)} is not a DNS label"
        out.error(("metadata", "namespace"), "namespace", message, value=namespace)
    check_labels(metadata, ("metadata",), out)
    if kind in JOB_KINDS:
        _check_stop_signal(metadata, kind, out)


def _check_stop_signal(metadata: Mapping[str, Any], kind: Kind, out: Findings) -> None:
    value = (metadata.get("annotations") or {}).get(STOP_SIGNAL_ANNOTATION)
    if value is None:
        return
    path = ("metadata", "annotations", STOP_SIGNAL_ANNOTATION)
    try:
        parse_stop_signal(str(value))
    except StopSignalError as error:
        out.error(path, "stop-signal", str(error), value=value)
        return
    if kind == GENERIC_JOB:
        message = (
            "has no effect on a GenericJob: it has no ranks; its processes get SIGTERM when they are stopped"
        )
        out.warn(path, "stop-signal", message, value=value)


def _check_name(metadata: Mapping[str, Any], kind: Kind, out: Findings) -> None:
    name, prefix = metadata.get("name"), metadata.get("generateName")
    if name is None and prefix is None:
        out.error(_NAME, "required", "required field is missing", hint="give the object a name")
        return
    path, value = (_NAME, str(name)) if name is not None else (_GENERATE_NAME, str(prefix))
    candidate = value if name is not None else f"{value}{'x' * GENERATED_SUFFIX}"
    if kind in JOB_KINDS and not is_dns_1035(candidate):
        hint = "use lower-case letters, digits and `-`; begin with a letter, end with a letter or digit"
        if len(candidate) > MAX_LABEL:
            hint = f"use at most {MAX_LABEL} characters"
        out.error(path, "name", f"{describe(value)} is not a DNS-1035 label", value=value, hint=hint)
    elif not is_dns_subdomain(candidate):
        hint = "use lower-case letters, digits, `-` and `.`; begin and end with a letter or digit"
        out.error(path, "name", f"{describe(value)} is not a DNS name", value=value, hint=hint)


def check_labels(metadata: Mapping[str, Any], path: Path, out: Findings) -> None:
    """Check labels and annotations as Kubernetes does."""
    for field in ("labels", "annotations"):
        for key, value in (metadata.get(field) or {}).items():
            where = (*path, field, key)
            if not is_qualified_name(key):
                hint = "a key is `name` or `prefix.example/name`, with letters, digits, `-`, `_` and `.`"
                out.error(
                    where,
                    "label-key",
                    f"{describe(key)} is not a valid key",
                    value=key,
                    hint=hint,
                    at_key=True,
                )
            elif field == "labels" and not is_label_value(value):
                hint = f"use at most {MAX_LABEL} letters, digits, `-`, `_` and `.`; no sign at either end"
                out.error(
                    where, "label-value", f"{describe(value)} is not a label value", value=value, hint=hint
                )


def check_derived_names(metadata: ObjectMeta, derived: Iterable[str], out: Findings) -> None:
    """Refuse a job's name if a name made from it is too long; `derived` starts with the job's name.

    Host names are DNS labels, and a pod is reached by its name.
    """
    extra = 0 if metadata.name else GENERATED_SUFFIX
    own = metadata.name or metadata.generate_name
    longest = max(derived, key=len, default="")
    length = len(longest) + extra
    if not own or length <= MAX_LABEL:
        return
    room = MAX_LABEL - (length - len(own))
    out.error(
        _NAME if metadata.name else _GENERATE_NAME,
        "name-too-long",
        f"{describe(own)} is too long: `{longest}` would have {length} characters, at most {MAX_LABEL}",
        value=own,
        hint=f"use at most {room} characters" if room > 0 else "shorten the replica type",
    )
