"""An impostor of a broker gets no secret: each trick ends within its time limit, and the error names the reason.

The peer records all that it gets. Where nothing but time passes, the clock is the fake network's. The machines of SASL
and the texts of TLS have tests of their own (test_scram.py, test_tls_errors.py): here it is the whole client.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading

import pytest
from certificate_maker import DAY, NOW, authority, self_signed
from fake_broker import CLOSE, SILENCE, Answer, FakeKafka, FakeNet, FakeTransport, Raw
from tls_peers import Server, server_context

from kafkasource.errors import (
    AuthenticationFailed,
    BootstrapFailed,
    BootstrapHopeless,
    BrokerCertificateRefused,
    KafkaSourceError,
    TlsError,
)
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.network.tls_transport import RECEIVE_BYTES, TlsTransport
from kafkasource.kafka.protocol.apis import API_VERSIONS, METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kafkasource.kafka.security.config import SecurityConfig
from kafkasource.kafka.security.tls.config import TlsConfig
from kafkasource.kafka.security.tls.context import TlsContext
from kafkasource.kafka.security.tls.stream import TlsStream

SECRET = "hunter2"
ROOT = authority()
STAGES = [API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, METADATA]  # in this order on each connection
BEFORE_THE_PASSWORD = [API_VERSIONS, SASL_HANDSHAKE]
ALWAYS = 1000  # a fault for every connection that the client makes in its time
SETUP_S = 10.0  # kafka.socket.connection.setup.timeout.ms
MOST_SETUP_S = 30.0 * 1.2  # its maximum, with its spread
CALL_MS = 30_000

# RFC 7677, section 3: what a broker said to another client, word for word.
REPLAYED = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)


class Recorder(FakeKafka):
    """Keeps the bytes of all requests."""

    def __init__(self) -> None:
        super().__init__()
        self.got = b""

    def handle(self, node_id, frame):
        self.got += frame
        return super().handle(node_id, frame)


def sasl(mechanism):
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    return SecurityConfig.of({**given, "sasl.username": "alice", "sasl.password": SECRET})


@pytest.fixture
def net():
    return FakeNet(Recorder())


def outcome(net, mechanism="PLAIN", **settings):
    """The error of a client's first call."""
    settings = {"default_api_timeout_ms": CALL_MS, **settings}
    cluster = net.cluster(security=sasl(mechanism), **settings)
    with pytest.raises(KafkaSourceError) as ended:
        cluster.topics.list()
    assert SECRET not in str(ended.value)
    return ended.value


def challenge(data):
    return Answer({"error_code": 0, "error_message": None, "auth_bytes": data, "session_lifetime_ms": 0})


# Authentication.


def test_who_offers_a_weaker_mechanism_does_not_get_the_password_by_it(net):
    """SCRAM never shows the password, PLAIN does: a man in the middle would have it by taking SCRAM off the list."""
    net.kafka.mechanisms = ["PLAIN"]
    error = outcome(net, "SCRAM-SHA-512")
    assert isinstance(error, AuthenticationFailed)
    assert "SCRAM-SHA-512" in str(error)
    assert "kafka.sasl.mechanism" in str(error)
    assert not net.kafka.asked(SASL_AUTHENTICATE)
    assert SECRET.encode() not in net.kafka.got
    assert len(net.opened) == 1


def test_a_replayed_scram_exchange_gets_no_proof_of_the_password(net):
    net.kafka.mechanisms = ["SCRAM-SHA-256"]
    net.kafka.fault(SASL_AUTHENTICATE, *map(challenge, REPLAYED))
    error = outcome(net, "SCRAM-SHA-256")
    assert isinstance(error, AuthenticationFailed)
    assert "replay" in str(error)
    assert len(net.kafka.asked(SASL_AUTHENTICATE)) == 1  # the user and a nonce
    assert b"p=" not in net.kafka.got
    assert len(net.opened) == 1


def test_success_without_the_brokers_own_proof_is_not_believed(net):
    """An impostor that does not know the password can accept any proof."""
    net.kafka.mechanisms = ["SCRAM-SHA-256"]
    net.kafka.fault(SASL_AUTHENTICATE, challenge(b""))
    assert isinstance(outcome(net, "SCRAM-SHA-256"), AuthenticationFailed)
    assert {request.api for request in net.kafka.requests} == set(STAGES[:3])  # nothing was asked of it


# Bytes and time.

