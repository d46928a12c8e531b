"""Each error of TLS says what is wrong and what to change. The client retries only where that can help."""

from __future__ import annotations

import pickle
import ssl
from datetime import timedelta

import pytest
from certificate_maker import DAY, NOW, Issued, authority, self_signed
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from tls_peers import Server, exchange, server_context, stream

from kafkasource.errors import BrokerCertificateRefused, ConnectFailed, KafkaSourceError, TlsError, TlsUnanswered


@pytest.fixture(scope="module")
def root() -> Issued:
    return authority()


@pytest.fixture(scope="module")
def broker(root: Issued) -> Issued:
    return root.issue("broker-1", ("broker.test",), ("10.1.2.3",))


def refusal(issued: Issued, trusted: Issued, host: str = "broker.test", **options: str) -> str:
    """Return the client's error when it refuses the broker's certificate."""
    client = stream({"ssl.truststore.certificates": trusted.pem, **options}, host)
    server = Server(server_context(issued))
    with pytest.raises(BrokerCertificateRefused) as caught:
        exchange(client, server)
    assert not caught.value.retriable
    assert not server.received
    return str(caught.value)


def assert_says(text: str, *parts: object) -> None:
    assert [part for part in parts if str(part) not in text] == [], text


def day(time) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


# The broker's certificate.


@pytest.mark.parametrize("host", ["other.test", "10.9.9.9"])
def test_a_certificate_for_another_host_lists_its_names_and_the_host_asked_for(root, broker, host):
    text = refusal(broker, root, host)
    assert_says(text, host, "broker.test", "IP 10.1.2.3", "advertised.listeners", "CN=broker-1", "CN=Test Root")


def test_a_certificate_with_its_address_as_a_name_says_that_it_must_be_an_address(root):
    assert_says(refusal(root.issue("b", ("10.1.2.3",)), root, "10.1.2.3"), "as an IP address")


def test_an_expired_certificate_gives_its_dates_and_this_machine_s_clock(root):
    broker = root.issue("b", ("broker.test",), not_before=NOW - 9 * DAY, not_after=NOW - DAY)
    assert_says(refusal(broker, root), "has expired", day(NOW - 9 * DAY), day(NOW - DAY), "clock says", "CN=b")


def test_a_certificate_of_the_future_gives_its_dates_and_this_machine_s_clock(root):
    broker = root.issue("b", ("broker.test",), not_before=NOW + timedelta(hours=2))
    assert_says(refusal(broker, root), "not valid yet", day(NOW + timedelta(hours=2)), "clock says")


def test_an_expired_authority_is_named_and_not_the_broker(root):
    middle = root.issue("Middle", ca=True, not_before=NOW - 9 * DAY, not_after=NOW - DAY)
    text = refusal(middle.issue("b", ("broker.test",)), root)
    assert_says(text, "an authority of the broker's has expired", "CN=Middle")
    assert "CN=b'" not in text


def test_an_expired_root_that_the_broker_does_not_send_points_at_the_truststore():
    root = authority("Old Root", not_before=NOW - 9 * DAY, not_after=NOW - DAY)
    assert_says(refusal(root.issue("b", ("broker.test",)), root), "ssl.truststore.location", "or an authority's")


def test_a_self_signed_certificate_says_so():
    text = refusal(self_signed("b", ("broker.test",)), authority())
    assert_says(text, "self-signed", "CN=b", "ssl.truststore.location", "ssl.ca.location")


def test_a_missing_issuer_is_named_with_the_truststore_that_lacks_it(root, broker, tmp_path):
    (tmp_path / "ca.pem").write_text(authority("Other Root").pem)
    client = stream({"ssl.truststore.location": str(tmp_path / "ca.pem")})
    with pytest.raises(BrokerCertificateRefused) as caught:
        exchange(client, Server(server_context(broker)))
    assert_says(str(caught.value), "CN=Test Root", "CN=broker-1", tmp_path / "ca.pem", "1 certificates")


def test_a_missing_intermediate_points_at_the_broker_s_keystore(root):
    whole = root.issue("Middle", ca=True).issue("b", ("broker.test",))
    text = refusal(Issued(whole.certificate, whole.key), root)
    assert_says(text, "CN=Middle", "sends this certificate alone")


def test_an_unknown_root_in_the_chain_is_named():
    root = authority("Unknown Root")
    broker = root.issue("b", ("broker.test",))
    text = refusal(Issued(broker.certificate, broker.key, (root.certificate,)), authority())
    assert_says(text, "not trusted", "CN=Unknown Root")


