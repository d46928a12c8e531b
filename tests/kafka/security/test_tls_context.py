"""Contexts: what they offer and trust, and how they follow the files that they were made of."""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
import threading
from pathlib import Path

import pytest
from certificate_maker import DAY, NOW, Issued, authority
from tls_peers import Server, exchange, read_all, server_context, take

from kafkasource.errors import BrokerCertificateRefused, OptionError, TlsError
from kafkasource.kafka.network.sockets import PlaintextTransport
from kafkasource.kafka.network.tls_transport import TlsTransport
from kafkasource.kafka.process import PerProcess
from kafkasource.kafka.security.tls import context as tls_context
from kafkasource.kafka.security.tls.config import TlsConfig
from kafkasource.kafka.security.tls.context import TlsContext, context_of
from kafkasource.kafka.security.tls.stream import TlsStream


@pytest.fixture(scope="module")
def root() -> Issued:
    return authority()


@pytest.fixture(scope="module")
def broker(root: Issued) -> Issued:
    return root.issue("broker", ("broker.test",))


@pytest.fixture(autouse=True)
def warned(monkeypatch) -> None:
    """Nothing has been warned of yet."""
    monkeypatch.setattr(tls_context, "_warned", PerProcess(set))


def connect(
    context: TlsContext, issued: Issued, host: str = "broker.test", **server: object
) -> tuple[TlsStream, Server]:
    client, peer = TlsStream(context.setup(), host), Server(server_context(issued, **server))
    exchange(client, peer)
    return client, peer


def context(**options: object) -> TlsContext:
    return TlsContext(TlsConfig.of({"ssl." + name.replace("_", "."): str(value) for name, value in options.items()}))


