"""Truststores and keystores: made by Java's keytool and by `cryptography`, read by us."""

from __future__ import annotations

import base64
import platform
import sys
from pathlib import Path

import pytest
from certificate_maker import Issued, authority, java_keystore, java_truststore, keytool
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from kafkasource.errors import OptionError
from kafkasource.kafka.security.tls import jks, pem
from kafkasource.kafka.security.tls.config import TlsConfig
from kafkasource.kafka.security.tls.store_files import StoreFiles
from kafkasource.kafka.security.tls.stores import ClientIdentity, client_identity, trusted_certificates

STORE, KEY = "storesecret", "keysecret"


@pytest.fixture(scope="module")
def root() -> Issued:
    return authority()


@pytest.fixture(scope="module")
def client(root: Issued) -> Issued:
    """A client's certificate, issued by an intermediate authority."""
    return root.issue("Test Intermediate", ca=True).issue("client-1")


@pytest.fixture(scope="module")
def stores(tmp_path_factory, root: Issued, client: Issued) -> Path:
    """A truststore and a keystore of each type, made by keytool."""
    folder = tmp_path_factory.mktemp("stores")
    other = authority("Other Root")
    for kind in ("JKS", "PKCS12"):
        java_truststore(folder / f"trust.{kind}", kind, STORE, root, other)
    java_keystore(folder / "client.JKS", "JKS", STORE, KEY, client)
    java_keystore(folder / "client.PKCS12", "PKCS12", STORE, STORE, client)
    return folder


def trusted(**options: object) -> tuple[bytes, ...] | None:
    return trusted_certificates(config(options), StoreFiles())


def identity(**options: object) -> ClientIdentity:
    return client_identity(config(options), StoreFiles())


def config(options: dict[str, object]) -> TlsConfig:
    return TlsConfig.of({"ssl." + name.replace("_", "."): str(value) for name, value in options.items()})


def private_numbers(pem: str, password: str | None = None) -> int:
    key = load_pem_private_key(pem.encode(), password.encode() if password else None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key.private_numbers().private_value


# Truststores.


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_truststore_of_keytool_s_gives_the_certificates_that_were_put_in(stores, root, kind):
    loaded = trusted(truststore_location=stores / f"trust.{kind}", truststore_password=STORE)
    assert root.der in loaded
    assert len(loaded) == 2


def test_the_content_of_a_store_counts_not_its_name_or_java_s_default_type(stores, root, tmp_path):
    misnamed = tmp_path / "truststore.jks"
    misnamed.write_bytes((stores / "trust.PKCS12").read_bytes())
    assert root.der in trusted(truststore_location=misnamed, truststore_password=STORE, truststore_type="JKS")


def test_a_jks_truststore_without_its_password_is_read_as_by_java(stores, root):
    assert root.der in trusted(truststore_location=stores / "trust.JKS")


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_wrong_password_of_a_store_is_an_error_that_names_its_option_and_not_the_password(stores, kind, store):
    file = stores / f"{'trust' if store == 'truststore' else 'client'}.{kind}"
    read = trusted if store == "truststore" else identity
    with pytest.raises(OptionError) as caught:
        read(**{f"{store}_location": file, f"{store}_password": "wrong-password"})
    assert f"kafka.ssl.{store}.password" in str(caught.value)
    assert str(file) in str(caught.value)
    assert "wrong-password" not in str(caught.value)


def test_a_jks_cut_at_any_byte_is_an_error_of_ours_with_and_without_password(stores):
    data = (stores / "client.JKS").read_bytes()
    for cut in range(len(data)):
        for password in (STORE, None):
            with pytest.raises((jks.MalformedJks, jks.WrongPassword)):
                jks.read_jks(data[:cut], password)


def test_a_jks_with_any_changed_byte_is_refused_where_a_password_proves_it(stores):
    data = (stores / "trust.JKS").read_bytes()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x41
        with pytest.raises((jks.MalformedJks, jks.WrongPassword)):
            jks.read_jks(bytes(changed), STORE)


def test_pem_truststores_hold_any_number_of_certificates_with_comments_between(root, tmp_path):
    other = authority("Other")
    (tmp_path / "ca.pem").write_text(f"# root\nsubject=/CN=x\n{root.pem}\n\nand\n{other.pem}")
    assert trusted(truststore_location=tmp_path / "ca.pem") == (root.der, other.der)


def test_a_folder_of_certificates_gives_all_of_them_once(root, tmp_path):
    (tmp_path / "a.pem").write_text(root.pem)
    (tmp_path / "5ad8a5d6.0").symlink_to(tmp_path / "a.pem")
    (tmp_path / "README").write_text("nothing")
    other = authority("Other")
    (tmp_path / "b.crt").write_text(other.pem)
    assert set(trusted(ca_location=tmp_path)) == {root.der, other.der}


def test_one_bare_certificate_is_a_truststore(root, tmp_path):
    (tmp_path / "ca.der").write_bytes(root.der)
    assert trusted(truststore_location=tmp_path / "ca.der") == (root.der,)


@pytest.mark.parametrize("lost", ["\\n", "\\r\\n", " ", "", "\r\n", "\n\n  "])
def test_pem_text_that_lost_its_line_ends_is_read(root, client, lost):
    def without(text: str) -> str:
        return text.strip().replace("\n", lost)

    assert trusted(truststore_certificates=without(root.pem + root.pem)) == (root.der,)
    loaded = identity(keystore_key=without(client.key_pem()), keystore_certificate_chain=without(client.chain_pem))
    assert loaded.chain[0] == client.der
    assert len(loaded.chain) == 2
    assert private_numbers(loaded.key.reveal()) == client.key.private_numbers().private_value


@pytest.mark.parametrize("damage", ["end", "begin", "base64", "nothing", "body"])
def test_damaged_pem_text_is_an_error_that_does_not_quote_it(client, damage):
    text = client.key_pem()
    body = text.splitlines()[1]
    damaged = {
        "end": text.rpartition("-----END")[0],
        "begin": text.partition("\n")[2],
        "base64": text.replace(body, body[:-1] + "!"),
        "nothing": "kafka",
        "body": text.splitlines()[0] + "\n" + text.splitlines()[-1],
    }[damage]
    with pytest.raises(OptionError, match=r"ssl\.keystore\.key") as caught:
        identity(keystore_key=damaged, keystore_certificate_chain=client.chain_pem)
    assert body[:20] not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"hello", "neither PEM nor PKCS12 nor JKS"),
        (bytes.fromhex("cececece00000002"), "keytool -importkeystore"),
        (b"-----BEGIN CERTIFICATE-----\n", "not a complete PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "holds no certificate"),
        (bytes.fromhex("feedfeed"), "not a complete JKS"),
        (bytes.fromhex("3082ffff020103"), "PKCS12"),
        (bytes.fromhex("30030201033003020103"), "PKCS12"),
    ],
)
def test_a_truststore_that_is_none_is_an_error_with_its_path(tmp_path, content, says):
    (tmp_path / "store").write_bytes(content)
    with pytest.raises(OptionError, match=says) as caught:
        trusted(truststore_location=tmp_path / "store")
    assert str(tmp_path / "store") in str(caught.value) or says == "holds no certificate"


