"""The TLS stream against a server of Python's own `ssl`, in memory."""

from __future__ import annotations

import random
import ssl

import pytest
from certificate_maker import Issued, authority
from tls_peers import Server, byte_by_byte, exchange, read_all, server_context, stream, take

from kafkasource.errors import ClientCertificateRefused, ConnectFailed, TlsError
from kafkasource.kafka.security.tls.stream import MOST_OUTGOING_BYTES, RECORD_BYTES, name_to_check

VERSIONS = ["TLSv1.2", "TLSv1.3"]


@pytest.fixture(scope="module")
def root() -> Issued:
    return authority()


@pytest.fixture(scope="module")
def broker(root: Issued) -> Issued:
    return root.issue("broker", ("broker.test",), ("127.0.0.1", "::1"))


@pytest.fixture
def trusting(root: Issued) -> dict[str, str]:
    return {"ssl.truststore.certificates": root.pem}


def connected(trusting, broker, version="TLSv1.3", **more):
    client, server = stream(trusting, **more), Server(server_context(broker, version=version))
    exchange(client, server)
    assert client.handshake()
    return client, server


def to_server(client, server):
    server.feed(take(client))


def to_client(client, server):
    client.feed(server.take())


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_pass_both_ways_unchanged(trusting, broker, version):
    client, server = connected(trusting, broker, version)
    assert client.version == version
    sent = random.Random(1).randbytes(100_000)
    assert client.write([sent[:10], sent[10:50_000], sent[50_000:]]) == len(sent)
    to_server(client, server)
    assert bytes(server.received) == sent
    server.write(sent)
    to_client(client, server)
    assert read_all(client) == sent


@pytest.mark.parametrize("version", VERSIONS)
def test_a_handshake_cut_at_every_byte_in_both_directions_succeeds(trusting, broker, version):
    client, server = stream(trusting), Server(server_context(broker, version=version))
    exchange(client, server, byte_by_byte)
    assert client.handshake()
    assert server.established


@pytest.mark.parametrize("version", VERSIONS)
def test_a_record_that_arrives_in_two_parts_is_given_whole_once_it_is_complete(trusting, broker, version):
    client, server = connected(trusting, broker, version)
    read_all(client)  # session tickets
    target = memoryview(bytearray(100))
    for cut in range(1, 28):  # of the 34 bytes and more that a record of 12 has
        sent = b"record %5d" % cut
        server.write(sent)
        data = server.take()
        client.feed(data[:cut])
        assert client.read_into(target) is None
        client.feed(data[cut:])
        assert client.read_into(target) == len(sent)
        assert bytes(target[: len(sent)]) == sent


@pytest.mark.parametrize("size", [1, 7, RECORD_BYTES - 1, RECORD_BYTES, RECORD_BYTES + 1, 100_000])
def test_a_read_fills_its_target_across_records_and_says_that_there_may_be_more(trusting, broker, size):
    client, server = connected(trusting, broker)
    sent = random.Random(2).randbytes(70_000)
    server.write(sent)
    to_client(client, server)
    target = memoryview(bytearray(size))
    got = client.read_into(target)
    assert got == min(size, len(sent))
    assert bytes(target[:got]) == sent[:got]
    assert client.may_have_more == (size < len(sent))
    assert read_all(client, max(size, 512)) == sent[got:]
    assert not client.may_have_more


def test_decrypted_bytes_that_no_new_bytes_of_the_wire_announce_are_not_lost(trusting, broker):
    client, server = connected(trusting, broker)
    server.write(b"0123456789")
    to_client(client, server)
    buffer = memoryview(bytearray(1))
    received = b""
    while True:
        got = client.read_into(buffer)
        if not got:
            break
        received += bytes(buffer)
        assert client.may_have_more
    assert received == b"0123456789"


def test_small_pieces_share_a_record_and_large_ones_fill_theirs(trusting, broker):
    client, _server = connected(trusting, broker)
    client.write([b"x"] * 1000)
    assert len(take(client)) < 1000 + 100  # one record has 22 bytes of its own
    client.write([b"y" * RECORD_BYTES * 4])
    assert len(take(client)) < RECORD_BYTES * 4 + 4 * 30


def test_a_write_takes_no_more_than_its_bound_until_the_bytes_are_sent(trusting, broker):
    client, server = connected(trusting, broker)
    sent = random.Random(3).randbytes(3 * MOST_OUTGOING_BYTES)
    view = memoryview(sent)
    held = 0
    while view:
        taken = client.write([view])
        held = max(held, len(client.outgoing()))
        if not taken:
            server.feed(bytes(client.outgoing()[:1000]))  # the socket takes little
            client.sent(min(1000, len(client.outgoing())))
        view = view[taken:]
    assert held <= MOST_OUTGOING_BYTES + RECORD_BYTES + 100
    to_server(client, server)
    assert bytes(server.received) == sent


def test_a_write_before_the_handshake_is_done_takes_nothing_and_wants_the_reads_first(trusting, broker):
    client, server = stream(trusting), Server(server_context(broker))
    assert client.write([b"request"]) == 0
    client.handshake()
    assert client.write([b"request"]) == 0
    exchange(client, server)
    assert client.write([b"request"]) == 7
    to_server(client, server)
    assert bytes(server.received) == b"request"


