"""Each mechanism with a real broker, by the properties that Kafka's own clients take, on a plain socket."""

import socket
import ssl
import struct

import pytest
from kdc import Kdc
from secured_brokers import USERS, WITH_PASSWORD
from token_server import an_endpoint, granted

from kafkasource.errors import AuthenticationFailed, SaslAuthenticationFailed, check
from kafkasource.kafka.protocol.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE
from kafkasource.kafka.protocol.frames import decode_response, encode_request_parts
from kafkasource.kafka.security.login import login_of
from kafkasource.kafka.security.sasl.config import SaslOptions
from kafkasource.testing.broker import Broker, Kerberos, Listener, Security
from kafkasource.testing.broker.security.tokens import TokenSigner

pytestmark = pytest.mark.broker

LISTENER = "SASL_PLAINTEXT"


class Conversation:
    """Handshake and tokens, one after the other."""

    def __init__(self, address, tls=None):
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def send(self, data):
        self._socket.sendall(struct.pack(">i", len(data)) + data)

    def receive(self):
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError
            data += piece
        return data

    def ask(self, api, version, body):
        self._socket.sendall(b"".join(encode_request_parts(api, version, 1, "test", body)))
        return decode_response(api, version, self.receive())

    def handshake(self, mechanism, version):
        answer = self.ask(SASL_HANDSHAKE, version, {"mechanism": mechanism})
        check(answer["error_code"], "SaslHandshake")
        assert mechanism in answer["mechanisms"]

    def authenticate(self, mechanism, version):
        """Authenticate by this version of SaslAuthenticate; None: raw tokens after SaslHandshake v0. Returns the last
        answer."""
        self.handshake(mechanism.name, 0 if version is None else 1)
        token, answer = mechanism.first(), None
        while token is not None:
            if version is None:
                self.send(token)
                challenge = b"" if mechanism.complete else self.receive()
            else:
                answer = self.ask(SASL_AUTHENTICATE, version, {"auth_bytes": token})
                check(answer["error_code"], answer["error_message"] or "")
                challenge = bytes(answer["auth_bytes"])
            token = mechanism.respond(challenge)
        mechanism.finish()
        return answer


def login(properties, **changes):
    """Log in by the SASL properties of a Java client."""
    given = {name: text for name, text in properties.items() if name.startswith("sasl.")}
    given |= {name.replace("_", "."): text for name, text in changes.items()}
    return login_of(SaslOptions.of(given), "localhost")


@pytest.mark.parametrize("version", [None, *range(SASL_AUTHENTICATE.versions[0], SASL_AUTHENTICATE.versions[1] + 1)])
@pytest.mark.parametrize("mechanism", [*WITH_PASSWORD, "OAUTHBEARER"])
def test_the_properties_of_a_java_client_let_us_in(each_secured_broker, mechanism, version):
    for user in USERS:
        properties = each_secured_broker.client_properties(LISTENER, mechanism, user)
        with Conversation(properties["bootstrap.servers"]) as conversation:
            conversation.authenticate(login(properties).mechanism("localhost"), version)


def test_a_token_endpoints_token_lets_us_in_and_a_strangers_does_not(each_secured_broker):
    properties = each_secured_broker.client_properties("JWKS")
    tls = ssl.create_default_context(cafile=properties["ssl.truststore.location"])
    for signer, error in ((each_secured_broker.secured.tokens, None), (TokenSigner(), SaslAuthenticationFailed)):
        with an_endpoint(granted(signer.token("alice"))) as endpoint:
            given = {
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_token_endpoint_url": endpoint.url,
                "sasl_oauthbearer_token_endpoint_allow_http": "true",
                "sasl_oauthbearer_client_id": "me",
                "sasl_oauthbearer_client_secret": "geheim",
            }
            machine = login({}, **given).mechanism("localhost")
            with Conversation(properties["bootstrap.servers"], tls) as conversation:
                if error is None:
                    conversation.authenticate(machine, 2)
                    continue
                with pytest.raises(error):
                    conversation.authenticate(machine, 2)
            assert machine.refusal.startswith("invalid_token")


@pytest.mark.extended
@pytest.mark.parametrize("release", ["4.3.1", "3.9.2"])
def test_a_ticket_lets_us_in(tmp_path, monkeypatch, release):
    pytest.importorskip("gssapi", reason="needs the package gssapi, which pip builds with krb5's headers")
    with Kdc(tmp_path) as kdc:
        monkeypatch.setenv("KRB5_CONFIG", str(kdc.krb5_conf))
        kerberos = Kerberos(
            kdc.krb5_conf,
            kdc.keytab("kafka/localhost"),
            client_keytab=kdc.keytab("alice"),
            client_principal="alice@TEST",
        )
        security = Security((Listener("SASL_PLAINTEXT", ("GSSAPI",)),), kerberos=kerberos)
        with Broker(release, security=security) as broker:
            properties = broker.client_properties()
            for version in (None, 0, 2):
                with Conversation(properties["bootstrap.servers"]) as conversation:
                    conversation.authenticate(login(properties).mechanism("localhost"), version)
            mallory = properties["sasl.jaas.config"].replace("alice@TEST", "mallory@TEST")
            with pytest.raises(AuthenticationFailed):
                login(properties, sasl_jaas_config=mallory).mechanism("localhost").first()
