"""A checkup of an installation: facts of a cluster in, findings with what to do about them out. PURE."""

from bireme.installation.checkup.checks import examine
from bireme.installation.checkup.facts import Facts, Finding

__all__ = ["Facts", "Finding", "examine"]