def test_a_revoked_certificate_and_a_missing_or_old_list_are_told_apart(root, broker, tmp_path):
    path = tmp_path / "crl.pem"
    old = {"last_update": NOW - 9 * DAY, "next_update": NOW - DAY}
    for text, says in (
        (root.revocation_list(broker), "is revoked"),
        (authority("Other").revocation_list(), "list of 'CN=Test Root' is missing"),
        (root.revocation_list(**old), "list of 'CN=Test Root' has expired"),
    ):
        path.write_text(text)
        assert_says(refusal(broker, root, **{"ssl.crl.location": str(path)}), says, "ssl.crl.location", "CN=broker-1")


def test_a_certificate_for_clients_only_is_refused_with_openssl_s_reason(root):
    plain = root.issue("b", ("broker.test",))
    usage = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH])
    certificate = (
        x509.CertificateBuilder()
        .issuer_name(plain.certificate.issuer)
        .subject_name(plain.certificate.subject)
        .public_key(plain.key.public_key())
        .serial_number(7)
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + DAY)
        .add_extension(usage, critical=False)
        .sign(root.key, hashes.SHA256())
    )
    assert_says(refusal(Issued(certificate, plain.key), root), "purpose", "CN=b")


def test_control_characters_in_a_peer_s_names_do_not_reach_the_log(root):
    text = refusal(root.issue("b\x1b[31m\r\nERROR fake line", ("x.test",)), root)
    assert text.isprintable()


# Peers without TLS or with other versions.


def failure(root: Issued, *answer: bytes, **options: str) -> KafkaSourceError:
    """The error where the broker answers the first message with these bytes; b"" is a close."""
    client = stream({"ssl.truststore.certificates": root.pem, **options})
    client.handshake()
    for data in answer:
        client.feed(data)
    with pytest.raises(KafkaSourceError) as caught:
        client.handshake()
    return caught.value


def test_a_close_at_the_first_message_hints_at_a_port_without_tls_and_may_be_tried_again(root):
    error = failure(root, b"")  # as Kafka's plaintext listener does: it reads a frame of 369 MB
    assert isinstance(error, TlsUnanswered)
    assert error.retriable
    assert_says(str(error), "security.protocol", "SASL_PLAINTEXT")


def test_a_close_in_the_middle_of_the_handshake_does_not(root):
    error = failure(root, bytes.fromhex("160303"), b"")
    assert isinstance(error, ConnectFailed)
    assert not isinstance(error, TlsUnanswered)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n", b"\0\0\0\x0a\0\0\0\0\0\x23", b"SSH-2.0-OpenSSH\r\n"]
)
def test_an_answer_that_is_no_tls_says_so_and_is_not_tried_again(root, answer):
    error = failure(root, answer)
    assert isinstance(error, TlsError)
    assert not error.retriable
    assert_says(str(error), "not TLS", answer[:4].hex(" "), "security.protocol")


@pytest.mark.parametrize("alert", [80, 90])  # internal_error, user_canceled
def test_an_alert_of_a_broker_that_has_trouble_may_be_tried_again(root, alert):
    assert failure(root, bytes([0x15, 3, 3, 0, 2, 2, alert])).retriable


@pytest.mark.parametrize(
    ("alert", "says"), [(70, "enabled.protocols"), (40, "cipher.suites"), (112, "UNRECOGNIZED_NAME")]
)
def test_an_alert_before_any_certificate_says_what_to_compare(root, alert, says):
    error = failure(root, bytes([0x15, 3, 3, 0, 2, 2, alert]))
    assert isinstance(error, TlsError)
    assert_says(str(error), says)


def test_a_server_of_old_versions_only_is_refused_with_the_versions_offered(root, broker):
    hello = bytes.fromhex("16030200 2a 020000 26 0302".replace(" ", "")) + bytes(32) + b"\0" + b"\xc0\x13" + b"\0"
    error = failure(root, hello)  # TLS 1.1
    assert isinstance(error, TlsError)
    assert_says(str(error), "TLSv1.2 and TLSv1.3", "ssl.enabled.protocols")


def test_no_suite_in_common_names_the_option(root, broker):
    context = server_context(broker, version="TLSv1.2")
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    client = stream(
        {"ssl.truststore.certificates": root.pem, "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}
    )
    with pytest.raises(TlsError, match=r"ssl\.cipher\.suites") as caught:
        exchange(client, Server(context))
    assert not isinstance(caught.value, BrokerCertificateRefused)


def test_each_error_pickles_with_its_text(root, broker):
    text = refusal(broker, authority())
    error = pickle.loads(pickle.dumps(BrokerCertificateRefused(text)))
    assert str(error) == text
    assert isinstance(error, TlsError)
    assert not isinstance(error, ssl.SSLError)
