"""How a write is asked for, beside what is to be written."""

from typing import Final, Literal

import msgspec

from bireme.apiserver import errors
from bireme.apiserver.errors import FieldError, forbidden_value, invalid_value, not_supported, required

FieldValidation = Literal["Ignore", "Warn", "Strict"]
FIELD_VALIDATIONS: Final = ("Ignore", "Strict", "Warn")
_LONGEST_MANAGER: Final = 128


class Terms(msgspec.Struct, kw_only=True):
    """The terms of one write; what the writer is to be told of it is collected in `warnings`."""

    manager: str = ""
    """Who owns the fields that are written; a server takes the client's name where it is not said."""
    force: bool = False
    """Whether an apply takes fields from other owners."""
    field_validation: str = "Ignore"
    dry_run: bool = False
    warnings: list[str] = []


def check_terms(options: str, *, manager: str, field_validation: str, force: str, is_apply: bool) -> None:
    """Refuse terms that can't be meant; `options` is the kind of options that they belong to."""
    problems: list[FieldError] = []
    if force and not is_apply:
        problems.append(forbidden_value("force", "may not be specified for non-apply patch"))
    if is_apply and not manager:
        problems.append(required("fieldManager", "is required for apply patch"))
    if len(manager.encode()) > _LONGEST_MANAGER:
        problems.append(errors.too_long("fieldManager", _LONGEST_MANAGER))
    if not manager.isprintable():
        problems.append(invalid_value("fieldManager", manager, "should only contain printable characters"))
    if field_validation and field_validation not in FIELD_VALIDATIONS:
        problems.append(not_supported("fieldValidation", field_validation, ("", *FIELD_VALIDATIONS)))
    if problems:
        raise errors.invalid_options(options, *problems)
