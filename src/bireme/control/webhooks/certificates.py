"""The webhooks' certificates: when they are made anew, and in which order. No I/O, and no clock.

The API server must trust an authority before anybody serves with a certificate of it. So an authority is
renewed in two steps: the new one is published beside the old one, and signs only once that is everywhere.
"""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes, PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_VALID: Final = timedelta(days=730)
CERTIFICATE_VALID: Final = timedelta(days=90)
RENEWED_AT: Final = 2 / 3
"""The part of its life after which a certificate is replaced."""
CLOCK_SKEW: Final = timedelta(hours=1)
_PEM: Final = serialization.Encoding.PEM


class Certificates(NamedTuple):
    """All PEM, as they are kept in the Secret. `authorities` is what to trust: the newest first.

    `authority_key` belongs to the newest authority, which need not be the one that signed the certificate.
    """

    authorities: bytes = b""
    authority_key: bytes = b""
    certificate: bytes = b""
    key: bytes = b""


def renewed(
    current: Certificates,
    hosts: Sequence[str],
    now: datetime,
    *,
    published: bool,
    valid: timedelta = CERTIFICATE_VALID,
    authority_valid: timedelta = AUTHORITY_VALID,
) -> Certificates:
    """What should be kept and served now; the same object if all is well.

    `published` says that the API server trusts all of `current.authorities`. What can't be read is made anew.
    """
    authorities = read_certificates(current.authorities)
    signer = _signer(authorities, current.authority_key)
    if signer is None or _ended(authorities[0], now):
        return _start_anew(hosts, now, valid, authority_valid)
    if _is_due(authorities[0], now):
        # With the old key gone, the old certificate goes on until the new authority is published.
        return _with_new_authority(current, authorities, now, authority_valid)
    leaf = _leaf(current)
    if leaf is not None and not _needs_renewal(leaf, authorities, hosts, now):
        return _without_the_ended(current, authorities, now)
    if leaf is not None and not published and _still_serves(leaf, authorities, now):
        return current
    certificate, key = issue(authorities[0], signer, hosts, now, valid)
    return current._replace(certificate=certificate, key=key)


def _still_serves(leaf: x509.Certificate, authorities: Sequence[x509.Certificate], now: datetime) -> bool:
    """Whether an older authority's certificate is good enough until the newest one is trusted."""
    older = authorities[1:]
    return not _ended(leaf, now) and _is_signed_by_any(leaf, older)


def _needs_renewal(
    leaf: x509.Certificate, authorities: Sequence[x509.Certificate], hosts: Sequence[str], now: datetime
) -> bool:
    return (
        _is_due(leaf, now)
        or not _is_signed_by(leaf, authorities[0])
        or not set(hosts) <= set(host_names(leaf))
    )


def expiry(current: Certificates) -> datetime | None:
    """When what is served ends, None if nothing can be."""
    leaf = _leaf(current)
    return leaf.not_valid_after_utc if leaf is not None else None


def is_complete(current: Certificates) -> bool:
    """Whether there is a certificate with its key."""
    return _leaf(current) is not None


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


def _start_anew(
    hosts: Sequence[str], now: datetime, valid: timedelta, authority_valid: timedelta
) -> Certificates:
    authority, authority_key = make_authority(now, authority_valid)
    certificate, key = issue(authority, authority_key, hosts, now, valid)
    return Certificates(authority.public_bytes(_PEM), _private(authority_key), certificate, key)


def _with_new_authority(
    current: Certificates, authorities: Sequence[x509.Certificate], now: datetime, valid: timedelta
) -> Certificates:
    authority, key = make_authority(now, valid)
    trusted = [authority, *(old for old in authorities if not _ended(old, now))]
    return current._replace(authorities=_bundle(trusted), authority_key=_private(key))


def _without_the_ended(
    current: Certificates, authorities: Sequence[x509.Certificate], now: datetime
) -> Certificates:
    living = [authority for authority in authorities if not _ended(authority, now)]
    return current if len(living) == len(authorities) else current._replace(authorities=_bundle(living))


def make_authority(now: datetime, valid: timedelta) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A self-signed authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    # Each has a name of its own, so that of two in a bundle the right one is tried.
    name = _name(f"bireme webhooks {now:%Y-%m-%d %H:%M:%S} {x509.random_serial_number():x}"[:64])
    builder = _builder(name, name, key.public_key(), key.public_key(), now, valid)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.add_extension(_usage(signs=True), critical=True).sign(key, hashes.SHA256()), key


def issue(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
    now: datetime,
    valid: timedelta,
) -> tuple[bytes, bytes]:
    """A certificate for these names, and its key, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.subject
    builder = _builder(_name(hosts[0][:64]), issuer, key.public_key(), authority_key.public_key(), now, valid)
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return certificate.public_bytes(_PEM), _private(key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePublicKey,
    now: datetime,
    valid: timedelta,
) -> x509.CertificateBuilder:
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key)
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


def _bundle(certificates: Sequence[x509.Certificate]) -> bytes:
    return b"".join(certificate.public_bytes(_PEM) for certificate in certificates)


# ---- reading


def _signer(authorities: Sequence[x509.Certificate], pem: bytes) -> ec.EllipticCurvePrivateKey | None:
    """The key of the newest authority, None if they do not belong together, or it is none that we made."""
    key = _read_key(pem)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not authorities:
        return None
    return key if key.public_key() == _public_key(authorities[0]) else None


def _leaf(current: Certificates) -> x509.Certificate | None:
    """What is served, None if certificate and key do not belong together. Others' keys may be of any kind."""
    found, key = read_certificates(current.certificate), _read_key(current.key)
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
