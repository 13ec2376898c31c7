"""Certificates of a mounted Secret: served as they are found, or signed by the authority found there."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from bireme.control.webhooks.certificates import UnusableAuthorityError, make_authority
from bireme.control.webhooks.keeper import CertificateKeeper
from bireme.installation.authority import Authority
from bireme.kube.clock import utc_now
from unit.kube.scripted import FakeClock

PKCS1, PKCS8 = serialization.PrivateFormat.TraditionalOpenSSL, serialization.PrivateFormat.PKCS8
HOST = "bireme-webhooks.bireme-system.svc"
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
MakeKey = Callable[[], Key]


def rsa_key() -> Key:
    return rsa.generate_private_key(65537, 2048)


def ec_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


KEYS: dict[str, tuple[MakeKey, serialization.PrivateFormat]] = {
    # The first is what cert-manager makes where nothing is said of the key.
    "rsa-pkcs1": (rsa_key, PKCS1),
    "rsa-pkcs8": (rsa_key, PKCS8),
    "ecdsa-pkcs1": (ec_key, PKCS1),
    "ecdsa-pkcs8": (ec_key, PKCS8),
    "ecdsa-384": (lambda: ec.generate_private_key(ec.SECP384R1()), PKCS1),
    "ed25519": (ed25519.Ed25519PrivateKey.generate, PKCS8),
}


class Issuer(NamedTuple):
    """As cert-manager's issuers are: an authority whose key is in no Secret of ours."""

    name: x509.Name
    key: Key

    @property
    def certificate(self) -> bytes:
        builder = self._builder(self.name, self.key)
        return self._signed(builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True))

    def secret(self, key: Key, form: serialization.PrivateFormat) -> dict[str, Any]:
        """A Secret with the certificate for a key, as cert-manager writes it."""
        subject = x509.Name([])
        names = x509.SubjectAlternativeName([x509.DNSName(HOST)])
        # Critical, as the subject is empty.
        certificate = self._signed(self._builder(subject, key).add_extension(names, critical=True))
        private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        data = {"ca.crt": self.certificate, "tls.crt": certificate, "tls.key": private}
        metadata = {"name": "bireme-webhooks", "namespace": "bireme-system"}
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        return {"kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": encoded}

    def _builder(self, subject: x509.Name, key: Key) -> x509.CertificateBuilder:
        now = utc_now()
        return (
            x509.CertificateBuilder(self.name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=90))
        )

    def _signed(self, builder: x509.CertificateBuilder) -> bytes:
        algorithm = None if isinstance(self.key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
        return builder.sign(self.key, algorithm).public_bytes(serialization.Encoding.PEM)


def issuer(name: str = "authority", make_key: MakeKey = rsa_key) -> Issuer:
    return Issuer(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), make_key())


class Kept:
    """A keeper of a folder, and a server with its context."""

    def __init__(self, port: int, folder: Path, keeper: CertificateKeeper) -> None:
        self._port, self._folder, self.keeper = port, folder, keeper

    def find(self, secret: dict[str, Any]) -> bool:
        """Let the keeper look, when that is what the folder has."""
        for name in ("ca.crt", "ca.key", "tls.crt", "tls.key"):
            (self._folder / name).write_bytes(base64.b64decode(secret["data"].get(name) or ""))
        return self.keeper.step()

    async def shown(self, trusted: bytes) -> x509.Certificate:
        """What a client is shown that trusts one authority and asks for our name. Raises SSLError."""
        context = ssl.create_default_context(cadata=trusted.decode())
        _, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=context, server_hostname=HOST)
        try:
            found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
        return x509.load_der_x509_certificate(found)


@contextlib.asynccontextmanager
async def kept(folder: Path, *, own: bool = False, **options: Any) -> AsyncIterator[Kept]:
    keeper = CertificateKeeper(folder, (HOST,), FakeClock(), own=own, **options)

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=keeper.context)
    async with server:
        yield Kept(server.sockets[0].getsockname()[1], folder, keeper)


