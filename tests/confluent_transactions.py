"""Transactions of another client, confluent-kafka's, that have written and stay open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import confluent_kafka

PATIENCE_S = 60


@contextmanager
def open_transactions(config: Mapping[str, object]) -> Iterator[Callable[[str, str], None]]:
    """Gives `begin(transactional_id, topic)`; at the end of the block all are aborted. `config`: how to connect."""
    opened: list[confluent_kafka.Producer] = []

    def begin(transactional_id: str, topic: str) -> None:
        producer = confluent_kafka.Producer({**config, "transactional.id": transactional_id})
        opened.append(producer)
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(topic, b"row")
        assert producer.flush(PATIENCE_S) == 0

    yield begin
    for producer in opened:
        producer.abort_transaction(PATIENCE_S)
