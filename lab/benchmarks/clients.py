"""The other Python clients, each run in a process of its own: one consumer or producer, outside Spark.

What is compared: they read the same topic into Python objects (key, value, partition, offset, timestamp of each
message touched), or write from Python objects in memory; Spark's contestants move the same records into or out of a
DataFrame, with two tasks at a time. Timed from making the client to the last record, or to the last acknowledgement;
the start of the process and imports are not counted. confluent-kafka is tuned: its defaults stall in a fetch back-off.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

PATIENCE_S = 20.0
Headers = list[tuple[str, bytes]] | None

# Of the records that Spark's contestants move, the share that a client of this speed is given; rates are scaled.
SHARE = {"confluent-kafka": 0.5, "aiokafka": 0.1, "kafka-python": 0.05}
CLIENTS = tuple(SHARE)

# Settings of a librdkafka consumer that reads as fast as it can.
TUNED = {"check.crcs": True, "queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 5}


class ClientFailed(Exception):
    """The client's process ended with an error; the text is its last line."""


def run(task: str, client: str, **arguments: Any) -> dict[str, Any]:
    """Run one of `TASKS` in a process of its own, and give what it answered. Raises ClientFailed."""
    return finish(start(task, client, **arguments))


def start(task: str, client: str, **arguments: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "lab.benchmarks.clients", json.dumps([task, client, arguments])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))


def finish(process: subprocess.Popen[str], timeout_s: float = 300) -> dict[str, Any]:
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as late:
        process.kill()
        process.communicate()
        raise ClientFailed(f"no end after {timeout_s:.0f} s") from late
    if process.returncode != 0:
        raise ClientFailed((err.strip().splitlines() or [f"exit code {process.returncode}"])[-1])
    answer: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return answer


# Reading.


def read_confluent(servers: str, topic: str, partitions: int, records: int) -> dict[str, Any]:
    from confluent_kafka import Consumer, TopicPartition

    started = time.perf_counter()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "benchmark", "enable.auto.commit": False, **TUNED})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    seen = 0
    while seen < records:
        messages = consumer.consume(min(10_000, records - seen), timeout=PATIENCE_S)
        if not messages:
            raise TimeoutError(f"only {seen} of {records} records")
        for message in messages:
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
            message.key(), message.value(), message.partition(), message.offset(), message.timestamp()
        seen += len(messages)
    seconds = time.perf_counter() - started
    consumer.close()
    return {"seconds": seconds, "records": seen}


def read_kafka_python(servers: str, topic: str, partitions: int, records: int) -> dict[str, Any]:
    from kafka import KafkaConsumer, TopicPartition

    started = time.perf_counter()
    consumer = KafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, p) for p in range(partitions)])
    seen, deadline = 0, started + PATIENCE_S
    while seen < records:
        for messages in consumer.poll(timeout_ms=1000, max_records=10_000).values():
            deadline = time.perf_counter() + PATIENCE_S
            for message in messages:
                message.key, message.value, message.partition, message.offset, message.timestamp  # noqa: B018
            seen += len(messages)
        if time.perf_counter() > deadline:
            raise TimeoutError(f"only {seen} of {records} records")
    seconds = time.perf_counter() - started
    consumer.close()
    return {"seconds": seconds, "records": seen}


def read_aiokafka(servers: str, topic: str, partitions: int, records: int) -> dict[str, Any]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> dict[str, Any]:
        started = time.perf_counter()
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([TopicPartition(topic, p) for p in range(partitions)])
        seen, deadline = 0, started + PATIENCE_S
        while seen < records:
            for messages in (await consumer.getmany(timeout_ms=1000, max_records=10_000)).values():
                deadline = time.perf_counter() + PATIENCE_S
                for message in messages:
                    message.key, message.value, message.partition, message.offset, message.timestamp  # noqa: B018
                seen += len(messages)
            if time.perf_counter() > deadline:
                raise TimeoutError(f"only {seen} of {records} records")
        seconds = time.perf_counter() - started
        await consumer.stop()
        return {"seconds": seconds, "records": seen}

    return asyncio.run(read())


# Writing.