# The expected certificates come from Java's TrustManagerFactory (PKIX, Java 17): getAcceptedIssuers().


def test_of_a_pkcs12_truststore_with_a_key_the_keys_own_certificate_is_trusted_and_no_other_of_its_chain(tmp_path):
    """Java: the leaf alone. Another certificate of that authority is an impostor's."""
    broker = authority("Public CA").issue("Issuing CA", ca=True).issue("broker-1")
    root = authority("Public CA").certificate
    everything = [*broker.issuers, root]
    encryption = BestAvailableEncryption(STORE.encode())
    data = pkcs12.serialize_key_and_certificates(b"broker", broker.key, broker.certificate, everything, encryption)
    (tmp_path / "pinned.p12").write_bytes(data)
    assert trusted(truststore_location=tmp_path / "pinned.p12", truststore_password=STORE) == (broker.der,)


def test_what_is_in_a_pkcs12_truststore_for_itself_is_trusted_beside_a_key(tmp_path):
    """Java: [CN=broker-1], [CN=Other Root]; and [CN=Test Root], too, once keytool imports it."""
    root, other = authority(), authority("Other Root")
    broker = root.issue("broker-1")
    chain = Issued(broker.certificate, broker.key, (root.certificate,))
    store = java_keystore(tmp_path / "mixed.p12", "PKCS12", STORE, STORE, chain)
    java_truststore(store, "PKCS12", STORE, other)
    assert set(trusted(truststore_location=store, truststore_password=STORE)) == {broker.der, other.der}
    (tmp_path / "root.crt").write_text(root.pem)
    named = ("-alias", "caroot", "-keystore", store, "-storepass", STORE)
    keytool("-importcert", "-file", tmp_path / "root.crt", *named)
    loaded = set(trusted(truststore_location=store, truststore_password=STORE))
    assert loaded == {broker.der, other.der, root.der}


def test_of_a_pkcs12_truststore_with_two_keys_no_authority_of_either_is_trusted(tmp_path):
    """Java: the two leaves."""
    root = authority()
    store, leaves = tmp_path / "two.p12", []
    for alias in ("alice", "bob"):
        leaf = root.issue(alias)
        leaves.append(leaf.der)
        _add_key(store, alias, Issued(leaf.certificate, leaf.key, (root.certificate,)))
    assert set(trusted(truststore_location=store, truststore_password=STORE)) == set(leaves)


