"""The webhooks' authority and the certificates that it signs: when each is renewed, and what is trusted."""

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from bireme.control.webhooks.certificates import (
    AUTHORITY_VALID,
    CERTIFICATE_VALID,
    Leaf,
    UnusableAuthorityError,
    expiry,
    host_names,
    is_trusted,
    make_authority,
    read_authority,
    read_leaf,
    renew_authority,
    renew_leaf,
)
from bireme.installation.authority import Authority
from support.certificates import rsa_authority

START = datetime(2030, 1, 1, tzinfo=UTC)
HOSTS = ("hooks.place.svc", "127.0.0.1")


def at(days: float) -> datetime:
    return START + timedelta(days=days)


def count(bundle: bytes) -> int:
    return len(x509.load_pem_x509_certificates(bundle))


def certificate(leaf: Leaf) -> x509.Certificate:
    found = read_leaf(leaf)
    assert found is not None
    return found


def test_authority_signs_leaf_for_all_hosts() -> None:
    authority = make_authority(START)
    leaf = renew_leaf(Leaf(), authority, HOSTS, START)
    assert is_trusted(certificate(leaf), authority.certificates)
    assert sorted(host_names(certificate(leaf))) == sorted(HOSTS)
    assert expiry(leaf) == START + CERTIFICATE_VALID


@pytest.mark.parametrize("kind", ["ours", "rsa"])
def test_openssl_accepts_leaf_strictly(kind: str) -> None:
    """Of an authority with an RSA key, too: Helm makes them in some versions."""
    now = datetime.now(UTC)
    authority = make_authority(now)
    if kind == "rsa":
        made, _ = rsa_authority("helm", HOSTS)
        authority = Authority(made.certificate, made.key)
    leaf = renew_leaf(Leaf(), authority, HOSTS, now)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    client.load_verify_locations(cadata=authority.certificates.decode())
    if kind == "ours":
        client.verify_flags |= ssl.VERIFY_X509_STRICT
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "crt").write_bytes(leaf.certificate)
        (Path(folder) / "key").write_bytes(leaf.key)
        server.load_cert_chain(Path(folder) / "crt", Path(folder) / "key")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(incoming, outgoing, server_hostname=HOSTS[0])
    other = server.wrap_bio(outgoing, incoming, server_side=True)
    for end in (one, other, one, other):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert one.version() == "TLSv1.3"


@pytest.mark.parametrize("days", [0, 1, 30, 59])
def test_leaf_stays_until_due(days: float) -> None:
    authority = make_authority(START)
    leaf = renew_leaf(Leaf(), authority, HOSTS, START)
    assert renew_leaf(leaf, authority, HOSTS, at(days)) is leaf


def test_leaf_is_renewed_a_month_before_its_end() -> None:
    authority = make_authority(START)
    leaf = renew_leaf(Leaf(), authority, HOSTS, START)
    later = renew_leaf(leaf, authority, HOSTS, at(61))
    assert later.certificate != leaf.certificate
    assert expiry(later) == at(61) + CERTIFICATE_VALID


def test_leaf_is_renewed_for_another_host_and_another_authority() -> None:
    authority, other = make_authority(START), make_authority(START)
    leaf = renew_leaf(Leaf(), authority, HOSTS, START)
    more = renew_leaf(leaf, authority, (*HOSTS, "more.svc"), at(1))
    assert "more.svc" in host_names(certificate(more))
    assert is_trusted(certificate(renew_leaf(leaf, other, HOSTS, at(1))), other.certificates)


def test_leaf_never_outlives_its_authority() -> None:
    authority = make_authority(START, timedelta(days=10))
    end = expiry(renew_leaf(Leaf(), authority, HOSTS, at(5)))
    assert end is not None
    assert end <= at(10)


BROKEN = {
    "no certificate": Authority(b"", make_authority(START).key),
    "no key": make_authority(START)._replace(key=b""),
    "another's key": make_authority(START)._replace(key=make_authority(START).key),
    "junk": Authority(b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n", b"junk"),
    "ended": make_authority(at(-400), timedelta(days=1)),
}


@pytest.mark.parametrize("authority", BROKEN.values(), ids=BROKEN)
def test_unusable_authority_signs_nothing_and_is_replaced(authority: Authority) -> None:
    with pytest.raises(UnusableAuthorityError):
        renew_leaf(Leaf(), authority, HOSTS, START)
    new = renew_authority(authority, START)
    assert count(new.certificates) == 1
    assert renew_leaf(Leaf(), new, HOSTS, START)


def test_authority_is_kept_until_two_thirds_of_its_life() -> None:
    authority = make_authority(START)
    assert renew_authority(authority, at(AUTHORITY_VALID.days / 2)) is authority


def test_renewed_authority_is_trusted_beside_the_old_one() -> None:
    """A process that has not seen the new Secret yet goes on with a certificate of the old authority."""
    due = at(AUTHORITY_VALID.days * 2 / 3 + 1)
    old = make_authority(START)
    served = renew_leaf(Leaf(), old, HOSTS, due)
    new = renew_authority(old, due)
    assert count(new.certificates) == 2
    assert is_trusted(certificate(served), new.certificates)
    later = renew_leaf(served, new, HOSTS, due)
    assert certificate(later).issuer != certificate(served).issuer
    assert is_trusted(certificate(later), new.certificates)
    assert renew_authority(new, due) is new


def test_authority_is_read_from_one_pem_file() -> None:
    authority = make_authority(START)
    assert read_authority(authority.key + authority.certificates) == authority
    assert read_authority(authority.certificates) is None
    assert read_authority(make_authority(START).key + authority.certificates) is None