GARBAGE = {
    "text": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a frame of zeros": bytes(4 + 64),
    "a frame of ones": b"\0\0\0\x40" + b"\xff" * 64,
    "2 GiB": b"\x7f\xff\xff\xff" + bytes(1000),
    "a length below zero": b"\xff\xff\xff\xff" + bytes(1000),
}


FAULTS = {**{name: Raw(data) for name, data in GARBAGE.items()}, "a close": CLOSE, "silence": SILENCE}


@pytest.mark.parametrize("stage", STAGES, ids=lambda api: api.name)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_garbage_a_close_or_silence_at_any_stage_is_an_error_in_time_that_names_the_broker(net, stage, fault):
    net.kafka.fault(stage, *[fault] * ALWAYS)
    start = net.now
    error = outcome(net)
    assert net.now - start <= CALL_MS / 1000 + MOST_SETUP_S
    assert "bootstrap:9092" in str(error)
    if stage in BEFORE_THE_PASSWORD:
        assert SECRET.encode() not in net.kafka.got


def dribble(net, transport, data):
    """A byte a second, for ever."""
    transport.incoming += data[:1]
    if not transport.closed:
        net.later(1, lambda: dribble(net, transport, data[1:] or b"\0"))


def first_connection_ends_s(net, cluster):
    """When the client closes its first connection, in seconds from now on."""
    start = net.now
    with pytest.raises(KafkaSourceError, match="bootstrap:9092"):
        cluster.topics.list()
    while not net.transports[0].closed and net.now - start <= MOST_SETUP_S:
        cluster.caller.network.poll(1000)
    assert net.transports[0].closed
    return net.now - start


class Encrypted(FakeTransport):
    """A fake transport with TLS on it."""

    def __init__(self, wire):
        super().__init__(wire.net, wire.address, wire.node_id, "works")
        stream = TlsStream(TlsContext(TlsConfig.of({"ssl.truststore.certificates": ROOT.pem})).setup(), "bootstrap")
        self._tls = TlsTransport(wire, stream, memoryview(bytearray(RECEIVE_BYTES)))
        self.ready, self.close, self.finish_connect = wire.ready, wire.close, self._tls.finish_connect


ENDLESS = {
    "one long record": b"\x16\x03\x03\x40\x00\x02\x00\x40\x00",
    "records of a byte": b"\x16\x03\x03\x00\x01\x02" * 100,
}


@pytest.mark.parametrize(("stage", "data"), [*((stage, b"\0\x0f\xff\xff") for stage in STAGES[:3]),
                                             *((None, data) for data in ENDLESS.values())],
                         ids=[*(api.name for api in STAGES[:3]), *ENDLESS])  # fmt: skip
def test_a_byte_a_second_does_not_move_the_deadline_of_the_connection(net, monkeypatch, stage, data):
    """No stage: it is the handshake of TLS that never ends."""
    opened = net.open

    def open_(address):
        transport = opened(address)
        net.later(1, lambda: dribble(net, transport, data))
        if stage is not None:
            return transport
        transport.fate = "blackhole"  # it takes what it gets
        return Encrypted(transport)

    if stage is not None:
        net.kafka.fault(stage, *[SILENCE] * ALWAYS)
    monkeypatch.setattr(net, "open", open_)
    login = {"security": sasl("PLAIN")} if stage is not None else {}
    cluster = net.cluster(**login, default_api_timeout_ms=5_000)
    assert first_connection_ends_s(net, cluster) == pytest.approx(SETUP_S, abs=2.1)


# A port without TLS. Kafka's plaintext listener takes a ClientHello for the size of a frame of 369 MB, and closes.


def at_tls(net, monkeypatch, *ends):
    """Each connection meets the next of `ends` at its first message of TLS, the last one again and again."""
    opened, left = net.open, list(ends)

    def open_(address):
        transport = opened(address)
        end = left.pop(0) if len(left) > 1 else left[0]
        if end in ("refused", "unreachable"):
            transport.fate = end
            return transport
        transport.fate = "blackhole"
        net.later(0.001, lambda: setattr(transport, end, True))
        return Encrypted(transport)

    monkeypatch.setattr(net, "open", open_)


def without_an_answer(net, **settings):
    """How long the client asks, in seconds, and the error."""
    cluster, start = net.cluster("a:9092,b:9092", default_api_timeout_ms=60_000, **settings), net.now
    with pytest.raises(BootstrapFailed) as raised:
        cluster.topics.list()
    return net.now - start, raised.value


