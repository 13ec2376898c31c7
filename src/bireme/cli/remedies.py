"""What a user can do about a replica that waits: a hint for each reason that a user can change."""

import re
from typing import Final

_MISSING: Final = re.compile(
    r"\b(ConfigMap|Secret) (\S+) is not there\b|\b(configmap|secret) \"([^\"]+)\" not found"
)
_KEY: Final = re.compile(r"\b(ConfigMap|Secret) (\S+) has no key (\S+)")
_NEVER: Final = re.compile(r"This machine has [0-9]+ (\S+): the pod can't start here")
_KINDS: Final = {"configmap": "ConfigMap", "secret": "Secret"}


def find_remedy(reason: str) -> str:
    """Return what helps against a reason for which a replica waits; empty if nothing is known."""
    if match := _MISSING.search(reason):
        kind, name = match[1] or match[3], match[2] or match[4]
        created = f"create {_KINDS[kind.lower()]} {name} (`bireme apply -f FILE`)"
        return f"{created}, or add it to the manifest; the job waits for it"
    if match := _KEY.search(reason):
        return (
            f"add the key {match[3]} to {match[1]} {match[2]} (`bireme apply -f FILE`); the job waits for it"
        )
    if match := _NEVER.search(reason):
        return (
            f"remove {match[1]} from the resources to run without it, or run the job on a cluster (--context)"
        )
    return ""
