"""A Kerberos ticket runs out while a writer writes: it is renewed from the keytab, and no record is lost or doubled."""

import time
import uuid

import pyarrow as pa
import pytest
from kdc import Kdc
from link_events import watch_links

from kafkasource.kafka.network.states import LinkEvent, LinkState
from kafkasource.reader import Reader
from kafkasource.testing.broker import Broker, Kerberos, Listener, Security
from kafkasource.writer import Writer

pytestmark = [pytest.mark.broker, pytest.mark.extended]

TICKET_S, SESSION_MS, DEADLINE_S = 10, 3000, 180


def test_a_ticket_is_renewed_under_a_writer_and_nothing_is_lost_or_doubled(tmp_path, monkeypatch):
    """Each new session needs a ticket that is valid then; the run lasts for three lifetimes of one."""
    pytest.importorskip("gssapi", reason="needs the package gssapi, which pip builds with krb5's headers")
    renewed, refused = [], []

    def seen(link, event, error):
        if event is LinkEvent.LOGGED_IN and link.state is LinkState.REAUTHENTICATING:
            renewed.append(time.monotonic())
        if event in (LinkEvent.REFUSED, LinkEvent.ATTEMPT_FAILED):
            refused.append((link.port, str(error)))

    watch_links(monkeypatch, seen)
    with Kdc(tmp_path, ticket_lifetime_s=TICKET_S) as kdc:
        monkeypatch.setenv("KRB5_CONFIG", str(kdc.krb5_conf))
        keytabs = kdc.keytab("kafka/localhost"), kdc.keytab("alice")
        kerberos = Kerberos(kdc.krb5_conf, keytabs[0], client_keytab=keytabs[1], client_principal="alice@TEST")
        listener = Listener("SASL_PLAINTEXT", ("GSSAPI",), reauth_ms=SESSION_MS)
        with Broker(security=Security((listener,), kerberos=kerberos), use_existing=False) as broker:
            port = int(broker.secured.bootstrap_servers().rpartition(":")[2])
            options = {f"kafka.{name}": text for name, text in broker.client_properties().items()}
            topic, written, end = f"t-{uuid.uuid4().hex[:10]}", 0, time.monotonic() + 3 * TICKET_S
            deadline = time.monotonic() + DEADLINE_S
            with Writer({**options, "topic": topic, "createTopic": "partitions=1"}) as writer:
                while time.monotonic() < end or len(renewed) < 4:
                    assert time.monotonic() < deadline
                    writer.write(pa.table({"value": [b"%d" % written]}))
                    writer.flush()
                    written += 1
                    time.sleep(0.05)  # else it is a test of speed
            with Reader({**options, "subscribe": topic, "startingOffsets": "earliest"}) as reader:
                values = [int(value) for batch in reader for value in batch.column("value").to_pylist()]
    assert values == list(range(written))
    assert [error for refused_at, error in refused if refused_at == port] == []
    assert renewed[-1] - renewed[0] > TICKET_S
