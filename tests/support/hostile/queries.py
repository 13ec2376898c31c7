"""Parameters: each with what is good for it, and with what is not."""

import base64
import json
from random import Random
from urllib.parse import quote

from support.hostile import odd

_FLAGS = ("true", "false", "1", "0", "yes", "TRUE", "", "2")
_VERSIONS = (
    "",
    "0",
    "1",
    "5",
    "100",
    "999999999999",
    "18446744073709551616",
    "-1",
    "1.0",
    "abc",
    "9" * 5000,
    "1e3",
    "٣",
)
_SELECTORS = (
    "a=b", "a==b", "a!=b", "a in (b,c)", "a notin (b)", "a", "!a", "a,b", "a in ()", "a in (",
    "in in (in)", "a>1", "a<x", "=", ",", ",,", "a=b=c", "()", "!!a", "a in (b),", "metadata.name=o0",
    "metadata.name!=o0", "spec.x=y", "metadata.namespace=hostile", "status.phase=Running",
    "metadata.name=", "=b", "a\\,b=c", "a\\", "x" * 3000, ",".join(f"k{n}=v" for n in range(500)),
    "a in (" + "b," * 1000 + "b)", "a/b/c=d", "ü=ü", "a=\0", "a \t= b",
)  # fmt: skip
_PARAMS: dict[str, tuple[str, ...]] = {
    "labelSelector": _SELECTORS,
    "fieldSelector": _SELECTORS,
    "limit": ("0", "1", "2", "500", "-1", "9223372036854775808", "x", "", "1.5", "9" * 5000, " 1", "1_0"),
    "resourceVersion": _VERSIONS,
    "resourceVersionMatch": ("", "Exact", "NotOlderThan", "exact", "x"),
    "timeoutSeconds": ("1", "1", "0", "-1", "x", "", "1.5", "9223372036854775807", "9" * 5000, "1e9"),
    "timeout": ("1s", "-1s", "x", "99999h"),
    "dryRun": ("All", "", "all", "All,All", "x"),
    "fieldManager": ("", "me", "x" * 128, "x" * 129, "ü" * 70, "a\nb", "\0", "kubectl"),
    "fieldValidation": ("", "Strict", "Warn", "Ignore", "strict", "x"),
    "force": _FLAGS,
    "pretty": _FLAGS,
    "watch": _FLAGS,
    "follow": _FLAGS,
    "sendInitialEvents": _FLAGS,
    "allowWatchBookmarks": _FLAGS,
    "includeObject": ("None", "Metadata", "Object", "x", ""),
    "gracePeriodSeconds": ("0", "1", "-1", "30", "x", "", "9223372036854775808", "9" * 5000, "1e3"),
    "propagationPolicy": ("Foreground", "Background", "Orphan", "x", ""),
    "orphanDependents": _FLAGS,
    "ignoreStoreReadErrorWithClusterBreakingPotential": _FLAGS,
    "container": ("", "c0", "x"),
    "command": ("ls", "", "\0"),
    "stdin": _FLAGS,
    "stdout": _FLAGS,
    "stderr": _FLAGS,
    "tty": _FLAGS,
    "tailLines": ("0", "1", "-1", "x", "9" * 5000),
    "sinceSeconds": ("0", "1", "-1", "x", "9223372036854775808"),
    "sinceTime": ("", "2026-01-02T03:04:05Z", "x"),
    "limitBytes": ("0", "1", "-1", "x"),
}


def query(random: Random) -> str:
    """With its question mark."""
    names = random.choices(["continue", *_PARAMS], k=random.choice([1, 1, 2, 3, 6]))
    pairs = [f"{each}={quote(_value(random, each), safe='')}" for each in names]
    if random.random() < 0.1:
        pairs.append(
            random.choice(
                ["", "=", "&&", "a", "%", "%zz=1", "%ff=%ff", "a=b;c=d", "watch", "x=" + "y" * 20_000]
            )
        )
    return "?" + "&".join(pairs)


def _value(random: Random, name: str) -> str:
    if random.random() < 0.15:
        return odd.text(random)
    return token(random) if name == "continue" else random.choice(_PARAMS[name])


def token(random: Random) -> str:
    """A continue token: nearly good, or of another server."""
    said = {
        "v": random.choice(["meta.k8s.io/v1", "v1", "", 1, None]),
        "rv": random.choice([-1, 0, 1, 5, 10**6, 2**63, 2**64, 10**30, "5", 1.5, None]),
        "start": random.choice(["o1\0", "/o1\0", "", "../../x", "/", "\0", "ü", "x" * 3000, 5, None]),
    }
    raw = base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")
    broken = (
        raw,
        raw,
        raw[:-3],
        raw + "=",
        raw + "!",
        raw[::-1],
        "====",
        "e30",
        "bnVsbA",
        "W10",
        raw + raw,
        "ü",
        "A",
    )
    return random.choice(broken)
