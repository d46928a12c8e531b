"""Findings of `pykafka doctor` about a real secured Kafka: ways in, certificates, mechanisms, permissions, failures."""

import json
import socket
import ssl
import uuid

import pytest
from cryptography import x509
from secured_brokers import SESSION_MS, USERS, WITH_PASSWORD

from kafkasource.kafka import ClientConfig, Cluster
from kafkasource.testing.broker import Acl
from kafkasource.testing.broker.properties import render
from kafkasource.testing.broker.security.certificates import Authority
from kafkasource.tools.cli import main

pytestmark = pytest.mark.broker


@pytest.fixture
def doctor(tmp_path, capsys, monkeypatch):
    """Run it with these options of a client: the lines of the cluster, and all that was printed."""
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setattr(
        "kafkasource.tools.cli.doctor.machine_findings", lambda _job: iter(())
    )  # test_doctor_findings has it

    def run(properties, *words):
        path = tmp_path / "client.properties"
        path.write_text(render(properties))
        code = main(["doctor", "--json", "--command-config", str(path), *words])
        out, err = capsys.readouterr()
        findings = json.loads(out)
        assert (code == 1) == any(finding["level"] == "FAILED" for finding in findings)
        assert all(finding["remedy"] for finding in findings if finding["level"] == "FAILED")
        assert not any(password in out + err for password in USERS.values())
        return [(finding["level"], finding["what"], finding["found"]) for finding in findings]

    return run


def of(lines, what):
    """Level and text of the findings with this name."""
    texts = [(level, text) for level, name, text in lines if name == what]
    assert texts, lines
    return texts


def test_a_way_in_is_shown_by_stages_with_the_certificate_and_the_mechanisms(secured_broker, doctor):
    secured = secured_broker.secured
    lines = doctor(secured.client_properties("SASL_SSL", "SCRAM-SHA-512", "bob"))
    assert {level for level, _, _ in lines} == {"ok"}
    (login,) = of(lines, "user")
    assert "User:bob" in login[1]
    host, port = secured.bootstrap_servers("SASL_SSL").split(":")
    shown = [text for _, text in of(lines, "broker 1 TLS")]
    assert all(text.startswith(f"{socket.gethostbyname(host)}:{port}: ") for text in shown)
    assert "TLSv1.3, TLS_" in shown[0]
    theirs = x509.load_pem_x509_certificate(ssl.get_server_certificate((host, int(port))).encode())
    for expected in (
        theirs.subject.rfc4514_string(),
        theirs.issuer.rfc4514_string(),
        f"{theirs.not_valid_after_utc:%Y-%m-%d %H:%M}",
        "localhost, IP 127.0.0.1",
        "days left",
    ):
        assert expected in shown[1]
    offered, logged_in = of(lines, "broker 1 SASL")
    assert set(offered[1].partition("offers ")[2].split(", ")) == {*WITH_PASSWORD, "OAUTHBEARER"}
    assert "the session has no end" in logged_in[1]


def test_the_end_of_a_session_is_shown(secured_broker, doctor):
    lines = doctor(secured_broker.secured.client_properties("REAUTH", "PLAIN"))
    assert f"ends after {SESSION_MS // 1000} s" in of(lines, "broker 1 SASL")[-1][1]


def test_a_client_certificate_is_shown_with_the_name_that_brokers_see(secured_broker, doctor):
    lines = doctor(secured_broker.secured.client_properties("MTLS", user="alice"))
    (own,) = of(lines, "own certificate")
    assert own[1].startswith("the key matches; 'CN=alice'")
    assert of(lines, "user")[0][1].startswith("SSL: User:CN=alice ")


def without_jaas(properties, **more):
    return {name: text for name, text in properties.items() if name != "sasl.jaas.config"} | more


def other_authority(secured, tmp_path):
    path = tmp_path / "other.pem"
    path.write_text(Authority().pem)
    return secured.client_properties("SSL") | {"ssl.truststore.location": str(path)}


