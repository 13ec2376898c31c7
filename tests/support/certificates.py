"""Certificates that live as long as a test run."""

import datetime as dt
import ipaddress
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = dt.timedelta(days=30)
CLOCK_SKEW = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Identity:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.certificate)
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        return certificate, key


class Authority:
    """A certificate authority of our own, self-signed."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(name, ())
        # digital_signature, key_cert_sign and crl_sign: strict verifiers want them in an authority.
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(usage, critical=True)
        self.identity = self._sign(builder, self._key)

    def issue(self, user: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> Identity:
        """Issue a client certificate for `user` in `groups`; with `hosts` it is a server's too."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_subject(user, groups), key.public_key())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if hosts:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            builder = builder.add_extension(_alternative_names(hosts), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        return self._sign(builder, key)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = dt.datetime.fromtimestamp(time.time(), dt.UTC)
        issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder(issuer_name=self._name, subject_name=subject, public_key=key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCK_SKEW)
            .not_valid_after(now + VALID)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(issuer_id, critical=False)
        )

    def _sign(self, builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> Identity:
        certificate = builder.sign(self._key, hashes.SHA256())
        return Identity(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _subject(user: str, groups: Sequence[str]) -> x509.Name:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _alternative_names(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return x509.SubjectAlternativeName(names)


def rsa_authority(name: str, hosts: Sequence[str]) -> tuple[Identity, Identity]:
    """An authority and a server of it, with RSA keys and valid for a year: what some programs insist on."""
    key, server_key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    subject = _subject(name, ())
    usage = x509.KeyUsage(True, False, True, False, False, True, False, False, False)
    authority = _rsa_builder(subject, subject, key)
    authority = authority.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    authority = authority.add_extension(usage, critical=True)
    authority = authority.add_extension(_alternative_names([name]), critical=False)
    server = _rsa_builder(subject, _subject(hosts[0], ()), server_key)
    server = server.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    server = server.add_extension(_alternative_names(hosts), critical=False)
    return _rsa_identity(authority, key, key), _rsa_identity(server, server_key, key)


def _rsa_builder(issuer: x509.Name, subject: x509.Name, key: rsa.RSAPrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.fromtimestamp(time.time(), dt.UTC)
    return (
        x509.CertificateBuilder(issuer_name=issuer, subject_name=subject, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + dt.timedelta(days=365))
    )


def _rsa_identity(
    builder: x509.CertificateBuilder, key: rsa.RSAPrivateKey, signer: rsa.RSAPrivateKey
) -> Identity:
    certificate = builder.sign(signer, hashes.SHA256())
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return Identity(certificate.public_bytes(serialization.Encoding.PEM), text)
