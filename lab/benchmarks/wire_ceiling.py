"""The ceiling with Kafka's bytes on the wire: ready-made Arrow in a source that also fetches and drops the bytes, and a
sink that drops its rows and sends ready-made record batches instead.

What this costs is what Spark's Python data sources and a broker cost, with a client that does as little as one can: one
blocking socket for each task, no decoding, no checksums, no metadata after planning, no retries, no memory budget. It
serves one broker alone, and uncompressed records of one size. Options: `servers`, `topic`, `bytes` (of a value).
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.offsets import LATEST
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import FETCH, PRODUCE, Api
from kafkasource.kafka.protocol.frames import decode_response, encode_request
from kafkasource.kafka.protocol.schema import Body, Fields
from kafkasource.kafka.records import header as h
from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns
from kafkasource.source.spark.schema import spark_schema
from kafkasource.spark.garbage import spare_imports_from_gc
from kafkasource.types import IsolationLevel, TopicPartition
from lab.benchmarks.ready_arrow import ready_batch

FETCH_VERSION, PRODUCE_VERSION = 12, 9  # the last that name topics by name; both ends have them
FETCH_BYTES = 4 << 20  # as our `kafka.max.partition.fetch.bytes`
BATCH_BYTES = 256 * 1024  # as our `kafka.batch.size`
IN_FLIGHT = 5  # requests of a task that await their answers
_LENGTH = struct.Struct(">i")


class WireCeiling(DataSource):
    @classmethod
    def name(cls) -> str:
        return "wire_ceiling"

    def schema(self) -> Any:
        return spark_schema(False)

    def reader(self, schema: Any) -> DataSourceReader:
        return Reader(self.options["servers"], self.options["topic"], int(self.options["bytes"]))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return Writer(self.options["servers"], self.options["topic"], int(self.options["bytes"]))


@dataclass
class Log(InputPartition):
    """One partition of the topic, to be read from offset 0."""

    partition: int
    end_offset: int  # exclusive


class Reader(DataSourceReader):
    def __init__(self, servers: str, topic: str, value_bytes: int) -> None:
        self.servers, self.topic, self.value_bytes = servers, topic, value_bytes

    def partitions(self) -> list[InputPartition]:
        with Cluster(ClientConfig.of(self.servers)) as cluster:
            topic = cluster.topics.describe([self.topic])[self.topic]
            assert topic is not None
            logs = [TopicPartition(self.topic, partition) for partition in sorted(topic.partitions)]
            ends = cluster.offsets.list(dict.fromkeys(logs, LATEST), IsolationLevel.READ_UNCOMMITTED)
        return [Log(tp.partition, end.offset) for tp, end in ends.items()]

    def read(self, log: Log) -> Iterator[pa.RecordBatch]:
        """As many rows as the log has records. The next fetch is on its way while Spark takes them."""
        spare_imports_from_gc()
        with Wire(self.servers) as wire:
            reached = 0
            wire.send(FETCH, FETCH_VERSION, self._fetch(log.partition, reached))
            while reached < log.end_offset:
                body = wire.answer(FETCH, FETCH_VERSION)
                fetched = body["responses"][0]["partitions"][0]
                first, reached = reached, end_of(fetched["records"])
                if reached < log.end_offset:
                    wire.send(FETCH, FETCH_VERSION, self._fetch(log.partition, reached))
                rows = reached - first
                yield ready_batch(size_of_piece(self.value_bytes), self.value_bytes, 0).slice(0, rows)

    def _fetch(self, partition: int, offset: int) -> Fields:
        row = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": FETCH_BYTES}
        return {
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": FETCH_BYTES,
            "isolation_level": 0,
            "topics": [{"topic": self.topic, "partitions": [row | {"current_leader_epoch": -1}]}],
            "rack_id": "",
        }


class Writer(DataSourceArrowWriter):
    def __init__(self, servers: str, topic: str, value_bytes: int) -> None:
        self.servers, self.topic, self.value_bytes = servers, topic, value_bytes

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send as many records as there are rows, a full batch at a time, to the four partitions in turn."""
        spare_imports_from_gc()
        full, count = ready_records(BATCH_BYTES, self.value_bytes)
        rows = sent = turn = 0
        with Wire(self.servers) as wire:
            for batch in iterator:
                rows += batch.num_rows
                while rows - sent >= count:
                    turn, sent = turn + 1, sent + count
                    self._send(wire, full, turn % 4)
            if rows > sent:
                rest, _ = ready_records(BATCH_BYTES, self.value_bytes, rows - sent)
                self._send(wire, rest, turn % 4)
            while wire.in_flight:
                stored(wire.answer(PRODUCE, PRODUCE_VERSION))
        return WriterCommitMessage()

    def _send(self, wire: Wire, records: bytes, partition: int) -> None:
        if wire.in_flight == IN_FLIGHT:
            stored(wire.answer(PRODUCE, PRODUCE_VERSION))
        data = [{"name": self.topic, "partition_data": [{"index": partition, "records": records}]}]
        wire.send(
            PRODUCE,
            PRODUCE_VERSION,
            {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": data},
        )


class Wire:
    """A blocking connection to the one broker. It answers in the order of the requests."""

    def __init__(self, servers: str) -> None:
        host, _, port = servers.partition(",")[0].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sent: deque[int] = deque()
        self._frame = bytearray(2 * FETCH_BYTES)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    @property
    def in_flight(self) -> int:
        return len(self._sent)

    def send(self, api: Api, version: int, body: Fields) -> None:
        number = self._sent[-1] + 1 if self._sent else 0
        self._socket.sendall(encode_request(api, version, number, "wire-ceiling", body))
        self._sent.append(number)

    def answer(self, api: Api, version: int) -> Body:
        """The oldest request's. Its records are views of memory that the next answer overwrites."""
        self._sent.popleft()
        (length,) = _LENGTH.unpack(self._receive(_LENGTH.size))
        return decode_response(api, version, self._receive(length))

    def _receive(self, length: int) -> memoryview:
        if length > len(self._frame):
            self._frame = bytearray(length)
        whole, there = memoryview(self._frame)[:length], 0
        while there < length:
            received = self._socket.recv_into(whole[there:])
            if not received:
                raise ConnectionError("the broker closed the connection")
            there += received
        return whole


def end_of(records: memoryview) -> int:
    """The offset behind the last whole batch."""
    pos = end = 0
    while len(records) - pos >= h.HEADER_BYTES:
        base_offset, length, *_, last_offset_delta = struct.unpack_from(">qiibIhi", records, pos)
        if pos + h.PREFIX_BYTES + length > len(records):
            break
        pos, end = pos + h.PREFIX_BYTES + length, base_offset + last_offset_delta + 1
    if not end:
        raise ValueError("a fetch without a whole batch")
    return end


def stored(body: Body) -> None:
    code = body["responses"][0]["partition_responses"][0]["error_code"]
    if code:
        raise ValueError(f"the broker answered Produce with error {code}")


def size_of_piece(value_bytes: int) -> int:
    """More rows than a fetch can hold: a record takes at least this many bytes beside its value."""
    return FETCH_BYTES // value_bytes + 1


def ready_records(most_bytes: int, value_bytes: int, most: int | None = None) -> tuple[bytes, int]:
    """A record batch of keys of 7 bytes and such values, and how many records it has."""
    rows = ready_batch(most or size_of_piece(value_bytes), value_bytes, 0)
    builder = BatchBuilder(bytearray(max(most_bytes, value_bytes + 1024)))
    count = builder.append(RecordColumns(rows.column("key"), rows.column("value"), default_timestamp_ms=0))
    return bytes(builder.close()), count