@pytest.mark.parametrize("encryption", [BestAvailableEncryption(STORE.encode()), NoEncryption()], ids=["best", "none"])
def test_a_pkcs12_truststore_without_a_key_is_trusted_as_a_whole(root, tmp_path, encryption):
    issuer = root.issue("Test Intermediate", ca=True)
    certificates = [issuer.certificate, root.certificate]
    data = pkcs12.serialize_key_and_certificates(None, None, None, certificates, encryption)
    (tmp_path / "trust.p12").write_bytes(data)
    password = {} if isinstance(encryption, NoEncryption) else {"truststore_password": STORE}
    assert set(trusted(truststore_location=tmp_path / "trust.p12", **password)) == {issuer.der, root.der}


def _add_key(store: Path, alias: str, issued: Issued) -> None:
    """Into a PKCS12 store, by keytool."""
    source = store.with_suffix(".source")
    source.write_bytes(issued.pkcs12(STORE))
    keytool(
        *("-importkeystore", "-srckeystore", source, "-srcstoretype", "PKCS12", "-srcstorepass", STORE),
        *("-srcalias", "client", "-destalias", alias),
        *("-destkeystore", store, "-deststoretype", "PKCS12", "-deststorepass", STORE),
    )


# Keystores.


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_keystore_of_keytool_s_gives_key_and_chain(stores, client, kind):
    key_password = KEY if kind == "JKS" else STORE
    loaded = identity(keystore_location=stores / f"client.{kind}", keystore_password=STORE, key_password=key_password)
    assert loaded.chain == (client.der, client.issuers[0].public_bytes(Encoding.DER))
    assert private_numbers(loaded.key.reveal()) == client.key.private_numbers().private_value


def test_a_key_of_a_jks_with_a_wrong_password_names_the_option(stores):
    with pytest.raises(OptionError, match=r"ssl\.key\.password"):
        identity(keystore_location=stores / "client.JKS", keystore_password=STORE)


@pytest.mark.parametrize(
    "encryption",
    [
        PrivateFormat.PKCS12.encryption_builder().key_cert_algorithm(algorithm).build(STORE.encode())
        for algorithm in (pkcs12.PBES.PBESv1SHA1And3KeyTripleDESCBC, pkcs12.PBES.PBESv2SHA256AndAES256CBC)
    ]
    + [BestAvailableEncryption(STORE.encode()), NoEncryption()],
    ids=["3DES", "AES", "best", "none"],
)
def test_pkcs12_of_old_and_new_encryption_is_read(client, tmp_path, encryption):
    issuers = [*client.issuers, authority("Unrelated").certificate]
    data = pkcs12.serialize_key_and_certificates(b"client", client.key, client.certificate, issuers, encryption)
    (tmp_path / "client.p12").write_bytes(data)
    password = {} if isinstance(encryption, NoEncryption) else {"keystore_password": STORE}
    loaded = identity(keystore_location=tmp_path / "client.p12", **password)
    assert loaded.chain == (client.der, client.issuers[0].public_bytes(Encoding.DER))
    assert private_numbers(loaded.key.reveal()) == client.key.private_numbers().private_value


