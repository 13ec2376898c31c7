"""The webhooks' certificates: an authority that is made at install time, and leaves that it signs. No I/O,
no clock.

The API server trusts the authority by the `caBundle` of the webhook configurations, which only the
administrator writes: `bireme manifests` or Helm makes the authority and puts it into both configurations
and into a Secret. A webhook process reads that Secret, and signs a certificate of its own, in memory. So
no account of a running process may write a webhook configuration or a Secret.

`bireme manifests --context` renews an authority when two thirds of its time are over. The new one is
trusted beside the old one, because processes go on with certificates of the old one until they see the
new Secret.
"""

import ipaddress
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes, PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bireme.installation.authority import Authority

AUTHORITY_VALID: Final = timedelta(days=3650)
CERTIFICATE_VALID: Final = timedelta(days=90)
RENEWED_AT: Final = 2 / 3
"""The part of its life after which a certificate is replaced."""
CLOCK_SKEW: Final = timedelta(hours=1)
_PEM: Final = serialization.Encoding.PEM
_BLOCK: Final = re.compile(rb"(-----BEGIN ([A-Z0-9 ]+)-----[^-]+-----END \2-----)")
_SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


class UnusableAuthorityError(Exception):
    """No certificate can be signed; the message says why."""


class Leaf(NamedTuple):
    """A certificate that is served, perhaps with the authorities between, and its key. Both PEM."""

    certificate: bytes = b""
    key: bytes = b""


def make_authority(now: datetime, valid: timedelta = AUTHORITY_VALID) -> Authority:
    """Return a new self-signed authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    # A distinguishing name, so that of two authorities in a bundle a client tries the right one.
    name = _name(f"bireme webhooks {now:%Y-%m-%d %H:%M:%S} {x509.random_serial_number():x}"[:64])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = _builder(name, name, key.public_key(), identifier, now, valid)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    signed = builder.add_extension(_usage(signs=True), critical=True).sign(key, hashes.SHA256())
    return Authority(signed.public_bytes(_PEM), _private(key))


def read_authority(pem: bytes) -> Authority | None:
    """Read certificates and a key that stand in one text; None if they do not belong together."""
    blocks = _BLOCK.findall(pem)
    found = Authority(
        b"".join(block + b"\n" for block, kind in blocks if kind == b"CERTIFICATE"),
        b"".join(block + b"\n" for block, kind in blocks if kind.endswith(b"PRIVATE KEY")),
    )
    return found if _signing_key(read_certificates(found.certificates), found.key) is not None else None


def renew_authority(current: Authority, now: datetime, valid: timedelta = AUTHORITY_VALID) -> Authority:
    """Return `current` while it is good; near its end a new authority, with `current` trusted beside it.

    An authority that has ended, or whose key is missing or another's, is replaced alone.
    """
    certificates = read_certificates(current.certificates)
    if _signing_key(certificates, current.key) is None or _ended(certificates[0], now):
        return make_authority(now, valid)
    if not _is_due(certificates[0], now):
        return current
    new = make_authority(now, valid)
    living = [each for each in certificates if not _ended(each, now)]
    bundle = b"".join(each.public_bytes(_PEM) for each in living)
    return Authority(new.certificates + bundle, new.key)


def renew_leaf(
    current: Leaf,
    authority: Authority,
    hosts: Sequence[str],
    now: datetime,
    valid: timedelta = CERTIFICATE_VALID,
) -> Leaf:
    """Return `current` while it is good, else a new certificate of the newest authority.

    Raises UnusableAuthorityError.
    """
    certificates = read_certificates(authority.certificates)
    signer = _signing_key(certificates, authority.key)
    if not certificates or signer is None:
        raise UnusableAuthorityError("ca.crt holds no certificate, or ca.key is not its key")
    issuer = certificates[0]
    if _ended(issuer, now):
        raise UnusableAuthorityError(f"the authority has ended at {issuer.not_valid_after_utc:%Y-%m-%d}")
    leaf = read_leaf(current)
    if leaf is not None and not _needs_renewal(leaf, issuer, hosts, now):
        return current
    return _issue(issuer, signer, hosts, now, valid)


def _needs_renewal(
    leaf: x509.Certificate, issuer: x509.Certificate, hosts: Sequence[str], now: datetime
) -> bool:
    return _is_due(leaf, now) or not _is_signed_by(leaf, issuer) or not set(hosts) <= set(host_names(leaf))


def expiry(leaf: Leaf) -> datetime | None:
    """When what is served ends, None if nothing can be."""
    found = read_leaf(leaf)
    return found.not_valid_after_utc if found is not None else None


def host_names(certificate: x509.Certificate) -> list[str]:
    """The names and addresses that a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return names.get_values_for_type(x509.DNSName) + addresses


