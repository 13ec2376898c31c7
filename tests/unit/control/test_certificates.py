"""Certificates of webhooks: when they are made anew, and that nobody is ever served what is not trusted."""

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from bireme.control.webhooks.certificates import (
    AUTHORITY_VALID,
    CERTIFICATE_VALID,
    Certificates,
    expiry,
    host_names,
    is_complete,
    is_trusted,
    read_certificate,
    renewed,
)
from support.certificates import rsa_authority

START = datetime(2030, 1, 1, tzinfo=UTC)
HOSTS = ("hooks.place.svc", "127.0.0.1")


def at(days: float) -> datetime:
    return START + timedelta(days=days)


def first() -> Certificates:
    return renewed(Certificates(), HOSTS, START, published=False)


def count(bundle: bytes) -> int:
    return len(x509.load_pem_x509_certificates(bundle))


def test_from_nothing_all_is_made() -> None:
    made = first()
    leaf = read_certificate(made.certificate)
    assert leaf is not None
    assert is_trusted(leaf, made.authorities)
    assert sorted(host_names(leaf)) == sorted(HOSTS)
    assert expiry(made) == START + CERTIFICATE_VALID


def test_openssl_accepts_them() -> None:
    """As strictly as it can."""
    made = renewed(Certificates(), HOSTS, datetime.now(UTC), published=False)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    client.load_verify_locations(cadata=made.authorities.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "crt").write_bytes(made.certificate)
        (Path(folder) / "key").write_bytes(made.key)
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
def test_what_is_not_due_stays(days: float) -> None:
    made = first()
    assert renewed(made, HOSTS, at(days), published=True) is made


@pytest.mark.parametrize("published", [True, False])
def test_a_certificate_is_renewed_a_month_before_it_ends(published: bool) -> None:
    """By the same authority, which is trusted already: nobody need be told."""
    made = first()
    later = renewed(made, HOSTS, at(61), published=published)
    assert later.authorities == made.authorities
    assert later.certificate != made.certificate
    assert expiry(later) == at(61) + CERTIFICATE_VALID


def test_a_new_authority_signs_only_after_it_is_trusted() -> None:
    due = AUTHORITY_VALID.days * 2 / 3 + 1
    made = renewed(first(), HOSTS, at(due - 20), published=True)
    begun = renewed(made, HOSTS, at(due), published=True)
    assert count(begun.authorities) == 2
    assert begun.certificate == made.certificate
    waiting = renewed(begun, HOSTS, at(due), published=False)
    assert waiting == begun
    ended = renewed(begun, HOSTS, at(due), published=True)
    leaf, old = read_certificate(ended.certificate), read_certificate(made.certificate)
    assert leaf is not None
    assert old is not None
    assert leaf.issuer != old.issuer
    assert is_trusted(leaf, ended.authorities)
    # The old one is trusted as long as a replica may still serve with it.
    assert is_trusted(old, ended.authorities)
    assert renewed(ended, HOSTS, at(due), published=True) is ended


def test_an_authority_that_has_ended_is_no_longer_published() -> None:
    days, current = 0.0, first()
    while days < AUTHORITY_VALID.days + 30:
        days += 10
        current = renewed(current, HOSTS, at(days), published=True)
        current = renewed(current, HOSTS, at(days), published=True)
        leaf = read_certificate(current.certificate)
        assert leaf is not None
        assert leaf.not_valid_after_utc > at(days)
        assert is_trusted(leaf, current.authorities)
    assert count(current.authorities) == 1


def test_after_a_year_asleep_all_is_well_at_once() -> None:
    """What has ended serves nobody: it is replaced without waiting."""
    made = renewed(first(), HOSTS, at(700), published=False)
    made = renewed(made, HOSTS, at(700), published=False)
    end = expiry(made)
    assert end is not None
    assert end > at(700)
    late = renewed(first(), HOSTS, at(2000), published=False)
    assert count(late.authorities) == 1
    assert expiry(late) == at(2000) + CERTIFICATE_VALID


def test_other_names_need_another_certificate() -> None:
    made = renewed(first(), (*HOSTS, "more.svc"), at(1), published=True)
    leaf = read_certificate(made.certificate)
    assert leaf is not None
    assert "more.svc" in host_names(leaf)


@pytest.mark.parametrize("field", Certificates._fields)
@pytest.mark.parametrize(
    "junk", [b"", b"junk", b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"]
)
def test_what_can_not_be_read_is_made_anew(field: str, junk: bytes) -> None:
    made = renewed(first()._replace(**{field: junk}), HOSTS, at(1), published=True)
    leaf = read_certificate(made.certificate)
    assert leaf is not None
    assert is_trusted(leaf, made.authorities)
    assert renewed(made, HOSTS, at(1), published=True) is made


def test_an_authority_that_is_not_ours_signs_nothing() -> None:
    """As after cert-manager: its key may be of a kind that we do not sign with."""
    authority, server = rsa_authority("other", HOSTS)
    found = Certificates(authority.certificate, authority.key, server.certificate, server.key)
    assert is_complete(found)
    made = renewed(found, HOSTS, datetime.now(UTC), published=True)
    assert count(made.authorities) == 1
    assert authority.certificate not in made.authorities


def test_a_key_of_another_certificate_is_noticed() -> None:
    made, other = first(), first()
    mixed = renewed(made._replace(key=other.key), HOSTS, at(1), published=True)
    assert mixed.certificate != made.certificate
    mixed = renewed(made._replace(authority_key=other.authority_key), HOSTS, at(1), published=True)
    assert mixed.authorities != made.authorities
