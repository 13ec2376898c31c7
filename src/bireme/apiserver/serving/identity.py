"""The server's own certificate, for loopback, signed by an authority whose key nobody keeps."""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

VALID: Final = timedelta(days=365)
RENEWED_AFTER: Final = timedelta(days=300)
_CLOCK_SKEW: Final = timedelta(hours=1)


class Identity(NamedTuple):
    """All PEM; clients are given `authority`, the server keeps the rest."""

    authority: bytes
    certificate: bytes
    key: bytes


def make_identity(hosts: Sequence[str], now: datetime) -> Identity:
    """A new authority, and a certificate of its own for these names and addresses."""
    # Here, as it costs a tenth of a second and is needed once a year.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def builder(subject: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority_name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + VALID)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(issuer, critical=False)
        )

    def usage(*, signs: bool) -> x509.KeyUsage:
        return x509.KeyUsage(True, False, False, False, False, signs, signs, False, False)

    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = name("bireme embedded authority")
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    names = [
        x509.IPAddress(ipaddress.ip_address(host)) if _is_address(host) else x509.DNSName(host)
        for host in hosts
    ]
    authority = (
        builder(authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        builder(name("bireme embedded API server"), key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Identity(authority.public_bytes(pem), certificate.public_bytes(pem), private)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
