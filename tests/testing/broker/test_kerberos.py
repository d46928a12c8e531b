"""GSSAPI listeners with a real KDC: Kafka's own clients get in with a keytab, and not as somebody else."""

from pathlib import Path

import pytest
from java_programs import ask_java
from kdc import Kdc

from kafkasource.testing.broker import Broker, Kerberos, Listener, Security
from kafkasource.testing.broker.properties import render

pytestmark = [pytest.mark.broker, pytest.mark.extended]

WRITE = Path(__file__).parent / "KafkaWrite.java"


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory):
    with Kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        yield Kerberos(
            krb5_conf=kdc.krb5_conf,
            keytab=kdc.keytab("kafka/localhost"),
            client_keytab=kdc.keytab("alice"),
            client_principal="alice@TEST",
        )


@pytest.mark.parametrize(
    ("version", "protocol"),
    [
        ("4.3.1", "SASL_SSL"),
        ("3.9.2", "SASL_PLAINTEXT"),
        ("0.11.0.3", "SASL_PLAINTEXT"),
        ("0.9.0.1", "SASL_PLAINTEXT"),
    ],
)
def test_a_listener_lets_in_who_has_a_ticket(kerberos, tmp_path, monkeypatch, version, protocol):
    with Broker(version, security=Security((Listener(protocol, ("GSSAPI",)),), kerberos=kerberos)) as broker:
        told = broker.client_properties()
        stranger = {"sasl.jaas.config": told["sasl.jaas.config"].replace("alice@TEST", "mallory@TEST")}
        for name, properties in (("alice", told), ("mallory", told | stranger)):
            (tmp_path / name).write_text(render(properties))
            section = "KafkaClient {\n" + properties["sasl.jaas.config"] + "\n};\n"  # before 0.10.2 in a file only
            (tmp_path / f"{name}.jaas").write_text(section)
        answers = []
        for name in ("alice", "mallory"):
            flags = f"-Djava.security.krb5.conf={kerberos.krb5_conf}"
            monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{flags} -Djava.security.auth.login.config={tmp_path / name}.jaas")
            answers += ask_java(WRITE, [("t", tmp_path / name)], version)
            monkeypatch.delenv("JAVA_TOOL_OPTIONS")
    assert answers == ["0", "error LoginException"]
