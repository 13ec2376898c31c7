"""ssh keys for a job: the randomness that planning is given."""

from bireme.planning.observed import Keys


def generate_keys() -> Keys:
    """A fresh client key and a fresh host key, ed25519, in OpenSSH's format."""
    client_private, client_public = _pair()
    host_private, host_public = _pair()
    return Keys(client_private, client_public, host_private, host_public)


def _pair() -> tuple[str, str]:
    # cryptography takes tens of milliseconds to import, and most commands make no keys.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return private.decode(), public.decode()
