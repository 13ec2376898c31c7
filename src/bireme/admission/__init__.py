"""Admission: default, then validate. The CLI, the webhook and the controller all ask here."""

from bireme.admission.defaults import default
from bireme.admission.problems import Problem
from bireme.admission.validation import is_valid, validate

__all__ = ["Problem", "default", "is_valid", "validate"]
