"""PEM text: certificates and keys in base64 between lines of dashes.

Text that went through an environment variable, YAML or a command line has often lost its line ends: they became blanks,
the two characters `\\n`, or nothing. The reader accepts all of these, and `blocks` gives text that OpenSSL takes.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE")
REVOCATION_LIST = "X509 CRL"

_MARKER = re.compile(r"-----\s*(BEGIN|END) ([A-Z0-9 ]+?)\s*-----")
_ENCRYPTION = re.compile(r"\s*Proc-Type:\s*4,\s*ENCRYPTED\s*DEK-Info:\s*(?P<cipher>[A-Z0-9-]+),\s*", re.IGNORECASE)
_LINE = 64


class MalformedPem(ValueError):
    """The text is no PEM. The message says where, and never quotes the text: it may hold a key."""


@dataclass(frozen=True)
class PemBlock:
    """One object of a PEM text."""

    label: str  # "CERTIFICATE", "PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "RSA PRIVATE KEY", "X509 CRL", ...
    data: bytes
    encryption: str = ""  # the header "DEK-Info" of an old encrypted key

    def __repr__(self) -> str:
        return f"PemBlock({self.label!r}, {len(self.data)} bytes)"

    @property
    def is_private_key(self) -> bool:
        return self.label.endswith("PRIVATE KEY")

    @property
    def text(self) -> str:
        """The block as OpenSSL reads it."""
        encoded = base64.b64encode(self.data).decode("ascii")
        lines = [encoded[at : at + _LINE] for at in range(0, len(encoded), _LINE)]
        header = ["Proc-Type: 4,ENCRYPTED", f"DEK-Info: {self.encryption}", ""] if self.encryption else []
        return "\n".join([f"-----BEGIN {self.label}-----", *header, *lines, f"-----END {self.label}-----", ""])


def certificate_text(der: bytes) -> str:
    return PemBlock("CERTIFICATE", der).text


def blocks(text: str) -> list[PemBlock]:
    """The objects of a PEM text, in its order; empty where it has none. What lies between them is a comment.

    Raises MalformedPem where one is cut short or is no base64: half of a file is never taken for a whole one.
    """
    text = text.replace("\\r", "").replace("\\n", "\n")
    complete: list[PemBlock] = []
    begun: re.Match[str] | None = None
    for marker in _MARKER.finditer(text):
        word, label = marker.groups()
        if word == "BEGIN":
            if begun is not None:
                raise MalformedPem(f"block {len(complete) + 1} ({begun[2]}) has no END line")
            begun = marker
        elif begun is None or begun[2] != label:
            raise MalformedPem(f"an END line of {label} has no BEGIN line")
        else:
            complete.append(_block(label, text[begun.end() : marker.start()], len(complete) + 1))
            begun = None
    if begun is not None:
        raise MalformedPem(f"block {len(complete) + 1} ({begun[2]}) has no END line: the text is cut short")
    return complete


def _block(label: str, body: str, number: int) -> PemBlock:
    encryption = ""
    header = _ENCRYPTION.match(body)
    if header:
        cipher = header["cipher"].upper()
        start = header.end() + (32 if cipher.startswith("AES") else 16)  # the digits of the initial vector
        encryption = f"{cipher},{body[header.end() : start].upper()}"
        body = body[start:]
    try:
        data = base64.b64decode("".join(body.split()), validate=True)
    except (binascii.Error, ValueError):
        raise MalformedPem(f"block {number} ({label}) is not base64") from None
    if not data:
        raise MalformedPem(f"block {number} ({label}) is empty")
    return PemBlock(label, data, encryption)