CASES = {
    "TCP": lambda secured, _: {"bootstrap.servers": "127.0.0.1:1"},
    "DNS": lambda secured, _: {"bootstrap.servers": "no-such-host.invalid:9092"},
    "TLS": other_authority,
    "SASL": lambda secured, _: without_jaas(
        secured.client_properties("SASL_SSL", "PLAIN"), **{"sasl.username": "alice", "sasl.password": "hunter2"}
    ),
}


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ("DNS", "cannot resolve the name 'no-such-host.invalid'"),
        ("TCP", "127.0.0.1:1: Connection refused"),
        ("TLS", "is not trusted"),
        ("SASL", "refuses the credentials (PLAIN)"),
    ],
)
def test_the_stage_that_failed_is_named(stage, said, secured_broker, doctor, tmp_path):
    properties = CASES[stage](secured_broker.secured, tmp_path)
    lines = doctor(properties)
    (failed,) = [line for line in of(lines, f"bootstrap {stage}") if line[0] == "FAILED"]
    assert said in failed[1]
    assert "hunter2" not in str(lines)


def test_a_client_without_sasl_learns_what_the_listener_wants(secured_broker, doctor):
    servers = {"bootstrap.servers": secured_broker.secured.bootstrap_servers("SASL_PLAINTEXT")}
    ((level, text),) = [line for line in of(doctor(servers), "bootstrap SASL") if line[0] != "ok"]
    assert level == "FAILED"
    assert "the listener requires SASL" in text
    assert "'kafka.security.protocol' to SASL_PLAINTEXT" in text


@pytest.fixture
def topic(each_secured_broker):
    name = f"doctor-{uuid.uuid4().hex[:8]}"
    with Cluster(ClientConfig.of(each_secured_broker.secured.bootstrap_servers("PLAINTEXT"))) as cluster:
        cluster.topics.create([name], partitions=1)
        yield name
        cluster.topics.delete([name])


def test_what_the_user_may_do_with_a_jobs_topics_and_groups_is_shown(each_secured_broker, doctor, topic):
    secured = each_secured_broker.secured
    # A resource that no ACL names is everybody's: bob's own rights exist only where the ACL says so.
    acls = [
        Acl("bob", "read", "topic", topic),
        Acl("alice", "read", "group", f"{topic}-alices"),
        Acl("bob", "read", "group", f"{topic}-bobs"),
        Acl("alice", "write", "transactional_id", f"{topic}-alices", pattern="prefixed"),
        Acl("alice", "write", "topic", f"{topic}-hidden"),
    ]
    bob = secured.client_properties("SASL_SSL", "PLAIN", "bob")
    words = ("-t", topic, "-t", f"{topic}-hidden", "-g", f"{topic}-bobs", "-g", f"{topic}-alices", "--exactly-once")
    with Cluster(ClientConfig.of(secured.bootstrap_servers("PLAINTEXT"))) as cluster:
        before = cluster.transactions.list("")
        secured.create_acls(*acls)
        try:
            refused, allowed = doctor(bob, *words, f"{topic}-alices"), doctor(bob, *words, f"{topic}-bobs")
        finally:
            secured.delete_acls(*acls)
        assert cluster.transactions.list("") == before
    ((level, text),) = of(refused, f"topic {topic}")
    assert (level, text) == ("ok", "allowed: describe, read")
    assert of(refused, f"topic {topic}-hidden")[0][0] == "FAILED"
    assert of(refused, f"group {topic}-bobs") == [("ok", "allowed: describe, read")]
    assert of(refused, f"group {topic}-alices")[0][0] == "FAILED"
    assert [level for level, _ in of(refused, "transactional id")] == ["FAILED", "FAILED"]
    assert of(allowed, "transactional id") == [
        ("ok", f"{topic}-bobs-{name}: writing allowed") for name in ("driver", "0")
    ]
    assert of(allowed, "on the cluster")[0][1].startswith("allowed: ")