def rewrite(path: Path, text: str) -> None:
    """Replace a file by a new one, as a rotation does."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


# Versions and suites.


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_only_the_versions_of_the_options_are_offered(root, broker, version):
    other = {"TLSv1.2": "TLSv1.3", "TLSv1.3": "TLSv1.2"}[version]
    mine = context(truststore_certificates=root.pem, enabled_protocols=version)
    assert connect(mine, broker, version=version)[0].version == version
    with pytest.raises(TlsError, match=r"enabled\.protocols"):
        connect(mine, broker, version=other)


@pytest.mark.parametrize("suite", ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"])
def test_only_the_suites_of_the_option_are_offered(root, broker, suite):
    client, _ = connect(context(truststore_certificates=root.pem, cipher_suites=suite), broker)
    assert client.suite in (suite, "ECDHE-ECDSA-AES128-GCM-SHA256")
    assert client.version == "TLSv1.2"


def test_a_suite_of_tls_1_3_that_the_option_does_not_name_ends_the_handshake(root, broker):
    named = context(truststore_certificates=root.pem, cipher_suites="TLS_AES_256_GCM_SHA384")
    assert connect(named, broker)[0].suite == "TLS_AES_256_GCM_SHA384"  # what OpenSSL chooses
    with pytest.raises(TlsError, match=r"ssl\.cipher\.suites"):
        connect(context(truststore_certificates=root.pem, cipher_suites="TLS_AES_128_GCM_SHA256"), broker)


def test_the_client_does_not_renegotiate(root):
    assert context(truststore_certificates=root.pem).setup().context.options & ssl.OP_NO_RENEGOTIATION


# Trust.


def test_without_a_truststore_the_system_s_roots_count(root, broker):
    mine = context()
    assert mine.setup().context.cert_store_stats()["x509"] > 10
    with pytest.raises(BrokerCertificateRefused, match="system"):
        connect(mine, broker)


def test_an_intermediate_or_the_broker_s_own_certificate_may_be_the_anchor_as_in_java(root):
    intermediate = root.issue("Intermediate", ca=True)
    broker = intermediate.issue("broker", ("broker.test",))
    for anchor in (intermediate, broker):
        connect(context(truststore_certificates=anchor.pem), broker)


def test_certificates_without_key_identifiers_are_taken_as_strimzi_issues_them(root):
    connect(context(truststore_certificates=root.pem), root.issue("b", ("broker.test",), key_identifiers=False))


def test_a_common_name_counts_where_there_are_no_other_names(root):
    connect(context(truststore_certificates=root.pem), root.issue("broker.test"))


def test_without_the_check_of_names_the_chain_is_still_checked_and_a_warning_says_so(root, broker, caplog):
    off = {"endpoint_identification_algorithm": ""}
    connect(context(truststore_certificates=root.pem, **off), broker, "other.test")
    assert "ssl.endpoint.identification.algorithm" in caplog.text
    with pytest.raises(BrokerCertificateRefused):
        connect(context(truststore_certificates=authority("Other").pem, **off), broker)


def test_a_revoked_certificate_is_refused_and_others_are_not(root, broker, tmp_path):
    (tmp_path / "crl.pem").write_text(root.revocation_list(broker))
    mine = context(truststore_certificates=root.pem, crl_location=tmp_path / "crl.pem")
    connect(mine, root.issue("other", ("broker.test",)))
    with pytest.raises(BrokerCertificateRefused, match="revoked"):
        connect(mine, broker)


# The client's certificate.


@pytest.mark.parametrize("memory", [True, False])
def test_the_key_reaches_openssl_and_leaves_no_file(root, tmp_path, monkeypatch, memory):
    if not memory:
        monkeypatch.delattr(os, "memfd_create")
    modes = []
    load = ssl.SSLContext.load_cert_chain
    monkeypatch.setattr(
        ssl.SSLContext,
        "load_cert_chain",
        lambda self, path, **more: (modes.append(os.stat(path).st_mode & 0o077), load(self, path, **more))[1],
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    client = root.issue("client")
    assert context(keystore_key=client.key_pem(), keystore_certificate_chain=client.pem).setup().presents_certificate
    assert list(tmp_path.iterdir()) == []
    assert memory or modes == [0]


@pytest.mark.parametrize(
    ("password", "given", "says"),
    [
        ("right", None, r"ssl\.key\.password' is needed"),
        ("right", "marker", r"ssl\.key\.password' is wrong"),
        (None, "unused", None),
        ("right", "marker" * 1000, "cannot be used"),
    ],
)
def test_a_wrong_or_missing_password_of_a_key_is_an_error_and_never_a_question(root, password, given, says):
    client = root.issue("client")
    options = {"key_password": given} if given else {}
    mine = context(keystore_key=client.key_pem(password), keystore_certificate_chain=client.pem, **options)
    if says is None:
        mine.setup()
        return
    with pytest.raises(OptionError, match=says) as caught:
        mine.setup()
    assert not given or given not in str(caught.value)


def test_a_key_of_another_certificate_is_an_error(root):
    with pytest.raises(OptionError, match="does not belong"):
        context(keystore_key=root.issue("a").key_pem(), keystore_certificate_chain=root.issue("b").pem).setup()


# Certificates that expire.


def test_a_certificate_that_runs_out_within_14_days_is_a_warning_with_name_and_date_once(root, caplog):
    for days in (13, 15):
        client = root.issue(f"client-{days}", not_after=NOW + days * DAY)
        for _ in range(2):
            context(keystore_key=client.key_pem(), keystore_certificate_chain=client.pem).setup()
    assert caplog.text.count("CN=client-13") == 1
    assert f"{NOW + 13 * DAY:%Y-%m-%d}" in caplog.text
    assert "client-15" not in caplog.text


def test_a_broker_s_certificate_that_runs_out_within_14_days_is_a_warning_of_the_connection(root, caplog):
    for days in (10, 20):
        issued = root.issue(f"broker-{days}", ("broker.test",), not_after=NOW + days * DAY)
        stream = TlsStream(context(truststore_certificates=root.pem).setup(), "broker.test")
        server, (near, far) = Server(server_context(issued)), socket.socketpair()
        with near, far:
            near.setblocking(False)
            transport = TlsTransport(PlaintextTransport(near), stream, memoryview(bytearray(1 << 16)))
            while not transport.finish_connect():
                server.feed(far.recv(1 << 16))
                far.sendall(server.take())
    assert caplog.text.count("CN=broker-10") == 1
    assert f"{NOW + 10 * DAY:%Y-%m-%d}" in caplog.text
    assert "broker-20" not in caplog.text


def test_the_truststore_s_certificates_are_warned_of_too(caplog):
    context(truststore_certificates=authority("Old Root", not_after=NOW + DAY).pem).setup()
    assert "CN=Old Root" in caplog.text


# Files that change.


def test_the_same_files_give_the_same_context(root, tmp_path):
    (tmp_path / "ca.pem").write_text(root.pem)
    mine = context(truststore_location=tmp_path / "ca.pem")
    assert mine.setup() is mine.setup()


def test_a_changed_truststore_counts_at_the_next_connection(root, broker, tmp_path):
    (tmp_path / "ca.pem").write_text(authority("Old").pem)
    mine = context(truststore_location=tmp_path / "ca.pem")
    with pytest.raises(BrokerCertificateRefused):
        connect(mine, broker)
    rewrite(tmp_path / "ca.pem", root.pem)
    connect(mine, broker)


def test_a_new_client_certificate_is_shown_at_the_next_connection(root, broker, tmp_path):
    path = tmp_path / "client.pem"
    mine = context(truststore_certificates=root.pem, keystore_location=path)
    for name in ("client-1", "client-2"):
        client = root.issue(name)
        rewrite(path, client.chain_pem + client.key_pem())
        _, server = connect(mine, broker, clients_of=root)
        assert server.tls.getpeercert()["subject"] == ((("commonName", name),),)


def test_half_written_files_leave_the_old_context_with_one_warning_and_the_whole_ones_count(
    root, broker, tmp_path, caplog
):
    path = tmp_path / "client.pem"
    old, new = root.issue("client-1"), root.issue("client-2")
    path.write_text(old.chain_pem + old.key_pem())
    mine = context(truststore_certificates=root.pem, keystore_location=path)
    before = mine.setup()
    text = new.chain_pem + new.key_pem()
    for cut in (0, 100, len(new.chain_pem), len(text) - 30):
        path.write_text(text[:cut])
        assert mine.setup() is before
        assert mine.setup() is before
    path.unlink()
    assert mine.setup() is before
    assert caplog.text.count("cannot be used") == 5
    path.write_text(text)
    assert mine.setup() is not before


def test_a_certificate_whose_key_is_not_there_yet_leaves_the_old_pair(root, tmp_path):
    old, new = root.issue("client-1"), root.issue("client-2")
    key, chain = tmp_path / "key.pem", tmp_path / "chain.pem"
    key.write_text(old.key_pem())
    chain.write_text(old.chain_pem)
    mine = context(key_location=key, certificate_location=chain)
    before = mine.setup()
    rewrite(chain, new.chain_pem)
    assert mine.setup() is before
    rewrite(key, new.key_pem())
    assert mine.setup() is not before


def test_a_file_added_to_a_folder_of_authorities_counts(root, broker, tmp_path):
    (tmp_path / "old.pem").write_text(authority("Old").pem)
    mine = context(truststore_location=tmp_path)
    mine.setup()
    (tmp_path / "new.pem").write_text(root.pem)
    connect(mine, broker)


def test_files_that_cannot_be_used_at_the_start_are_an_error_and_are_tried_again(root, broker, tmp_path):
    mine = context(truststore_location=tmp_path / "ca.pem")
    with pytest.raises(OptionError):
        mine.setup()
    (tmp_path / "ca.pem").write_text(root.pem)
    connect(mine, broker)


# One for a process.


def test_a_process_has_one_context_for_a_configuration(root):
    config = TlsConfig.of({"ssl.truststore.certificates": root.pem})
    setups = []
    threads = [threading.Thread(target=lambda: setups.append(context_of(config).setup())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(setup) for setup in setups}) == 1
    assert context_of(TlsConfig.of({"ssl.truststore.certificates": authority("Other").pem})).setup() is not setups[0]


def test_a_fork_leaves_its_parent_s_session_intact(root, broker):
    client, server = connect(context(truststore_certificates=root.pem), broker)
    pid = os.fork()
    if pid == 0:  # the child goes on with its copy, and ends without a word to the broker
        client.write([b"of the child"])
        os._exit(0)
    os.waitpid(pid, 0)
    client.write([b"of the parent"])
    server.feed(take(client))
    assert bytes(server.received) == b"of the parent"
    server.write(b"answer")
    client.feed(server.take())
    assert read_all(client) == b"answer"