@pytest.mark.parametrize("notifies", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_close_with_or_without_close_notify_is_the_end_after_the_bytes_before_it(trusting, broker, version, notifies):
    client, server = connected(trusting, broker, version)
    server.write(b"last")
    if notifies:
        server.close()
    to_client(client, server)
    if not notifies:
        client.feed(b"")
    target = memoryview(bytearray(100))
    assert [client.read_into(target) for _ in range(3)] == [4, 0, 0]


def test_a_close_in_the_middle_of_a_record_is_the_end_and_its_part_is_not_given(trusting, broker):
    client, server = connected(trusting, broker)
    read_all(client)
    server.write(b"cut")
    client.feed(server.take()[:-1])
    client.feed(b"")
    assert client.read_into(memoryview(bytearray(100))) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_close_after_any_number_of_bytes_of_the_handshake_may_be_tried_again(trusting, broker, version):
    context = server_context(broker, version=version)
    for cut in range(0, 700, 37):  # a flight has more than 700 bytes
        client, server = stream(trusting), Server(context)
        client.handshake()
        to_server(client, server)
        if cut:
            client.feed(server.take()[:cut])
        client.feed(b"")
        with pytest.raises(ConnectFailed) as caught:
            client.handshake()
        assert ("without TLS" in str(caught.value)) == (cut == 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_any_changed_byte_of_the_server_s_handshake_ends_it_with_an_error_of_ours(trusting, broker, version):
    for at in range(0, 900, 13):
        client, server = stream(trusting), Server(server_context(broker, version=version))
        client.handshake()
        to_server(client, server)
        flight = bytearray(server.take())
        flight[at % len(flight)] ^= 0x55
        client.feed(bytes(flight))
        try:
            done = client.handshake()
        except (TlsError, ConnectFailed):
            continue
        assert not done or version == "TLSv1.2"  # the record waits for bytes that its length claims


def test_a_changed_byte_of_a_record_breaks_the_stream_after_the_records_before_it(trusting, broker):
    client, server = connected(trusting, broker)
    read_all(client)
    server.write(b"good")
    good = server.take()
    server.write(b"evil")
    evil = bytearray(server.take())
    evil[-1] ^= 1
    client.feed(good + bytes(evil))
    target = memoryview(bytearray(100))
    assert client.read_into(target) == 4
    for _ in range(2):
        with pytest.raises(OSError, match=r"(?i)mac|record layer failure"):
            client.read_into(target)


@pytest.mark.parametrize("certificate", ["none", "strange"])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_alert_about_the_client_s_certificate_is_an_error_that_names_it(
    root, trusting, broker, version, certificate
):
    if certificate == "strange":
        stranger = authority("Others").issue("client")
        trusting |= {"ssl.key.pem": stranger.key_pem(), "ssl.certificate.pem": stranger.chain_pem}
    client = stream(trusting)
    server = Server(server_context(broker, clients_of=root, version=version))

    def until_the_alert():
        exchange(client, server)
        if version == "TLSv1.3":  # the client has finished before the server saw its certificate
            client.write([b"ApiVersions"])
        to_server(client, server)
        to_client(client, server)
        client.read_into(memoryview(bytearray(100)))

    with pytest.raises(ClientCertificateRefused) as caught:
        until_the_alert()
    assert not caught.value.retriable
    assert ("none is set" in str(caught.value)) == (certificate == "none")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_certificate_is_shown_to_the_server_that_asks_for_it(root, trusting, broker, version):
    mine = root.issue("client-1")
    trusting |= {"ssl.keystore.key": mine.key_pem("secret"), "ssl.keystore.certificate.chain": mine.chain_pem}
    client = stream(trusting | {"ssl.key.password": "secret"})
    server = Server(server_context(broker, clients_of=root, version=version))
    exchange(client, server)
    assert server.tls.getpeercert()["subject"] == ((("commonName", "client-1"),),)


def test_the_server_gets_the_name_that_it_is_asked_by(trusting, broker):
    context = server_context(broker)
    asked = []
    context.sni_callback = lambda tls, name, _: asked.append(name)
    client, server = stream(trusting, "broker.test."), Server(context)
    exchange(client, server)
    assert asked == ["broker.test"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::1%lo", "0:0:0:0:0:0:0:1", "BROKER.test"])
def test_addresses_and_names_in_any_spelling_pass_the_check(trusting, broker, host):
    connected(trusting, broker, host=host)


@pytest.mark.parametrize("host", ["", ".", ".broker.test", "a" * 64 + ".test", "bro\0ker"])
def test_a_host_that_no_certificate_can_be_for_is_refused(trusting, host):
    with pytest.raises(TlsError, match="host name"):
        stream(trusting, host)


def test_a_zone_and_the_last_dot_are_no_part_of_a_name():
    assert [name_to_check(host) for host in ("fe80::1%eth0", "b.test.", "b.test")] == ["fe80::1", "b.test", "b.test"]


def test_the_chain_is_known_before_and_after_the_certificate_is_refused(root, broker):
    client, server = stream({"ssl.truststore.certificates": authority("Other").pem}), Server(server_context(broker))
    with pytest.raises(TlsError):
        exchange(client, server)
    assert client.chain() == (broker.der,)


def test_a_refused_server_gets_an_alert_and_nothing_else(broker):
    client, server = stream({"ssl.truststore.certificates": authority("Other").pem}), Server(server_context(broker))
    with pytest.raises(TlsError):
        exchange(client, server)
    assert not server.received
    assert client.write([b"password"]) == 0
    assert isinstance(server.error, ssl.SSLError)
    assert "UNKNOWN_CA" in server.error.reason
