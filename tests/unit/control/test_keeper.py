"""Certificates in a Secret: served as they are found, and kept where they are our own."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from bireme.control.webhooks.keeper import CertificateKeeper
from bireme.kube.client import Client
from bireme.kube.clock import utc_now
from bireme.kube.errors import NotFound
from unit.kube.scripted import ScriptedTransport, status

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
    """A keeper of somebody else's Secret, and a server with its context."""

    def __init__(self, port: int, transport: ScriptedTransport, keeper: CertificateKeeper) -> None:
        self._port, self._transport, self.keeper = port, transport, keeper

    async def find(self, secret: dict[str, Any]) -> bool:
        """Let the keeper look, when that is what the cluster has."""
        self._transport.answer(body=secret)
        return await self.keeper.step()

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
async def kept() -> AsyncIterator[Kept]:
    transport = ScriptedTransport()
    keeper = CertificateKeeper(
        Client(transport), "bireme-system", "bireme-webhooks", "bireme-webhooks", (HOST,), own=False
    )

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=keeper.context)
    async with server:
        yield Kept(server.sockets[0].getsockname()[1], transport, keeper)


def serial(secret: dict[str, Any]) -> int:
    return x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"])).serial_number


@pytest.mark.parametrize(("make_key", "form"), KEYS.values(), ids=KEYS)
def test_a_key_of_any_kind_is_served_and_so_is_its_successor(
    make_key: MakeKey, form: serialization.PrivateFormat
) -> None:
    async def main() -> None:
        authority = issuer()
        async with kept() as world:
            first, second = (authority.secret(make_key(), form) for _ in range(2))
            assert await world.find(first)
            assert world.keeper.seconds_left() > timedelta(days=89).total_seconds()
            assert (await world.shown(authority.certificate)).serial_number == serial(first)
            assert await world.find(second)
            assert (await world.shown(authority.certificate)).serial_number == serial(second)

    asyncio.run(main())


def test_another_authority_and_another_kind_of_key_are_served_without_a_restart() -> None:
    async def main() -> None:
        old, new = issuer("old"), issuer("new", ec_key)
        async with kept() as world:
            await world.find(old.secret(rsa_key(), PKCS1))
            await world.shown(old.certificate)
            await world.find(new.secret(ec_key(), PKCS1))
            await world.shown(new.certificate)
            with pytest.raises(ssl.SSLCertVerificationError):
                await world.shown(old.certificate)

    asyncio.run(main())


def test_what_is_not_complete_is_waited_for_and_leaves_what_is_served_alone() -> None:
    """cert-manager writes a Secret at once; somebody else may not."""

    async def main() -> None:
        authority = issuer()
        good, other = (authority.secret(rsa_key(), PKCS1) for _ in range(2))
        mixed = {**good, "data": {**good["data"], "tls.key": other["data"]["tls.key"]}}
        async with kept() as world:
            for secret in ({**good, "data": {}}, mixed):
                assert not await world.find(secret)
            assert world.keeper.seconds_left() == 0
            assert await world.find(good)
            assert await world.find(mixed)
            assert (await world.shown(authority.certificate)).serial_number == serial(good)

    asyncio.run(main())


@pytest.mark.parametrize("is_registered", [True, False], ids=["registered", "being removed"])
def test_a_deleted_secret_is_created_again_with_what_is_served(is_registered: bool) -> None:
    async def main() -> None:
        transport = ScriptedTransport()
        keeper = CertificateKeeper(
            Client(transport),
            "bireme-system",
            "bireme-webhooks",
            "bireme-webhooks",
            (HOST,),
            renew=lambda current, *_arguments, **_options: current,
        )
        secret, gone = issuer().secret(ec_key(), PKCS8), (404, status(404, "NotFound"))
        for answer in ((200, secret), gone, gone):
            transport.answer(*answer)
        assert await keeper.step()
        configuration = (200, {"metadata": {"resourceVersion": "1"}, "webhooks": []})
        for answer in (gone, *[configuration if is_registered else gone] * 2):
            transport.answer(*answer)
        if not is_registered:
            with pytest.raises(NotFound):
                await keeper.step()
            return
        transport.answer(201, secret)
        assert not await keeper.step()
        created = transport.sent[-1]
        assert (created.method, created.path) == ("POST", "/api/v1/namespaces/bireme-system/secrets")
        assert created.body["metadata"]["name"] == "bireme-webhooks"
        assert created.body["metadata"]["labels"]["app.kubernetes.io/name"] == "bireme"
        served = {name: created.body["data"][name] for name in secret["data"]}
        assert served == secret["data"]

    asyncio.run(main())