def serial(secret: dict[str, Any]) -> int:
    return x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"])).serial_number


@pytest.mark.parametrize(("make_key", "form"), KEYS.values(), ids=KEYS)
def test_a_key_of_any_kind_is_served_and_so_is_its_successor(
    tmp_path: Path, make_key: MakeKey, form: serialization.PrivateFormat
) -> None:
    async def main() -> None:
        authority = issuer()
        async with kept(tmp_path) as world:
            first, second = (authority.secret(make_key(), form) for _ in range(2))
            assert world.find(first)
            assert world.keeper.seconds_left() > timedelta(days=89).total_seconds()
            assert (await world.shown(authority.certificate)).serial_number == serial(first)
            assert world.find(second)
            assert (await world.shown(authority.certificate)).serial_number == serial(second)

    asyncio.run(main())


def test_another_authority_and_another_kind_of_key_are_served_without_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        old, new = issuer("old"), issuer("new", ec_key)
        async with kept(tmp_path) as world:
            world.find(old.secret(rsa_key(), PKCS1))
            await world.shown(old.certificate)
            world.find(new.secret(ec_key(), PKCS1))
            await world.shown(new.certificate)
            with pytest.raises(ssl.SSLCertVerificationError):
                await world.shown(old.certificate)

    asyncio.run(main())


def test_what_is_not_complete_is_waited_for_and_leaves_what_is_served_alone(tmp_path: Path) -> None:
    """cert-manager writes a Secret at once; somebody else may not."""

    async def main() -> None:
        authority = issuer()
        good, other = (authority.secret(rsa_key(), PKCS1) for _ in range(2))
        mixed = {**good, "data": {**good["data"], "tls.key": other["data"]["tls.key"]}}
        async with kept(tmp_path) as world:
            for secret in ({**good, "data": {}}, mixed):
                assert not world.find(secret)
            assert world.keeper.seconds_left() == 0
            assert world.find(good)
            assert world.find(mixed)
            assert (await world.shown(authority.certificate)).serial_number == serial(good)

    asyncio.run(main())


def secret_of(authority: Authority) -> dict[str, Any]:
    data = {"ca.crt": authority.certificates, "ca.key": authority.key}
    return {"data": {name: base64.b64encode(value).decode() for name, value in data.items()}}


def test_own_leaf_is_signed_renewed_and_follows_its_authority(tmp_path: Path) -> None:
    moment = utc_now() - timedelta(days=61)
    authority, other = make_authority(moment), make_authority(moment)

    async def main() -> None:
        nonlocal moment
        async with kept(tmp_path, own=True, now=lambda: moment) as world:
            assert world.find(secret_of(authority))
            first = await world.shown(authority.certificates)
            assert world.find(secret_of(authority))
            assert (await world.shown(authority.certificates)).serial_number == first.serial_number
            moment = utc_now()
            assert world.find(secret_of(authority))
            assert (await world.shown(authority.certificates)).serial_number != first.serial_number
            assert world.keeper.seconds_left() > timedelta(days=89).total_seconds()
            assert world.find(secret_of(other))
            await world.shown(other.certificates)

    asyncio.run(main())


def test_keeper_goes_on_with_its_leaf_while_the_authority_is_unusable(tmp_path: Path) -> None:
    """A kubelet replaces both files at once, but one may be read before and one after that."""
    authority, other = make_authority(utc_now()), make_authority(utc_now())

    async def main() -> None:
        async with kept(tmp_path, own=True) as world:
            with pytest.raises(OSError, match=r"ca\.crt"):
                world.keeper.step()
            world.find(secret_of(authority))
            with pytest.raises(UnusableAuthorityError):
                world.find(secret_of(authority._replace(key=other.key)))
            assert world.keeper.is_ready
            await world.shown(authority.certificates)

    asyncio.run(main())
