"""The certificate authority of the webhooks, as an installation carries it."""

from typing import NamedTuple


class Authority(NamedTuple):
    """What signs the webhooks' certificates, PEM.

    `certificates` is what the API server trusts, the newest first; `key` belongs to the newest.
    """

    certificates: bytes = b""
    key: bytes = b""