def read_certificates(pem: bytes) -> list[x509.Certificate]:
    """All certificates of a text, as they stand there."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def read_certificate(pem: bytes) -> x509.Certificate | None:
    """The first certificate of a text, None if there is none."""
    found = read_certificates(pem)
    return found[0] if found else None


def is_trusted(certificate: x509.Certificate, bundle: bytes) -> bool:
    """Whether one of a bundle's authorities signed the certificate."""
    return _is_signed_by_any(certificate, read_certificates(bundle))


# ---- making


def _issue(
    issuer: x509.Certificate, signer: _SigningKey, hosts: Sequence[str], now: datetime, valid: timedelta
) -> Leaf:
    key = ec.generate_private_key(ec.SECP256R1())
    # Never longer than the authority: a client would refuse the chain all the same.
    valid = min(valid, issuer.not_valid_after_utc - now)
    builder = _builder(
        _name(hosts[0][:64]), issuer.subject, key.public_key(), _key_identifier(issuer), now, valid
    )
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .sign(signer, None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    )
    return Leaf(certificate.public_bytes(_PEM), _private(key))


def _key_identifier(issuer: x509.Certificate) -> x509.SubjectKeyIdentifier:
    """The identifier that the authority gives itself: Helm's is not made the way ours is."""
    try:
        return issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.SubjectKeyIdentifier.from_public_key(issuer.public_key())


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer_key: x509.SubjectKeyIdentifier,
    now: datetime,
    valid: timedelta,
) -> x509.CertificateBuilder:
    identifier = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key)
    return (
        x509.CertificateBuilder(issuer_name=issuer, subject_name=subject, public_key=key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + valid)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(identifier, critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(True, False, False, False, False, signs, signs, False, False)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


# ---- reading


def _signing_key(certificates: Sequence[x509.Certificate], pem: bytes) -> _SigningKey | None:
    """The key of the newest authority; None if it is another's, or of a kind that can't sign."""
    key = _read_key(pem)
    if not isinstance(key, _SigningKey) or not certificates:
        return None
    return key if key.public_key() == _public_key(certificates[0]) else None


def read_leaf(leaf: Leaf) -> x509.Certificate | None:
    """The certificate, None if it and its key do not belong together. Others' keys may be of any kind."""
    found, key = read_certificates(leaf.certificate), _read_key(leaf.key)
    if not found or key is None or key.public_key() != _public_key(found[0]):
        return None
    return found[0]


def _read_key(pem: bytes) -> PrivateKeyTypes | None:
    try:
        return serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _public_key(certificate: x509.Certificate) -> CertificatePublicKeyTypes | None:
    try:
        return certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return None


def _is_due(certificate: x509.Certificate, now: datetime) -> bool:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= start + (end - start) * RENEWED_AT


def _ended(certificate: x509.Certificate, now: datetime) -> bool:
    return now >= certificate.not_valid_after_utc


def _is_signed_by_any(certificate: x509.Certificate, authorities: Sequence[x509.Certificate]) -> bool:
    return any(_is_signed_by(certificate, authority) for authority in authorities)


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