def _values(size: int) -> list[bytes]:
    """Ten thousand different texts as `records.value_sql` makes them, near enough."""
    draw = random.Random(1)
    filler = b"the same words in every record, as field names and constants are; "
    values = []
    for i in range(10_000):
        if size < 242:
            text = b'{"id":%d,"user":"%016X","session":"%016X"}' % (i, draw.getrandbits(64), draw.getrandbits(64))
        else:
            text = b"".join(
                b'"field-%d":"%016X","text":"%s",' % (k, draw.getrandbits(64), filler) for k in range(size // 121)
            )
        values.append(text.ljust(size)[:size])
    return values


def _headers(count: int) -> Headers:
    return [(f"header-{i}", b"%08d" % i) for i in range(count)] or None


def write_confluent(
    servers: str, topic: str, records: int, value_bytes: int, codec: str, headers: int
) -> dict[str, Any]:
    from confluent_kafka import Producer

    values, given = _values(value_bytes), _headers(headers)
    failures: list[str] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(str(error))

    started = time.perf_counter()
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "compression.type": codec,
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
            "on_delivery": delivered,
        }
    )
    arguments = {"headers": given} if given else {}
    for i in range(records):
        while True:
            try:
                producer.produce(topic, key=b"%07d" % i, value=values[i % 10_000], **arguments)
                break
            except BufferError:
                producer.poll(0.01)
        if i % 10_000 == 0:
            producer.poll(0)
    left = producer.flush(PATIENCE_S)
    seconds = time.perf_counter() - started
    if left or failures:
        raise RuntimeError((failures or [f"{left} records not acknowledged"])[0])
    return {"seconds": seconds, "records": records}


def write_kafka_python(
    servers: str, topic: str, records: int, value_bytes: int, codec: str, headers: int
) -> dict[str, Any]:
    from kafka import KafkaProducer

    values, given = _values(value_bytes), _headers(headers)
    started = time.perf_counter()
    producer = KafkaProducer(
        bootstrap_servers=servers,
        compression_type=None if codec == "none" else codec,
        acks="all",
        linger_ms=20,
        batch_size=262_144,
    )
    futures = []
    for i in range(records):
        futures.append(producer.send(topic, key=b"%07d" % i, value=values[i % 10_000], headers=given or []))
    producer.flush(PATIENCE_S)
    seconds = time.perf_counter() - started
    for future in futures:
        future.get(timeout=1)
    producer.close()
    return {"seconds": seconds, "records": records}


def write_aiokafka(
    servers: str, topic: str, records: int, value_bytes: int, codec: str, headers: int
) -> dict[str, Any]:
    from aiokafka import AIOKafkaProducer

    values, given = _values(value_bytes), _headers(headers)

    async def write() -> dict[str, Any]:
        started = time.perf_counter()
        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=True,
            linger_ms=20,
            max_batch_size=262_144,
        )
        await producer.start()
        pending = []
        for i in range(records):
            pending.append(await producer.send(topic, key=b"%07d" % i, value=values[i % 10_000], headers=given))
        await asyncio.gather(*pending)
        seconds = time.perf_counter() - started
        await producer.stop()
        return {"seconds": seconds, "records": records}

    return asyncio.run(write())


# At a fixed rate, for latency and for the reader that keeps up.


def produce_at_rate(
    servers: str, topic: str, rate: float, seconds: float, value_bytes: int, codec: str = "none"
) -> dict[str, Any]:
    """Produce `rate` records a second, evenly over the partitions; each begins with when it was made (µs).

    `made` has, for each tick of some ms, (the time in µs since the epoch, how many records were made by then).
    """
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1, "compression.type": codec})
    partitions = len(producer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)
    tails = [value[16:] for value in _values(max(value_bytes, 17))]
    made: list[tuple[int, int]] = []
    sent, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        now_us = time.time_ns() // 1000
        for _ in range(int(elapsed * rate) - sent):
            producer.produce(topic, value=b"%016d" % now_us + tails[sent % 10_000], partition=sent % partitions)
            sent += 1
        made.append((now_us, sent))
        producer.poll(0.002)
    producer.flush(PATIENCE_S)
    return {"records": sent, "seconds": time.perf_counter() - started, "made": made}


