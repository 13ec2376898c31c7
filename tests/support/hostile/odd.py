"""Texts and values that break careless code."""

from random import Random
from typing import Any

TEXTS = (
    "", " ", "\t", "\0", "a\0b", "null", "true", "0", "-1", "1.5", "1e400", "NaN", "Infinity", "0x10",
    "1_000", "+1", " 1", "٣", "9" * 30, "9" * 5000, "-" + "9" * 20, "18446744073709551616",
    "9223372036854775808", "a" * 64, "a" * 254, "a" * 5000, "-a", "a-", "A", "a_b", "a..b", ".", "..",
    "a/b", "/", "//", "%", "%2e", "ü", "漢字", "\u202e", "\ufeff", "\U0001f9ff", "\ud7ff", "\x7f",
    "\x1b[2J", "\r\nX-Injected: 1", "' OR 1=1 --", "${jndi:ldap://x}", "{{7*7}}", "__proto__",
    "constructor", "$patch", "$ref", "#/definitions/x", "a=b,c!=d", "(a+)+$", "(", "[", "\\", "*",
    "2026-01-02T03:04:05Z", "9999-12-31T23:59:59Z", "0000-00-00T00:00:00Z", "10000-01-01T00:00:00Z",
    "2026-01-02T03:04:05.123456789123Z", "2026-01-02T03:04:05+99:99", "1h", "100m", "1E999999999",
    "1e-999999999", "9" * 400 + "Ei", "0.0000000000000000000000001", "1Ki1", "--1", "1e", "e1",
    "127.0.0.1", "256.256.256.256", "::1", "::/200", "10.0.0.0/99", "http://[", "=", "YQ", "////",
)  # fmt: skip

NUMBERS = (
    0, 1, -1, 65535, 65536, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63),
    -(2**63) - 1, 2**64 - 1, 2**64, 10**30, 10**400, -(10**25), 0.5, -0.0, 1e-320, 1e308,
    1.7976931348623157e308, 3.0, 1e15,
)  # fmt: skip


def text(random: Random) -> str:
    return random.choice(TEXTS)


def value(random: Random) -> Any:
    """Any JSON value that is likely to be wrong where it stands."""
    match random.randrange(9):
        case 0:
            return None
        case 1:
            return random.choice(NUMBERS)
        case 2 | 3:
            return text(random)
        case 4:
            return random.choice([True, False])
        case 5:
            return random.choice([[], {}, [[]], [{}], {"": {}}, [None], {"a": None}, [[], {}, "", 0, None]])
        case 6:
            return [value(random) for _ in range(random.randrange(4))]
        case 7:
            return {text(random): value(random) for _ in range(random.randrange(4))}
    return nested(random.choice([3, 40, 120, 250]), random.choice(["list", "object"]))


def nested(depth: int, sort: str) -> Any:
    made: Any = 0
    for _ in range(depth):
        made = [made] if sort == "list" else {"a": made}
    return made


def raw_bytes(random: Random, most: int = 200) -> bytes:
    return random.randbytes(random.randrange(most))
