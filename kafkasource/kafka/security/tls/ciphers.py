"""Cipher suites: the names of IANA, which Java uses, to those of OpenSSL, which Python's `ssl` takes.

Python (before 3.15) can choose among the suites of TLS 1.2 only. So `Ciphers.tls13` is compared with the suite that
the handshake arrived at.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass

from kafkasource.errors import OptionError
from kafkasource.kafka.security.option import shown

TLS13_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""Those that OpenSSL offers by default, with the same names in both worlds."""

_SIGNALS = ("TLS_EMPTY_RENEGOTIATION_INFO_SCSV", "TLS_FALLBACK_SCSV")  # no suites; OpenSSL sends them itself
_IANA = re.compile(r"(?:TLS|SSL)_(?P<exchange>[A-Z_]+?)_WITH_(?P<cipher>[A-Z0-9_]+?)_(?P<digest>SHA256|SHA384|SHA)")
_CIPHERS = {
    "AES_128_GCM": "AES128-GCM",
    "AES_256_GCM": "AES256-GCM",
    "AES_128_CBC": "AES128",
    "AES_256_CBC": "AES256",
    "CHACHA20_POLY1305": "CHACHA20-POLY1305",
}
_EXCHANGES = {"ECDHE_RSA": "ECDHE-RSA-", "ECDHE_ECDSA": "ECDHE-ECDSA-", "DHE_RSA": "DHE-RSA-", "RSA": ""}


@dataclass(frozen=True)
class Ciphers:
    tls12: tuple[str, ...]  # OpenSSL's names, in the order of the option
    tls13: tuple[str, ...]  # IANA's names


def read_ciphers(text: str) -> Ciphers:
    """The value of `ssl.cipher.suites`. Raises OptionError for a name that this machine's OpenSSL does not have."""
    names = [name for name in re.split(r"[\s,:]+", text) if name and name not in _SIGNALS]
    known = _tls12_suites()
    tls12, tls13 = [], []
    for name in names:
        if name in TLS13_SUITES:
            tls13.append(name)
            continue
        openssl = openssl_name(name) or name
        if openssl not in known:
            raise OptionError(
                f"option {shown('ssl.cipher.suites')}: {name!r} is not known here. Known are"
                f" {', '.join((*TLS13_SUITES, *sorted(known)))}, and IANA's names of the same suites"
            )
        tls12.append(openssl)
    if not tls12 and not tls13:
        raise OptionError(f"option {shown('ssl.cipher.suites')} names no cipher suite")
    return Ciphers(tuple(dict.fromkeys(tls12)), tuple(dict.fromkeys(tls13)))


def openssl_name(iana: str) -> str | None:
    """OpenSSL's name of a suite of TLS 1.2; None where IANA's name is none that brokers use."""
    match = _IANA.fullmatch(iana)
    if match is None or match["exchange"] not in _EXCHANGES or match["cipher"] not in _CIPHERS:
        return None
    name = _EXCHANGES[match["exchange"]] + _CIPHERS[match["cipher"]]
    return name if match["cipher"] == "CHACHA20_POLY1305" else f"{name}-{match['digest']}"


def _tls12_suites() -> frozenset[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("HIGH:!aNULL:!PSK:!SRP")
    return frozenset(row["name"] for row in context.get_ciphers() if row["protocol"] != "TLSv1.3")
