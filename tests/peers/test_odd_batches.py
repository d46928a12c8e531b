"""Raw record batches of every odd form that some producer might send: where a real broker stores one, we read what
Java's consumer reads.

Each form has a partition of its own, with an ordinary batch before it and one behind it. The broker decides which forms
exist at all: what it refuses, nobody reads. Where we differ from Java's consumer on purpose, `OURS` says how. What
librdkafka makes of the forms is a second opinion: it reads fewer of them.
"""

from __future__ import annotations

import gzip
import json
import struct
import time
import zlib
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import cramjam
import lz4.frame
import pyarrow as pa
import pytest
import snappy
import zstandard
from confluent_reader import messages_of
from confluent_topic import eventually
from java_programs import ask_java
from record_wire import LOG_APPEND, batch, record, varint

from kafkasource.errors import CorruptRecordBatch
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import PRODUCE
from kafkasource.reader import Reader
from kafkasource.types import TopicPartition

pytestmark = [pytest.mark.broker, pytest.mark.peers]

NOW = 1000 * int(time.time())
MAGIC = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
SKIPPABLE = struct.pack("<II", 0x184D2A53, 5) + b"hello"


class Row(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple


def deltas(*given):
    return {"records": [record(delta, value=b"v%d" % i) for i, delta in enumerate(given)]}


def numbers(**given):
    """A record with some of its numbers (or what they belong to) replaced by these bytes."""
    parts = {"attributes": b"\0", "timestamp": b"\0", "delta": b"\0", "key": b"\2k", "value": b"\2v", "headers": b"\0"}
    body = b"".join((parts | given).values())
    return {"records": [varint(len(body)) + body]}


def padded(value, size):
    """A small number as a varint of `size` bytes."""
    return bytes([2 * value | 0x80, *[0x80] * (size - 2), 0])


def packed(codec, compress, size=10):
    """Three records, compressed so."""
    records = b"".join(record(i, value=b"v%d" % i + b"x" * size) for i in range(3))
    return {"records": [b""] * 3, "codec": codec, "section": compress(records)}


def in_two(compress):
    return lambda data: compress(data[: len(data) // 2]) + compress(data[len(data) // 2 :])


def and_then(compress, more):
    return lambda data: compress(data) + more


def xerial(data, block=32768):
    blocks = [snappy.compress(data[i : i + block]) for i in range(0, len(data), block)]
    return MAGIC + b"".join(struct.pack(">i", len(one)) + one for one in blocks)


def lz4_frame(data, **chosen):
    return lz4.frame.compress(data, **{"block_linked": False, **chosen})


def without_size(data):
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(data) + packer.flush()


with_checksum = zstandard.ZstdCompressor(write_checksum=True).compress

CODEC_FORMS = {
    "gzip": ("gzip", gzip.compress),
    "gzip, two members": ("gzip", in_two(gzip.compress)),
    "gzip, an empty member behind": ("gzip", and_then(gzip.compress, gzip.compress(b""))),
    "gzip, stored": ("gzip", lambda data: gzip.compress(data, 0)),
    "gzip, a zero behind": ("gzip", and_then(gzip.compress, b"\0")),
    "gzip, zeros behind": ("gzip", and_then(gzip.compress, bytes(8))),
    "gzip, two members and zeros": ("gzip", and_then(in_two(gzip.compress), bytes(20))),
    "gzip, nonsense behind": ("gzip", and_then(gzip.compress, b"nonsense behind the end of it")),
    "gzip, half a header behind": ("gzip", and_then(gzip.compress, b"\x1f\x8b\x08")),
    "gzip, half a member behind": ("gzip", and_then(gzip.compress, gzip.compress(b"hello" * 9)[:-12])),
    "gzip, zeros between members": ("gzip", lambda data: in_two(and_then(gzip.compress, bytes(8)))(data)),
    "gzip, wrong checksum": ("gzip", lambda data: gzip.compress(data)[:-8] + b"abcd" + gzip.compress(data)[-4:]),
    "gzip, cut": ("gzip", lambda data: gzip.compress(data)[:-4]),
    "zlib": ("gzip", zlib.compress),
    "snappy, raw": ("snappy", snappy.compress),
    "snappy, framed": ("snappy", lambda data: bytes(cramjam.snappy.compress(data))),
    "xerial, blocks of 10 bytes": ("snappy", lambda data: xerial(data, 10)),
    "xerial, an empty block": ("snappy", lambda data: MAGIC + b"\0\0\0\1\0" + xerial(data)[16:]),
    "xerial, a block of no bytes": ("snappy", and_then(xerial, bytes(4))),
    "xerial, two streams": ("snappy", in_two(xerial)),
    "xerial, half a length behind": ("snappy", and_then(xerial, bytes(2))),
    "xerial, half a block behind": ("snappy", and_then(xerial, struct.pack(">i", 50) + b"abc")),
    "xerial, version 9": ("snappy", lambda data: MAGIC[:8] + struct.pack(">ii", 9, 9) + xerial(data)[16:]),
    "lz4": ("lz4", lz4_frame),
    "lz4, checksums": ("lz4", lambda data: lz4_frame(data, content_checksum=True, block_checksum=True)),
    "lz4, with its size": ("lz4", lambda data: lz4_frame(data, store_size=True)),
    "lz4, linked blocks": ("lz4", lambda data: lz4_frame(data, block_linked=True)),
    "lz4, two frames": ("lz4", in_two(lz4_frame)),
    "lz4, an empty frame behind": ("lz4", and_then(lz4_frame, lz4_frame(b""))),
    "lz4, zeros behind": ("lz4", and_then(lz4_frame, bytes(9))),
    "lz4, nonsense behind": ("lz4", and_then(lz4_frame, b"nonsense")),
    "lz4, checksums, nonsense behind": (
        "lz4",
        and_then(lambda data: lz4_frame(data, content_checksum=True, block_checksum=True), b"nonsense"),
    ),
    "lz4, another frame behind": ("lz4", and_then(lz4_frame, lz4_frame(b"hello"))),
    "lz4, without its end": ("lz4", lambda data: lz4_frame(data)[:-4]),
    "lz4, wrong checksum": ("lz4", lambda data: lz4_frame(data, content_checksum=True)[:-4] + b"abcd"),
    "lz4, a skippable frame first": ("lz4", lambda data: SKIPPABLE + lz4_frame(data)),
    "zstd": ("zstd", zstandard.compress),
    "zstd, without its size": ("zstd", without_size),
    "zstd, checksum": ("zstd", with_checksum),
    "zstd, two frames": ("zstd", in_two(zstandard.compress)),
    "zstd, a skippable frame first": ("zstd", lambda data: SKIPPABLE + zstandard.compress(data)),
    "zstd, a skippable frame behind": ("zstd", and_then(zstandard.compress, SKIPPABLE)),
    "zstd, an empty frame first": ("zstd", lambda data: zstandard.compress(b"") + zstandard.compress(data)),
    "zstd, another frame behind": ("zstd", and_then(zstandard.compress, zstandard.compress(b"hello"))),
    "zstd, zeros behind": ("zstd", and_then(zstandard.compress, bytes(8))),
    "zstd, cut": ("zstd", lambda data: zstandard.compress(data)[:-1]),
    "zstd, wrong checksum": ("zstd", lambda data: with_checksum(data)[:-4] + b"abcd"),
}
FAR = 1 << 62
FORMS = {
    "deltas that stand still": deltas(0, 0, 0),
    "deltas that stand still, gzip": deltas(0, 0, 0) | {"codec": "gzip"},
    "deltas at the end": deltas(2, 2, 2),
    "deltas that descend": deltas(2, 1, 0),
    "deltas out of order": deltas(0, 2, 1),
    "deltas below 0": deltas(-1, 0, 1),
    "deltas beyond the last": deltas(0, 1, 5),
    "deltas beyond the batch": deltas(5, 6, 7),
    "fewer records than offsets": deltas(0, 2) | {"last_offset_delta": 2},
    "more records than offsets": deltas(0, 1, 1) | {"last_offset_delta": 1},
    "more records than it says": deltas(0, 1) | {"count": 1},
    "no records": {"records": []},
    "long varints": numbers(timestamp=padded(0, 10), delta=padded(0, 5), key=padded(1, 5) + b"k", headers=padded(0, 3)),
    "a varint of 6 bytes": numbers(delta=padded(0, 6)),
    "a varlong of 11 bytes": numbers(timestamp=padded(0, 11)),
    "bits beyond the 32nd of a delta": numbers(delta=b"\x80\x80\x80\x80\x70"),
    "bits beyond the 32nd of a length": numbers(key=b"\x82\x80\x80\x80\x70k"),
    "bits beyond the 64th": numbers(timestamp=b"\x80" * 9 + b"\x7e"),
    "key length -2": numbers(key=varint(-2)),
    "value length -5": numbers(value=varint(-5)),
    "header value length -2": numbers(headers=varint(1) + b"\2h" + varint(-2)),
    "header key length -1": numbers(headers=varint(1) + varint(-1) + b"\2v"),
    "header count -1": numbers(headers=varint(-1)),
    "empty and repeated header keys": {"records": [record(headers=[(b"", b"1"), ("é".encode(), None), (b"", b"2")])]},
    "attributes of a record": numbers(attributes=b"\xff"),
    "bytes behind a record": numbers(headers=b"\0xyz"),
    "bytes behind the records": {"section": record() + b"\0\0"},
    "base timestamp far, time near": {"base_timestamp": FAR, "records": [record(timestamp_delta=NOW - FAR)]},
    "base timestamp far, time near, gzip": {
        "base_timestamp": FAR,
        "records": [record(timestamp_delta=NOW - FAR)],
        "codec": "gzip",
    },
    "base timestamp long ago, time near": {"base_timestamp": -FAR, "records": [record(timestamp_delta=NOW + FAR)]},
    "times beyond 64 bits": {"base_timestamp": 2**63 - 1, "records": [record(timestamp_delta=2**63 - 1)]},
    "a time far away": {"base_timestamp": FAR},
    "a time far away, LogAppendTime": {"base_timestamp": FAR},
    "a time far away, gzip, LogAppendTime": {"base_timestamp": FAR, "codec": "gzip"},
    "times without end, LogAppendTime": {"records": [record(timestamp_delta=FAR)]},
    "no timestamp": {"base_timestamp": -1},
    "no timestamp, then one": {
        "base_timestamp": -1,
        "records": [record(0), record(1, timestamp_delta=NOW + 1)],
        "max_timestamp": NOW,
    },
    "timestamp -5": {"base_timestamp": -5},
    "wrong newest timestamp": {"max_timestamp": 5},
    "a producer's log append time": {"attributes": LOG_APPEND},
    "a producer's delete horizon": {"attributes": 0x40},
    "attributes that nobody knows": {"attributes": 0x7F80},
    "a control batch": {"attributes": 0x20},
    "a transaction that nobody began": {"attributes": 0x10},
    "codec 5": {"attributes": 5},
    "an epoch and a sequence without a producer": {"producer": (-1, 5, 7)},
    "a base offset": {"base_offset": 1 << 40},
    **{name: packed(*form) for name, form in CODEC_FORMS.items()},
    **{f"{name}, large": packed(*form, 30_000) for name, form in CODEC_FORMS.items()},
}
# Forms that we read in another way than Java's consumer: our values, numbered by place; or our error.
OURS = {
    # Java passes over a record whose offset is not above the last one, in the next batch, too.
    "deltas that stand still": [b"v0", b"v1", b"v2"],
    "deltas at the end": [b"v0", b"v1", b"v2"],
    "deltas that descend": [b"v0", b"v1", b"v2"],
    "deltas out of order": [b"v0", b"v1", b"v2"],
    "deltas below 0": [b"v0", b"v1", b"v2"],
    "deltas beyond the last": [b"v0", b"v1", b"v2"],
    "deltas beyond the batch": [b"v0", b"v1", b"v2"],
    # Java's decoder stops before these; no producer is known that writes them.
    "lz4, another frame behind": "bytes are left over",
    "lz4, wrong checksum": "ERROR_contentChecksum_invalid",
    "lz4, another frame behind, large": "bytes are left over",
    "lz4, wrong checksum, large": "ERROR_contentChecksum_invalid",
}
# A broker 4.3.1 stores none of these. Older brokers store some of them.
REFUSED = {
    "deltas that stand still, gzip",
    "fewer records than offsets",
    "more records than offsets",
    "more records than it says",
    "no records",
    "a varint of 6 bytes",
    "a varlong of 11 bytes",
    "header key length -1",
    "header count -1",
    "bytes behind a record",
    "bytes behind the records",
    "a time far away",
    "a control batch",
    "a transaction that nobody began",
    "codec 5",
    "a base offset",
}
_REFUSED_CODEC_FORMS = (
    "gzip, zeros between members",
    "gzip, wrong checksum",
    "gzip, cut",
    "zlib",
    "snappy, framed",
    "xerial, a block of no bytes",
    "xerial, half a block behind",
    "lz4, two frames",
    "lz4, without its end",
    "lz4, a skippable frame first",
    "zstd, another frame behind",
    "zstd, zeros behind",
    "zstd, cut",
    "zstd, wrong checksum",
)
REFUSED |= {name + size for name in _REFUSED_CODEC_FORMS for size in ("", ", large")} | {"lz4, linked blocks, large"}
# librdkafka numbers these by their deltas, as far as it gets, or cannot read them.
NOT_WITH_LIBRDKAFKA = {
    *OURS,
    "bits beyond the 32nd of a delta",
    "bits beyond the 32nd of a length",
    "key length -2",
    "value length -5",
    "header value length -2",
    *(
        name + size
        for name in (
            "gzip, two members",
            "gzip, two members and zeros",
            "xerial, two streams",
            "xerial, half a length behind",
            "lz4, an empty frame behind",
            "lz4, zeros behind",
            "lz4, nonsense behind",
            "lz4, checksums, nonsense behind",
        )
        for size in ("", ", large")
    ),
}


NOT_LED_YET = (3, 6)  # UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER: of a partition that was just made


class Sent(NamedTuple):
    topic: str
    partition: int
    error_code: int
    end: int


@pytest.fixture(scope="module")
def sent(kafka_broker):
    """Each form by its name, sent between two ordinary batches."""
    topics = {False: f"odd-{NOW}", True: f"odd-append-{NOW}"}
    forms = {appended: [name for name in FORMS if name.endswith("LogAppendTime") == appended] for appended in topics}
    found = {}
    with Cluster(ClientConfig.of(kafka_broker.bootstrap_servers)) as cluster:
        for appended, topic in topics.items():
            kind = "LogAppendTime" if appended else "CreateTime"
            cluster.topics.create([topic], partitions=len(forms[appended]), configs={"message.timestamp.type": kind})
            cluster.topics.describe([topic])
            odd = [batch(**{"base_timestamp": NOW} | FORMS[name]) for name in forms[appended]]
            ordinary = [batch(base_timestamp=NOW)] * len(odd)
            _, codes, after = (produced(cluster, topic, batches) for batches in (ordinary, odd, ordinary))
            for partition, name in enumerate(forms[appended]):
                found[name] = Sent(topic, partition, codes[partition][0], after[partition][1] + 1)
        yield found
        cluster.topics.delete(list(topics.values()))


def produced(cluster, topic, batches):
    """Send each batch to its partition, in a request of its own, and return the error codes and base offsets."""
    leader = cluster.leaders.of(TopicPartition(topic, 0))
    found = []
    for partition, data in enumerate(batches):

        def body(version, rows=({"index": partition, "records": data},)):
            named = {"topic_id": cluster.metadata.topic_id(topic)} if version >= 13 else {"name": topic}
            sent = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000}
            return {**sent, "topic_data": [{**named, "partition_data": list(rows)}]}

        eventually(lambda: found.append(answer_to(cluster, leader, body)) or found[-1][0] not in NOT_LED_YET)
        found[partition:] = found[-1:]
    return found


def answer_to(cluster, leader, body):
    (answer,) = cluster.caller.call(leader, PRODUCE, body)["responses"]
    (row,) = answer["partition_responses"]
    return row["error_code"], row["base_offset"]


@pytest.fixture(scope="module")
def stored(sent):
    return {name: one for name, one in sent.items() if not one.error_code}


@pytest.fixture(scope="module")
def java(kafka_broker, stored):
    """The rows that Kafka's own consumer reads, by form."""
    commands = [[kafka_broker.bootstrap_servers, one.topic, one.partition, 0, one.end] for one in stored.values()]
    answers = ask_java(Path(__file__).with_name("KafkaConsume.java"), commands)
    return {name: [row_of_java(word) for word in line.split()] for name, line in zip(stored, answers, strict=True)}


def row_of_java(word):
    offset, timestamp, _, key, value, *headers = word.split(",")
    pairs = [pair.split(":") for pair in headers]
    named = tuple((bytes.fromhex(name).decode(), unhexed(data)) for name, data in pairs)
    return Row(int(offset), int(timestamp), unhexed(key), unhexed(value), named)


def unhexed(text):
    return None if text == "-" else bytes.fromhex(text)


@pytest.fixture(scope="module")
def librdkafka(kafka_broker, stored):
    """The rows that confluent-kafka reads, by form."""
    found = {}
    asked = sorted((*one[:2], name) for name, one in stored.items() if name not in NOT_WITH_LIBRDKAFKA)
    for topic, group in groupby(asked, key=lambda one: one[0]):
        names = {partition: name for _, partition, name in group}
        for message in messages_of(kafka_broker.bootstrap_servers, topic, names):
            row = Row(
                message.offset(),
                message.timestamp()[1],
                message.key(),
                message.value(),
                tuple(message.headers() or ()),
            )
            found.setdefault(names[message.partition()], []).append(row)
    return found


def rows_of_ours(bootstrap_servers, one):
    chosen = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "assign": json.dumps({one.topic: [one.partition]}),
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    rows = []
    with Reader(chosen) as reader:
        for arrow in reader:
            columns = [arrow.column(name).to_pylist() for name in ("offset", "key", "value", "headers")]
            times = arrow.column("timestamp").cast(pa.int64()).to_pylist()
            for offset, key, value, headers, time_us in zip(*columns, times, strict=True):
                pairs = tuple((header["key"], header["value"]) for header in headers or ())
                rows.append(Row(offset, time_us // 1000, key, value, pairs))
    return rows


def test_the_broker_stores_all_but_these(sent, stored):
    assert set(sent) - set(stored) == REFUSED


@pytest.mark.parametrize("form", [name for name in FORMS if name not in REFUSED])
def test_we_read_what_javas_consumer_reads_of_what_a_broker_stores(kafka_broker, stored, java, form):
    expected = OURS.get(form)
    if isinstance(expected, str):
        with pytest.raises(CorruptRecordBatch, match=expected):
            rows_of_ours(kafka_broker.bootstrap_servers, stored[form])
        return
    ours = rows_of_ours(kafka_broker.bootstrap_servers, stored[form])
    if expected is None:
        assert ours == java[form]
    else:
        assert [row.value for row in ours] == [b"v", *expected, b"v"]
        assert [row.offset for row in ours] == list(range(len(expected) + 2))
        assert {row.value for row in java[form]} <= {row.value for row in ours}


def test_librdkafka_reads_the_same_of_the_forms_that_it_can_read(java, librdkafka):
    assert len(librdkafka) > 30
    for form, rows in librdkafka.items():
        assert rows == java[form], form
