"""Writes stores.txt, which lying_security.py damages: certificates and keys in each format, JKS by Java's keytool.

python tests/fuzz/capture_stores.py
"""

from __future__ import annotations

import base64
import sys
import tempfile
import textwrap
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE.parent / "kafka" / "security")]


def main() -> None:
    from certificate_maker import authority, java_keystore, java_truststore
    from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12

    root = authority()
    client = root.issue("client", ("client.test", "*.client.test"), ("10.1.2.3", "::1"))
    with tempfile.TemporaryDirectory() as folder:
        stores = {
            "der": root.der,
            "pem": (client.key_pem() + client.chain_pem + root.pem).encode(),
            # Without encryption: a damaged count of rounds would keep OpenSSL busy for minutes.
            "pkcs12": pkcs12.serialize_key_and_certificates(
                b"client", client.key, client.certificate, (root.certificate,), NoEncryption()
            ),
            "jks-keys": java_keystore(Path(folder, "keys.jks"), "JKS", "changeit", "changeit", client).read_bytes(),
            "jks-trusted": java_truststore(Path(folder, "trust.jks"), "JKS", "changeit", root).read_bytes(),
        }
    lines = [f"{name} {base64.b64encode(data).decode()}" for name, data in stores.items()]
    wrapped = [textwrap.fill(line, 120, break_on_hyphens=False) for line in lines]
    (HERE / "stores.txt").write_text("\n".join(wrapped) + "\n")


if __name__ == "__main__":
    main()
