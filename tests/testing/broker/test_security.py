"""The configuration of a secured broker, and settings that are refused before it starts; without a broker."""

import base64
import hashlib
import hmac
import json
import ssl
import subprocess

import pytest
from cryptography import x509

from kafkasource.errors import OptionError
from kafkasource.testing.broker import Acl, Broker, Kerberos, Listener, Security
from kafkasource.testing.broker.jvm.home import find_java
from kafkasource.testing.broker.properties import NodePorts
from kafkasource.testing.broker.security.certificates import Authority, truststore
from kafkasource.testing.broker.security.secured import SecuredCluster
from kafkasource.tools.cli import main

USERS = {"alice": "alice-secret"}
PORTS = [NodePorts(client=9092, controller=9093, advertised=9192, plaintext=9094, further=(9095,))]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"security": "TLS"}, "expected one of SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security": "SASL_SSL"}, "needs at least one mechanism"),
        ({"security": "SSL", "mechanisms": ["PLAIN"], "users": USERS}, "use SASL_SSL"),
        ({"security": "SASL_SSL", "mechanisms": ["PLAIN"]}, "PLAIN needs a user with a password"),
        ({"security": "SASL_SSL", "mechanisms": ["SCRAM"], "users": USERS}, "SCRAM-SHA-256"),
        ({"security": "SASL_SSL", "mechanisms": ["PLAIN"], "users": {"a b": "x"}}, "'a b' must be letters"),
        ({"security": "SASL_PLAINTEXT", "mechanisms": ["GSSAPI"]}, "Kerberos"),
        ({"security": "SASL_PLAINTEXT", "mechanisms": ["OAUTHBEARER"], "client_auth": "required"}, "has no TLS"),
        ({"security": "SSL", "client_auth": "yes"}, "none, requested, required"),
        ({"security": "SSL", "acls": [Acl("alice", "read", "topic")]}, "every client is ANONYMOUS"),
        ({"mechanisms": ["PLAIN"]}, "go with security="),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(settings, said):
    with pytest.raises(OptionError, match=said):
        Broker(**settings)


@pytest.mark.parametrize(
    ("version", "settings", "said"),
    [
        ("0.8.2.2", {"security": "SSL"}, "0.8.2.2 has no SSL, which came with 0.9"),
        ("0.9.0.1", {"security": "SASL_SSL", "mechanisms": ["PLAIN"], "users": USERS}, "PLAIN, which came with 0.10"),
        (
            "0.10.1.1",
            {"security": "SASL_SSL", "mechanisms": ["SCRAM-SHA-256"], "users": USERS},
            "SCRAM-SHA-256, which came with 0.10.2",
        ),
        ("0.11.0.3", {"security": "SASL_SSL", "mechanisms": ["OAUTHBEARER"]}, "OAUTHBEARER, which came with 2.0"),
        ("0.10.2.2", {"security": "SSL", "acls": []}, "ACLs by CreateAcls, which came with 0.11"),
        ("0.11.0.3", {"security": Security((Listener("SSL"), Listener("SSL", name="B")))}, "several secured listeners"),
    ],
)
def test_what_a_release_lacks_is_named_with_the_release_that_brought_it(version, settings, said):
    with pytest.raises(OptionError, match=said):
        Broker(version, **settings)


def test_an_acl_of_no_known_operation_is_refused():
    with pytest.raises(OptionError, match=r"'reed' is not one of all, read"):
        Acl("alice", "reed", "topic")


def test_passwords_are_in_no_repr():
    security = Security.of("SASL_SSL", ["PLAIN"], USERS)
    assert "alice-secret" not in repr(security)


def test_files_that_hold_secrets_are_their_owners_alone(tmp_path):
    security = Security((Listener("SASL_SSL", ("PLAIN",), client_auth="required"), Listener("SSL")), USERS)
    secured = SecuredCluster(security, tmp_path, PORTS)
    assert secured.client_properties_file.stat().st_mode & 0o777 == 0o600
    assert secured.client_keystore("alice").stat().st_mode & 0o777 == 0o600
    assert secured.ca.parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_with_files_of_others_is_refused_and_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    (tmp_path / "security").mkdir()
    files = {tmp_path / "security" / "ca.key": "theirs", tmp_path / "client.properties": "bootstrap.servers=production"}
    for file, text in files.items():
        file.write_text(text)
    security = Security.of("SASL_PLAINTEXT", ["PLAIN"], USERS)
    with pytest.raises(OptionError, match="choose an empty folder"):
        Broker(log_dir=tmp_path, security=security).start()
    assert {file: file.read_text() for file in tmp_path.rglob("*") if file.is_file()} == files


def test_a_kept_folder_gets_client_certificates_of_its_new_ca(tmp_path):
    security = Security((Listener("SSL", client_auth="required"),))
    ports = [NodePorts(client=9092, controller=9093, advertised=9092, plaintext=9094)]
    SecuredCluster(security, tmp_path, ports).client_keystore("alice")
    again = SecuredCluster(security, tmp_path, ports)
    (certificate,) = x509.load_pem_x509_certificates(again.client_keystore("alice").read_bytes())
    certificate.verify_directly_issued_by(again.authority.certificate)  # raises otherwise


