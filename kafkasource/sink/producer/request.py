"""One Produce request: what it says depends on the version that its connection has negotiated.

Batches are built as record batches v2, which brokers take from Produce v3 on (Kafka 0.11). An older broker gets the
same records as a message set, converted when the request is written, since only then the version is certain; a retry,
to a broker that was upgraded meanwhile perhaps, converts again or not. What the broker has no place for is never
dropped quietly: such a batch is refused here, alone, before anything of it is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkasource.errors import KafkaSourceError, UnsupportedApiVersion, UnsupportedRecordFormat
from kafkasource.records.compression import ZSTD
from kafkasource.records.down_conversion import down_convert
from kafkasource.sink.producer.batch import ProducerBatch
from kafkasource.sink.producer.config import ProducerConfig

_MAGIC_1, _MAGIC_2, _ZSTD = 2, 3, 7  # the first versions with timestamps (KIP-32), record batches (KIP-98), zstd


class ProduceRequest:
    """The body, for `NetworkClient.send`. For the sender thread; `refused` tells of batches that were left out."""

    def __init__(self, batches: Sequence[ProducerBatch], config: ProducerConfig, node_id: int) -> None:
        transaction = batches[0].delivery.transaction
        self.transactional_id = None if transaction is None else transaction.transactional_id
        self.acks, self.timeout_ms = config.acks, config.request_timeout_ms
        self.lost_idempotence = False  # a batch had a sequence, and the broker no place for it
        self._idempotence_demanded = config.idempotence_demanded
        self.refused: dict[ProducerBatch, KafkaSourceError] = {}
        self._batches = batches
        self._node_id = node_id

    def __call__(self, version: int) -> dict[str, Any]:
        """Raises the error of the first batch where all are refused."""
        topics: dict[str, list[dict[str, Any]]] = {}
        for batch in self._batches:
            tp = batch.topic_partition
            try:
                records = batch.encoded if version >= _ZSTD else self._for_older(batch, version)
            except KafkaSourceError as error:
                self.refused[batch] = error
            else:
                topics.setdefault(tp.topic, []).append({"index": tp.partition, "records": records})
        if not topics:
            raise next(iter(self.refused.values()))
        return {
            "transactional_id": self.transactional_id,
            "acks": self.acks,
            "timeout_ms": self.timeout_ms,
            "topic_data": [{"name": name, "partition_data": data} for name, data in topics.items()],
        }

    def _for_older(self, batch: ProducerBatch, version: int) -> Any:
        builder = batch.builder
        if builder.codec == ZSTD:
            raise self._lack(batch, version, "zstd", _ZSTD, "2.1", "another 'kafka.compression.type'")
        if version >= _MAGIC_2:
            return batch.encoded
        if self.transactional_id is not None:
            raise self._lack(batch, version, "transactions", _MAGIC_2, "0.11", "'deliveryGuarantee'=at_least_once")
        if version < _MAGIC_1 and batch.delivery.has_timestamps:
            raise self._lack(batch, version, "timestamps", _MAGIC_1, "0.10", "a DataFrame without column 'timestamp'")
        if batch.sequenced and self._idempotence_demanded:
            raise self._lack(batch, version, "idempotence", _MAGIC_2, "0.11", "without 'kafka.enable.idempotence'=true")
        self.lost_idempotence |= batch.sequenced
        magic = 0 if version < _MAGIC_1 else 1
        try:
            return down_convert(
                batch.encoded, magic, codec=builder.codec, level=builder.level, max_bytes=builder.estimated_size
            )
        except UnsupportedRecordFormat:  # of what the sink writes only headers
            lack = self._lack(batch, version, "headers", _MAGIC_2, "0.11", "a DataFrame without column 'headers'")
            raise lack from None

    def _lack(
        self, batch: ProducerBatch, version: int, feature: str, first: int, release: str, remedy: str
    ) -> UnsupportedApiVersion:
        return UnsupportedApiVersion(
            f"records for {batch.topic_partition} cannot be written with {feature}: that needs Kafka {release} "
            f"(Produce v{first}), and node {self._node_id} serves Produce up to v{version}. Write {remedy}"
        )
