"""THE table of TLS options: Java's names, librdkafka's aliases, and the options that are refused, with the reasons.

Names stand without the prefix `kafka.`, which Spark's options have. `config` reads their values.
"""

from __future__ import annotations

from kafkasource.kafka.security import option as option_rows
from kafkasource.kafka.security.option import SECRET, TEXT, Option

ROWS = (
    Option(
        "ssl.truststore.location",
        TEXT,
        "A file with the certificates of the authorities that the client trusts: PEM, PKCS12 or JKS. Or a folder of "
        "PEM files. Default: the roots of the operating system, which `probe` means, too.",
        aliases=("ssl.ca.location",),
        text_options=("ssl.truststore.certificates",),
    ),
    Option(
        "ssl.truststore.type",
        TEXT,
        "PEM, PKCS12 or JKS. Not needed: the file itself shows what it is.",
    ),
    Option("ssl.truststore.password", SECRET, "The password of a PKCS12 or JKS truststore."),
    Option(
        "ssl.truststore.certificates",
        TEXT,
        "The certificates of the authorities themselves, as PEM text, in place of a file. Line ends may be missing.",
        aliases=("ssl.ca.pem",),
    ),
    Option(
        "ssl.keystore.location",
        TEXT,
        "A file with the client's private key and its chain of certificates: PEM, PKCS12 or JKS. For brokers that ask"
        " clients for a certificate (`ssl.client.auth`).",
        text_options=("ssl.keystore.key", "ssl.keystore.certificate.chain"),
    ),
    Option("ssl.keystore.type", TEXT, "As `ssl.truststore.type`."),
    Option(
        "ssl.keystore.password",
        SECRET,
        "The password of a PKCS12 or JKS keystore.",
    ),
    Option(
        "ssl.keystore.key",
        SECRET,
        "The client's private key itself, as PEM text, in place of a file.",
        aliases=("ssl.key.pem",),
    ),
    Option(
        "ssl.keystore.certificate.chain",
        TEXT,
        "The client's certificate and the authorities between it and the root, as PEM text, in place of a file.",
        aliases=("ssl.certificate.pem",),
    ),
    Option(
        "ssl.key.password",
        SECRET,
        "The password of the private key, where it is encrypted. Default: that of the keystore.",
    ),
    Option(
        "ssl.key.location",
        TEXT,
        "librdkafka's: a PEM file with the client's private key. Its certificate comes from `ssl.certificate.location`"
        " or `ssl.certificate.pem`.",
        text_options=("ssl.keystore.key",),
    ),
    Option(
        "ssl.certificate.location",
        TEXT,
        "librdkafka's: a PEM file with the client's certificate, and the authorities between it and the root.",
        text_options=("ssl.keystore.certificate.chain",),
    ),
    Option(
        "ssl.endpoint.identification.algorithm",
        TEXT,
        "`https`: the broker's certificate must have the name or the IP address that the client connects to. Empty, or"
        " `none`: any certificate of a trusted authority will do, so its owner can read what is sent. The client then"
        " warns.",
        implied="https",
    ),
    Option(
        "ssl.protocol",
        TEXT,
        "`TLSv1.2` excludes TLS 1.3. `TLSv1.3` and `TLS` leave the choice to `ssl.enabled.protocols`.",
        implied="TLSv1.3",
    ),
    Option(
        "ssl.enabled.protocols",
        TEXT,
        "The versions that the client offers. Older ones in the list are left out, with a warning.",
        implied="TLSv1.2,TLSv1.3",
    ),
    Option(
        "ssl.cipher.suites",
        TEXT,
        "The cipher suites that the client offers, by the names of IANA (as in Java) or of OpenSSL, separated by commas"
        " or colons. Of TLS 1.3 Python offers all; the client refuses a connection with one that is not in the list."
        " Default: OpenSSL's choice.",
    ),
    Option(
        "ssl.crl.location",
        TEXT,
        "librdkafka's: a PEM file with the lists of revoked certificates. A broker's certificate whose authority has no"
        " list in it is refused.",
    ),
    Option(
        "enable.ssl.certificate.verification",
        TEXT,
        "librdkafka's. Only `true`, the default, is allowed.",
        implied="true",
    ),
)

BY_NAME = {row.name: row for row in ROWS}
ALIASES = {alias: row.name for row in ROWS for alias in row.aliases}


def with_alias(option: str) -> str:
    """An option of the table in an error, with its alias."""
    return option_rows.with_alias(BY_NAME[option])


def named(option: str) -> str:
    """An option of the table as the subject of an error."""
    return f"option {with_alias(option)}"


_OPENSSL = "Python's ssl module (OpenSSL) makes the connections, and no class of Java's can be loaded"

REFUSED = {
    "ssl.engine.factory.class": _OPENSSL,
    "ssl.provider": _OPENSSL,
    "security.providers": _OPENSSL,
    "ssl.keymanager.algorithm": _OPENSSL,
    "ssl.trustmanager.algorithm": _OPENSSL,
    "ssl.secure.random.implementation": f"{_OPENSSL}; the operating system gives the random numbers",
    "ssl.engine.location": "OpenSSL 3 has no engines; give the key as a file or as text",
    "ssl.engine.id": "OpenSSL 3 has no engines; give the key as a file or as text",
    "ssl.providers": "the machine's openssl.cnf loads providers of OpenSSL",
    "ssl.curves.list": "Python's ssl module cannot choose among curves; the machine's openssl.cnf can (Groups)",
    "ssl.sigalgs.list": "Python's ssl module cannot choose them; the machine's openssl.cnf can (SignatureAlgorithms)",
    "ssl.certificate.verify_cb": "there are no callbacks; OpenSSL checks certificates",
}
"""Options of Java's and librdkafka's that this package could only ignore, and why."""