def pipe(servers: str, source: str, target: str, partitions: int, seconds: float) -> dict[str, Any]:
    """Consume and produce again as each message comes: the shortest way between two topics without Spark."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "benchmark-pipe", "fetch.wait.max.ms": 50})
    consumer.assign([TopicPartition(source, p, 0) for p in range(partitions)])
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    moved, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            producer.produce(target, value=message.value())
            moved += 1
        producer.poll(0)
    producer.flush(PATIENCE_S)
    consumer.close()
    return {"records": moved}


def latencies(servers: str, topic: str, partitions: int, since_us: int) -> dict[str, Any]:
    """Of a topic with LogAppendTime: from when each record was made (its value says) to when the broker stored it.

    In ms, those made at `since_us` or later, as 1001 quantiles.
    """
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "benchmark-latency", "enable.auto.commit": False})
    left = sum(consumer.get_watermark_offsets(TopicPartition(topic, p), PATIENCE_S)[1] for p in range(partitions))
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    found = []
    while left:
        messages = consumer.consume(min(left, 10_000), timeout=PATIENCE_S)
        if not messages:
            raise TimeoutError(f"{left} records did not come")
        left -= len(messages)
        for message in messages:
            made_us = int(message.value()[:16])
            if made_us >= since_us:
                found.append(message.timestamp()[1] - made_us / 1000)
    consumer.close()
    return _quantiles(found)


def _quantiles(found: list[float]) -> dict[str, Any]:
    """1001 of them."""
    found.sort()
    last = len(found) - 1
    return {"records": len(found), "ms": [found[last * i // 1000] for i in range(1001)] if found else []}


def round_trips(
    servers: str, source: str, target: str, partitions: int, rate: float, seconds: float, warm_up_s: float
) -> dict[str, Any]:
    """From when each record was made for one topic to when a consumer of committed records has it from another.

    In ms, those made after the warm-up, as 1001 quantiles. Ends when all have come.
    """
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "benchmark-round-trips",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(target, p, 0) for p in range(partitions)])
    found: list[float] = []
    received, heard, since_us = 0, time.monotonic(), time.time() * 1e6 + warm_up_s * 1e6
    with ThreadPoolExecutor(1) as pool:
        producing = pool.submit(produce_at_rate, servers, source, rate, warm_up_s + seconds, 100)
        while not producing.done() or received < producing.result()["records"]:
            if (first := consumer.poll(0.1)) is None:
                if time.monotonic() - heard > PATIENCE_S:
                    raise TimeoutError(f"no record came for {PATIENCE_S:.0f} s, after {received}")
                continue
            messages = [first, *consumer.consume(10_000, timeout=0)]
            now_us, heard = time.time_ns() / 1000, time.monotonic()
            received += len(messages)
            made = (int(message.value()[:16]) for message in messages)
            found += [(now_us - made_us) / 1000 for made_us in made if made_us >= since_us]
    consumer.close()
    return _quantiles(found)


def checksums(servers: str, topic: str, partitions: int) -> dict[str, Any]:
    """What correctness.py compares: per (partition, offset // 10,000), the rows and the sum of their CRC32."""
    from zlib import crc32

    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "benchmark-sums", "check.crcs": True, "fetch.queue.backoff.ms": 5}
    )
    ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), PATIENCE_S)[1] for p in range(partitions)}
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    left = sum(ends.values())
    sums: dict[str, tuple[int, int]] = {}
    while left:
        messages = consumer.consume(min(left, 10_000), timeout=PATIENCE_S)
        if not messages:
            raise TimeoutError(f"{left} records did not come")
        left -= len(messages)
        for message in messages:
            partition, offset, key, value = message.partition(), message.offset(), message.key(), message.value()
            text = b"%d:%d:" % (partition, offset)
            text += b"null" if key is None else b"=" + key
            text += b":null" if value is None else b"=" + value
            bucket = f"{partition}:{offset // 10_000}"
            rows, total = sums.get(bucket, (0, 0))
            sums[bucket] = (rows + 1, total + crc32(text))
    consumer.close()
    return {"sums": sums}


def fill(servers: str, topic: str, records: int, codec: str) -> dict[str, Any]:
    """Records with null, empty and ordinary keys and values, by confluent-kafka, for correctness.py."""
    from confluent_kafka import Producer

    values = _values(100)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "compression.type": codec,
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
        }
    )
    for i in range(records):
        key = None if i % 10 == 0 else b"" if i % 10 == 1 else b"key-%d" % i
        value = None if i % 100 == 7 else b"" if i % 100 == 8 else values[i % 10_000]
        while True:
            try:
                producer.produce(topic, key=key, value=value)
                break
            except BufferError:
                producer.poll(0.01)
    if left := producer.flush(60):
        raise RuntimeError(f"{left} records not acknowledged")
    return {"records": records}


TASKS: dict[tuple[str, str], Callable[..., dict[str, Any]]] = {
    ("read", "confluent-kafka"): read_confluent,
    ("read", "kafka-python"): read_kafka_python,
    ("read", "aiokafka"): read_aiokafka,
    ("write", "confluent-kafka"): write_confluent,
    ("write", "kafka-python"): write_kafka_python,
    ("write", "aiokafka"): write_aiokafka,
    ("produce", "confluent-kafka"): produce_at_rate,
    ("pipe", "confluent-kafka"): pipe,
    ("latencies", "confluent-kafka"): latencies,
    ("round-trips", "confluent-kafka"): round_trips,
    ("checksums", "confluent-kafka"): checksums,
    ("fill", "confluent-kafka"): fill,
}


def main() -> None:
    task, client, arguments = json.loads(sys.argv[1])
    print(json.dumps(TASKS[task, client](**arguments)))


if __name__ == "__main__":
    main()
