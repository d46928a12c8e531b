"""A storm changes certificates: a client that reads its files anew is taken, and connections go on."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import ExitStack, suppress

import pytest
from echoing_broker import EchoingBroker, frame

from lab.campaign.faults import Fault
from lab.campaign.storm.certificates import Certificates
from lab.campaign.storm.connections import StormProxy
from lab.campaign.storm.faults import CERTIFICATES
from lab.campaign.storm.waiting import WaitingFaults

VARIANTS = CERTIFICATES[0].variants


class Storm:
    """A broker behind a proxy with certificates, and clients that read their files when they connect."""

    def __init__(self, folder, ends):
        broker = EchoingBroker()
        ends.callback(broker.close)
        self.certificates, self._ends = Certificates(folder), ends
        waiting = WaitingFaults("campaign")
        self.proxy = StormProxy(1, waiting, lambda _met_by, _met: None, self.certificates.context)
        self.proxy.upstream = broker.address
        ends.enter_context(self.proxy)

    def client(self):
        """The context of a client that has just read its files."""
        options = self.certificates.options()
        context = ssl.create_default_context(cafile=options["kafka.ssl.truststore.location"])
        context.load_cert_chain(options["kafka.ssl.keystore.location"])
        return context

    def connect(self, context):
        host, port = self.proxy.address
        plain = self._ends.enter_context(socket.create_connection((host, port), timeout=20))
        return self._ends.enter_context(context.wrap_socket(plain, server_hostname=host))

    def change(self, variant):
        self.certificates.change(Fault(0, "certificates", "certificates change", variant, 1, 0.0, 0.0, 0.5))


@pytest.fixture
def storm(tmp_path):
    with ExitStack() as ends:
        yield Storm(tmp_path / "certificates", ends)


def converse(connection):
    sent = frame()
    connection.sendall(sent)
    got = b""
    while len(got) < len(sent):
        data = connection.recv(len(sent) - len(got))
        assert data
        got += data
    assert got == sent


@pytest.mark.parametrize("variant", VARIANTS)
def test_after_a_change_clients_connect_by_their_files_and_older_connections_go_on(storm, variant):
    before = storm.connect(storm.client())
    converse(before)
    for _ in range(3):
        storm.change(variant)
        converse(storm.connect(storm.client()))
    converse(before)
    assert storm.proxy.refused_handshakes == []


@pytest.mark.parametrize(("variant", "whose"), [("of the brokers", "peer"), ("of the clients", "own")])
def test_a_change_shows_other_certificates(storm, variant, whose):
    def shown():
        if whose == "peer":
            return storm.connect(storm.client()).getpeercert(binary_form=True)
        with open(storm.certificates.options()["kafka.ssl.keystore.location"]) as file:
            return file.read()

    before = shown()
    storm.change(variant)
    assert shown() != before


def test_a_client_that_read_its_files_two_changes_of_the_ca_ago_is_refused_and_that_is_told(storm):
    old = storm.client()
    storm.change("of the CA")
    storm.change("of the CA")
    with pytest.raises(ssl.SSLCertVerificationError):  # it does not know the broker's
        storm.connect(old)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    with suppress(OSError):
        storm.connect(old).recv(1)  # nor the broker its; TLS 1.3 tells a client after its handshake
    deadline = time.monotonic() + 20
    while len(storm.proxy.refused_handshakes) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(storm.proxy.refused_handshakes) == 2
