"""TLS between our clients and the proxies, with certificates that change while connections come and go.

The proxies end TLS, because they must know requests: OpenSSL as Python has it, which wants a certificate of each
client. Clients read PEM files, as `kafka.ssl.*` names them. A change is made as an operator makes it: whoever has to
trust a new CA does so before anybody shows a certificate of it, and the CA before it is trusted until the next change.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Sequence
from pathlib import Path

from kafkasource.testing.broker.security.certificates import Authority
from lab.campaign.faults import Fault
from lab.campaign.whole_files import write_whole


class Certificates:
    """One thread changes them, and any thread may ask."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder, self._client, self._trust = folder, folder / "client.pem", folder / "trusted.pem"
        self._issued = 0
        self._trusted: list[Authority] = []
        self._new_authority()
        self._change_server()
        self._change_client()

    def options(self) -> dict[str, str]:
        """Of a client that logs in over TLS, beside those of its login."""
        return {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self._trust),
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.location": str(self._client),
        }

    def context(self) -> ssl.SSLContext:
        """For the next connection that a proxy takes."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._server)
        context.load_verify_locations(cadata=_pem(self._trusted))
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def change(self, fault: Fault) -> None:
        if fault.variant == "of the CA":
            self._new_authority()
            time.sleep(fault.lasts_s)  # in which everybody hears of it
        if fault.variant != "of the clients":
            self._change_server()
        if fault.variant != "of the brokers":
            self._change_client()

    def _new_authority(self) -> None:
        self._issued += 1
        self._trusted = [*self._trusted[-1:], Authority(f"storm CA {self._issued}")]
        write_whole(self._trust, _pem(self._trusted))

    def _change_server(self) -> None:
        text = self._issue("broker")
        new = self._folder / f"broker-{self._issued}.pem"  # a new file, as OpenSSL reads it twice: certificate, key
        new.write_text(text)
        self._server = new

    def _change_client(self) -> None:
        write_whole(self._client, self._issue("client"))

    def _issue(self, name: str) -> str:
        """A key and a certificate of the newest CA."""
        self._issued += 1
        made = self._trusted[-1].issue(f"{name} {self._issued}")
        return made.key_pem() + made.certificate_pem


def _pem(authorities: Sequence[Authority]) -> str:
    return "".join(each.pem for each in authorities)