@pytest.mark.parametrize("end", ["ended", "reset"])
def test_where_each_server_closes_at_the_first_message_of_tls_the_client_ends_within_30_s(net, monkeypatch, end):
    at_tls(net, monkeypatch, end)
    seconds, error = without_an_answer(net)
    assert 20 <= seconds < 30
    assert isinstance(error, BootstrapHopeless)  # so the source does not ask again
    assert "at the first message of TLS" in str(error)
    assert "'kafka.security.protocol' to PLAINTEXT or SASL_PLAINTEXT" in str(error)


@pytest.mark.parametrize("other", ["refused", "unreachable"])
def test_a_server_that_was_ever_unlike_that_is_waited_for(net, monkeypatch, other):
    """A broker that stops closes at TLS; while it is down, it refuses."""
    at_tls(net, monkeypatch, "ended", "ended", other, "ended")
    assert without_an_answer(net)[0] > 55


def test_one_server_that_is_only_down_is_waited_for(net, monkeypatch):
    at_tls(net, monkeypatch, "ended")
    net.hosts["b"] = []
    assert without_an_answer(net)[0] > 55


def test_two_attempts_prove_nothing_however_long_they_take(net, monkeypatch):
    at_tls(net, monkeypatch, "ended")
    slow = {"reconnect_backoff_ms": 25_000, "reconnect_backoff_max_ms": 25_000}
    assert without_an_answer(net, **slow)[0] > 45


# A man in the middle with TLS: his certificate is wrong, or his TLS is too old.


@contextlib.contextmanager
def listening(context):
    """Run a TLS server. Gives its address and the decrypted bytes that it received."""
    got: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))

    def converse(connection):
        peer = Server(context)
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(1 << 16):
                peer.feed(data)
                got.append(bytes(peer.received))
                connection.sendall(peer.take())
                if peer.error is not None:
                    return

    def accept():
        with contextlib.suppress(OSError):
            while True:
                converse(server.accept()[0])

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}", got
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


HERE = {"dns": ("localhost",), "ips": ("127.0.0.1",)}
IMPOSTORS = {
    "another authority": (authority("Mallory").issue("kafka", **HERE), "Mallory"),
    "nobody's": (self_signed("kafka", ("localhost",)), "self-signed"),
    "another host": (ROOT.issue("kafka", ("other.example",), ("10.9.9.9",)), "127.0.0.1"),
    "expired": (ROOT.issue("kafka", **HERE, not_before=NOW - 9 * DAY, not_after=NOW - DAY), "has expired"),
    "of the future": (ROOT.issue("kafka", **HERE, not_before=NOW + DAY), "not valid"),
}


def refused(address, error, **tls):
    """The error of a client that would log in by PLAIN; it is said at once, and the client asks once."""
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "ssl.truststore.certificates": ROOT.pem}
    given |= {"sasl.username": "alice", "sasl.password": SECRET, **tls}
    config = ClientConfig.of(address, security=SecurityConfig.of(given), default_api_timeout_ms=600_000)
    with Cluster(config) as cluster:
        with pytest.raises(error) as ended:
            cluster.topics.list()
        assert cluster.caller.network.connect_failures(-1) == 1
    assert SECRET not in str(ended.value)
    return str(ended.value)


@pytest.mark.parametrize(("impostor", "says"), IMPOSTORS.values(), ids=IMPOSTORS)
def test_an_impostors_certificate_is_refused_before_a_byte_of_kafka_is_sent(impostor, says):
    with listening(server_context(impostor)) as (address, got):
        assert says in refused(address, BrokerCertificateRefused)
    assert got
    assert set(got) == {b""}


def test_a_revoked_certificate_is_refused_before_a_byte_of_kafka_is_sent(tmp_path):
    stolen = ROOT.issue("kafka", **HERE)
    (tmp_path / "crl.pem").write_text(ROOT.revocation_list(stolen))
    with listening(server_context(stolen)) as (address, got):
        said = refused(address, BrokerCertificateRefused, **{"ssl.crl.location": str(tmp_path / "crl.pem")})
    assert "revoked" in said
    assert set(got) == {b""}


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_a_broker_of_tls_1_1_only_is_refused_and_gets_no_byte_of_kafka():
    context = server_context(ROOT.issue("kafka", **HERE))
    context.set_ciphers("ALL:@SECLEVEL=0")  # with which it would speak 1.1
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with listening(context) as (address, got):
        assert "ssl.enabled.protocols" in refused(address, TlsError)
    assert set(got) <= {b""}
