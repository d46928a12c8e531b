"""A query that runs while its schemas change and its registry goes: a real registry, its schemas in Kafka."""

from __future__ import annotations

import json
import socket
import time

import pytest
from kept_schemas import framed
from test_typed_rows import EVERY, OLD, READ_OLD, avro, write

from kafkasource.formats.registry import Definition, RegistryClient, RegistryOptions
from kafkasource.testing.broker import Registry

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.extended]

AWAY_S = 60.0
WIDER = {**OLD, "fields": [*READ_OLD["fields"], {**EVERY["fields"][10], "default": {"flag": False}}]}


def client_of(registry):
    return RegistryClient(RegistryOptions.of({"url": registry.url}))


def away(port, seconds):
    """Stand in the registry's place, cut off each connection, and count them for `seconds` from the first on."""
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(120)
        asked, end_s = 0, float("inf")
        while time.monotonic() < end_s:
            server.accept()[0].close()
            asked, end_s = asked + 1, min(end_s, time.monotonic() + seconds)
    return asked


def test_new_writers_are_read_while_it_runs_and_a_registry_that_is_away_for_a_minute_delays_it(
    pykafka, kafka_topic, tmp_path
):
    """The rows keep the columns of the start. The third schema is registered, but no process of the query knows it."""
    topic = kafka_topic(partitions=1)
    kept = {"bootstrap_servers": pykafka.bootstrap_servers, "topic": f"{topic}-schemas", "use_existing": False}
    subject, name = f"{topic}-value", f"rows_{topic.replace('-', '_')}"
    with Registry(**kept) as registry:
        port = int(registry.url.split(":")[2].partition("/")[0])
        client = client_of(registry)
        ids = [client.register(subject, Definition(json.dumps(OLD)))]
        options = avro(**{"schemaRegistry.url": registry.url, "startingOffsets": "earliest", "columns": "offset,value"})
        frame = pykafka.reading(topic, stream=True, **options).load().selectExpr("offset", "value.*")
        query = frame.writeStream.format("memory").queryName(name).start()
        try:
            write(pykafka, topic, [framed(ids[0], OLD, {"number": n, "text": "a"}) for n in range(10)])
            query.processAllAvailable()
            ids.append(client.register(subject, Definition(json.dumps(READ_OLD))))
            write(
                pykafka,
                topic,
                [framed(ids[1], READ_OLD, {"number": n, "text": "b", "maybe": 0.5}) for n in range(10, 20)],
            )
            query.processAllAvailable()
            assert pykafka.spark.table(name).count() == 20
            ids.append(client.register(subject, Definition(json.dumps(WIDER))))
            registry.stop()
            write(
                pykafka,
                topic,
                [
                    framed(ids[2], WIDER, {"number": n, "text": "c", "maybe": 0.5, "within": {"flag": True}})
                    for n in range(20, 30)
                ],
            )
            assert away(port, AWAY_S) > 10
            assert query.isActive
            assert pykafka.spark.table(name).count() == 20
            with Registry(port, **kept):
                query.processAllAvailable()
            rows = pykafka.spark.table(name).collect()
        finally:
            query.stop()
    assert sorted(map(tuple, rows)) == [(n, n, "abc"[n // 10]) for n in range(30)]