def test_without_cryptography_a_pkcs12_store_is_an_error_that_names_the_extra(stores, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization.pkcs12", None)
    for read, options in (
        (trusted, {"truststore_location": stores / "trust.PKCS12"}),
        (identity, {"keystore_location": stores / "client.PKCS12", "keystore_password": STORE}),
    ):
        with pytest.raises(OptionError, match=r"kafkasource\[tls\]"):
            read(**options)


def test_pem_and_jks_need_no_cryptography(stores, root, client, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert trusted(truststore_location=stores / "trust.JKS", truststore_password=STORE)
    (tmp_path / "client.pem").write_text(client.chain_pem)
    assert identity(keystore_location=stores / "client.JKS", keystore_password=STORE, key_password=KEY).chain


def test_a_pem_keystore_holds_key_and_chain_in_any_order(client, tmp_path):
    for text in (client.key_pem() + client.chain_pem, client.chain_pem + client.key_pem()):
        (tmp_path / "client.pem").write_text(text)
        loaded = identity(keystore_location=tmp_path / "client.pem")
        assert loaded.chain[0] == client.der
        assert private_numbers(loaded.key.reveal()) == client.key.private_numbers().private_value


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
@pytest.mark.parametrize("lost", ["\n", " ", "\\n"])
def test_an_encrypted_pem_key_stays_encrypted_and_keeps_its_password(client, tmp_path, form, lost):
    text = client.key_pem(KEY, form).strip().replace("\n", lost)
    (tmp_path / "key.pem").write_text(text)
    (tmp_path / "chain.pem").write_text(client.chain_pem)
    loaded = identity(key_location=tmp_path / "key.pem", certificate_location=tmp_path / "chain.pem", key_password=KEY)
    assert private_numbers(loaded.key.reveal(), KEY) == client.key.private_numbers().private_value
    assert loaded.password.reveal() == KEY


@pytest.mark.parametrize("cipher", ["DES-EDE3-CBC,0011223344556677", "AES-256-CBC,00112233445566778899AABBCCDDEEFF"])
def test_the_header_of_an_old_encrypted_key_is_kept_where_line_ends_are_lost(cipher):
    text = pem.PemBlock("RSA PRIVATE KEY", bytes(range(100)), cipher).text
    assert [block.text for block in pem.blocks(text.replace("\n", " "))] == [text]


@pytest.mark.parametrize("count", [0, 2])
def test_a_keystore_without_exactly_one_key_is_an_error(client, tmp_path, count):
    (tmp_path / "client.pem").write_text(client.chain_pem + client.key_pem() * count)
    with pytest.raises(OptionError, match=f"holds {count} private keys"):
        identity(keystore_location=tmp_path / "client.pem")


def test_a_pkcs12_keystore_with_two_keys_is_an_error(client, root, tmp_path):
    store = tmp_path / "two.p12"
    _add_key(store, "alice", client)
    _add_key(store, "bob", root.issue("bob"))
    with pytest.raises(OptionError, match="holds 2 private keys"):
        identity(keystore_location=store, keystore_password=STORE)


def test_a_truststore_given_as_keystore_says_that_it_has_no_key(stores):
    for kind, says in (("JKS", "0 private keys"), ("PKCS12", "no private key")):
        with pytest.raises(OptionError, match=says):
            identity(keystore_location=stores / f"trust.{kind}", keystore_password=STORE)


def test_a_declared_type_that_the_file_is_not_is_an_error(stores, root, tmp_path):
    (tmp_path / "ca.pem").write_text(root.pem)
    for path, kind in ((tmp_path / "ca.pem", "JKS"), (stores / "trust.JKS", "PEM")):
        with pytest.raises(OptionError, match=r"ssl\.truststore\.type"):
            trusted(truststore_location=path, truststore_type=kind)


def test_a_pem_file_with_the_password_of_a_store_is_an_error_as_in_java(root, client, tmp_path):
    (tmp_path / "all.pem").write_text(client.chain_pem + client.key_pem())
    with pytest.raises(OptionError, match=r"ssl\.truststore\.password"):
        trusted(truststore_location=tmp_path / "all.pem", truststore_password=STORE)
    with pytest.raises(OptionError, match=r"ssl\.key\.password"):
        identity(keystore_location=tmp_path / "all.pem", keystore_password=STORE)


# Files.


def test_a_missing_file_names_host_path_and_files(tmp_path):
    with pytest.raises(OptionError) as caught:
        trusted(truststore_location=tmp_path / "none.pem")
    for part in (platform.node(), str(tmp_path / "none.pem"), "--files", "ssl.truststore.location"):
        assert part in str(caught.value)


@pytest.mark.parametrize("location", ["s3://bucket/ca.pem", "s3a://bucket/ca.pem", "hdfs:///ca.pem", "dbfs:/ca.pem"])
def test_a_location_that_is_no_file_of_this_machine_is_refused(location):
    with pytest.raises(OptionError, match="--files"):
        trusted(truststore_location=location)


def test_a_file_url_is_a_path(root, tmp_path):
    (tmp_path / "ca.pem").write_text(root.pem)
    for prefix in ("file:", "file://"):
        assert trusted(truststore_location=f"{prefix}{tmp_path}/ca.pem") == (root.der,)


def test_a_name_alone_is_found_among_the_files_that_spark_ships(root, tmp_path, monkeypatch):
    from pyspark import SparkFiles

    (tmp_path / "shipped-ca.pem").write_text(root.pem)
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path))
    assert trusted(truststore_location="shipped-ca.pem") == (root.der,)


def test_nothing_of_a_key_shows_in_the_repr_of_what_holds_it(client, tmp_path):
    (tmp_path / "client.pem").write_text(client.chain_pem + client.key_pem())
    shown = repr(identity(keystore_location=tmp_path / "client.pem")) + repr(
        config({"keystore_key": client.key_pem(), "keystore_certificate_chain": client.chain_pem, "key_password": KEY})
    )
    secret = base64.b64encode(client.key_pem().encode()).decode()
    assert client.key_pem().splitlines()[1] not in shown
    assert KEY not in shown
    assert secret not in shown
