"""Certificates as we read them, against `cryptography`; bad bytes raise our own error."""

from __future__ import annotations

import random
from datetime import datetime, timezone

import pytest
from certificate_maker import NOW, authority, self_signed
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from kafkasource.kafka.security.tls.certificates import read_certificate
from kafkasource.kafka.security.tls.der import MalformedDer, elements, object_identifier


@pytest.fixture(scope="module")
def der() -> bytes:
    return authority().issue("broker", ("a.test", "*.b.test"), ("10.0.0.1", "fe80::1")).der


def test_the_fields_are_those_that_cryptography_reads(der):
    expected = x509.load_der_x509_certificate(der)
    certificate = read_certificate(der)
    names = expected.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert certificate.subject == expected.subject.rfc4514_string()
    assert certificate.issuer == expected.issuer.rfc4514_string()
    assert certificate.not_before == expected.not_valid_before_utc
    assert certificate.not_after == expected.not_valid_after_utc
    assert list(certificate.dns_names) == names.get_values_for_type(x509.DNSName)
    assert list(certificate.ip_addresses) == [str(ip) for ip in names.get_values_for_type(x509.IPAddress)]
    assert not certificate.is_ca
    assert not certificate.self_issued


@given(
    st.lists(
        st.tuples(
            st.sampled_from([NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.LOCALITY_NAME, NameOID.USER_ID]),
            st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_names_are_written_as_rfc_4514_has_them(attributes):
    name = x509.Name([x509.NameAttribute(oid, text) for oid, text in attributes])
    assert read_certificate(_certificate(name)).subject == name.rfc4514_string()


def test_blanks_and_signs_at_the_ends_of_a_name_are_escaped():
    for text in (" a", "a ", "#a", 'a,b+c"d\\e<f>g;h', "a=b"):
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
        assert read_certificate(_certificate(name)).subject == name.rfc4514_string()


@pytest.mark.parametrize("year", [1960, 1999, 2049, 2050, 9999])
def test_dates_of_both_forms_are_read(year):
    time = datetime(year, 12, 31, 23, 59, 59, tzinfo=timezone.utc)
    issued = self_signed("x", not_before=datetime(1955, 1, 1, tzinfo=timezone.utc), not_after=time)
    assert read_certificate(issued.der).not_after == time


def test_an_authority_is_one_that_is_issued_by_itself():
    certificate = read_certificate(authority("R").der)
    assert certificate.is_ca
    assert certificate.self_issued
    assert "no names" in certificate.names


def test_a_long_list_of_names_is_cut():
    issued = self_signed("x", tuple(f"n{number}.test" for number in range(500)))
    assert len(read_certificate(issued.der).names) < 200
    assert "and 488 more" in read_certificate(issued.der).names


def test_a_certificate_cut_at_any_byte_or_with_bytes_behind_it_raises_our_error(der):
    for cut in range(len(der)):
        with pytest.raises(MalformedDer):
            read_certificate(der[:cut])
    with pytest.raises(MalformedDer):
        read_certificate(der + b"\0")


def test_a_certificate_with_changed_bytes_is_read_or_raises_our_error_and_its_text_is_printable(der):
    chance = random.Random(5)
    for _ in range(5000):
        changed = bytearray(der)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            certificate = read_certificate(bytes(changed))
        except MalformedDer:
            continue
        assert (certificate.subject + certificate.issuer + certificate.names).isprintable()


@given(st.binary(max_size=200))
def test_any_bytes_raise_our_error_or_are_read(data):
    for read in (read_certificate, elements, object_identifier):
        try:
            read(data)
        except MalformedDer:
            continue


@pytest.mark.parametrize("oid", ["2.5.4.3", "1.2.840.113549.1.9.1", "0.9.2342.19200300.100.1.25", "2.999.1", "1.39.1"])
def test_object_identifiers_are_those_that_cryptography_writes(oid):
    name = x509.Name([x509.NameAttribute(x509.ObjectIdentifier(oid), "x")])
    encoded = elements(elements(elements(elements(name.public_bytes())[0].content)[0].content)[0].content)[0]
    assert object_identifier(encoded.content) == oid


def _certificate(name: x509.Name) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, NOW)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)