def test_clients_are_told_the_advertised_address_and_nodes_have_one_of_their_own(tmp_path):
    security = Security((Listener("SASL_SSL", ("PLAIN",)), Listener("SSL")), USERS)
    secured = SecuredCluster(security, tmp_path, PORTS)
    properties = secured.server_properties(PORTS[0], (4, 3, 1))
    assert secured.bootstrap_servers() == "127.0.0.1:9192"
    assert secured.bootstrap_servers("ssl") == "127.0.0.1:9095"
    assert secured.bootstrap_servers("PLAINTEXT") == "127.0.0.1:9094"
    assert properties["inter.broker.listener.name"] == "PLAINTEXT"
    assert properties["advertised.listeners"] == (
        "PLAINTEXT://127.0.0.1:9094,SASL_SSL://127.0.0.1:9192,SSL://127.0.0.1:9095"
    )


def test_scram_credentials_are_those_of_rfc_7677(tmp_path):
    """The server key of RFC 7677's own example follows from its salted password; ours is made in the same way."""
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    nonces = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    message = f"n=user,r=rOprNGfwEbeRWgbNEkqO,{nonces},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,{nonces}"
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    assert hmac.digest(server_key, message.encode(), "sha256") == base64.b64decode(
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )
    security = Security.of("SASL_PLAINTEXT", ["SCRAM-SHA-256"], {"user": "pencil"})
    (credential,) = SecuredCluster(security, tmp_path, PORTS).scram_credentials()
    assert "pencil" not in credential  # ps shows the command that formats
    fields = dict(field.split("=", 1) for field in credential.partition("[")[2].rstrip("]").split(","))
    salt = base64.b64decode(fields["salt"].strip('"'))
    expected = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, int(fields["iterations"]))
    assert base64.b64decode(fields["saltedpassword"].strip('"')) == expected


def test_a_kerberos_listener_advertises_a_host_name(tmp_path):
    kerberos = Kerberos(tmp_path / "krb5.conf", tmp_path / "kafka.keytab")
    security = Security((Listener("SASL_PLAINTEXT", ("GSSAPI",)),), kerberos=kerberos)
    assert SecuredCluster(security, tmp_path, PORTS).bootstrap_servers() == "localhost:9192"


def verified(certificate, authority, name, tmp_path):
    """OpenSSL's verdict on a server with this certificate: None, or its words for the fault."""
    (tmp_path / "server.pem").write_text(certificate.key_pem() + certificate.certificate_pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "server.pem")
    client = ssl.create_default_context(cadata=authority.pem)
    ends = [[ssl.MemoryBIO(), ssl.MemoryBIO()], None]
    ends[1] = ends[0][::-1]
    sides = [client.wrap_bio(*ends[0], server_hostname=name), server.wrap_bio(*ends[1], server_side=True)]
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
    return None


def test_certificates_have_the_faults_that_they_are_made_with(tmp_path):
    authority = Authority()
    assert verified(authority.issue("kafka"), authority, "localhost", tmp_path) is None
    assert verified(authority.issue("kafka"), authority, "127.0.0.1", tmp_path) is None
    assert verified(authority.intermediate().issue("kafka"), authority, "localhost", tmp_path) is None
    assert "expired" in verified(authority.expired(), authority, "localhost", tmp_path)
    assert "mismatch" in verified(authority.issue("kafka", ["kafka.example"]), authority, "localhost", tmp_path)
    assert "unable to get local issuer" in verified(
        Authority("another").issue("kafka"), authority, "localhost", tmp_path
    )


def test_java_reads_the_truststore_and_the_keystore(tmp_path):
    authority = Authority()
    keytool = find_java().resolve().parent / "keytool"
    (tmp_path / "trust.p12").write_bytes(truststore([authority], "changeit"))
    (tmp_path / "key.p12").write_bytes(authority.issue("kafka").pkcs12("changeit"))
    for name, entry in (("trust", "trustedCertEntry"), ("key", "PrivateKeyEntry")):
        listing = [keytool, "-list", "-keystore", tmp_path / f"{name}.p12", "-storepass", "changeit"]
        assert entry in subprocess.run(listing, capture_output=True, text=True, check=True).stdout


def test_the_public_key_of_tokens_is_a_jwks(tmp_path):
    security = Security((Listener("SASL_PLAINTEXT", ("OAUTHBEARER",), signed_tokens=True),))
    secured = SecuredCluster(security, tmp_path, PORTS)
    header = json.loads(base64.urlsafe_b64decode(secured.tokens.token("alice").split(".")[0] + "=="))
    (key,) = json.loads(secured.tokens.jwks())["keys"]
    assert (key["kid"], key["alg"]) == (header["kid"], header["alg"])


def test_a_command_with_a_mechanism_but_no_protocol_is_refused(capsys):
    assert main(["broker", "start", "--mechanism", "PLAIN"]) != 0
    assert "--security" in capsys.readouterr().err
