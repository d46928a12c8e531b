"""Reads and writes over TLS 1.3 with one cipher for all, and what TLS costs our own client beside OpenSSL alone.

One broker has a TLS and a PLAINTEXT listener. Spark's contestants and `pykafka, PLAINTEXT` take turns on it. What TLS
costs the client is the processor time of a `Reader` and a `Writer` in this process, for each GB of keys and values: the
broker's and Spark's are not in it.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from kafkasource.reader import Reader
from kafkasource.testing.broker import Listener, Security
from kafkasource.writer import Writer
from lab.benchmarks.lab import Lab
from lab.benchmarks.read import readers
from lab.benchmarks.records import KEY_BYTES, Records
from lab.benchmarks.results import CPU_PER_GB, OURS, Row
from lab.benchmarks.stages import Effort, compare
from lab.benchmarks.turns import Run
from lab.benchmarks.write import Topics, writers

TITLE = "TLS 1.3, TLS_AES_256_GCM_SHA384, batch read and write"

CIPHER = {"kafka.ssl.enabled.protocols": "TLSv1.3", "kafka.ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}
GB = 1e9
_ROWS_AT_ONCE = 50_000


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    with lab.beside(Security((Listener("SSL"),))) as secured:
        tls = {f"kafka.{name}": text for name, text in secured.broker.secured.client_properties("SSL").items()}
        secured.way_in = {**tls, **CIPHER}
        for records in (Records(effort.rows(2_000_000)), Records(effort.rows(500_000), value_bytes=1000)):
            yield from reads(secured, effort, records)
        for records in (Records(effort.rows(1_000_000)), Records(effort.rows(300_000), value_bytes=1000)):
            yield from writes(secured, effort, records)
    yield from openssl()


def with_and_without(lab: Lab, make: Callable[[], Mapping[str, Run]]) -> dict[str, Run]:
    """Ours and the JVM connector over TLS, and ours without."""
    found = make()
    contestants = {name: found[name] for name in (OURS, "jvm")}
    way_in, lab.way_in = lab.way_in, {}
    contestants["pykafka, PLAINTEXT"] = make()[OURS]
    lab.way_in = way_in
    return contestants


def reads(lab: Lab, effort: Effort, records: Records) -> Iterator[Row]:
    with lab.topic_of(records) as topic:
        work = f"read {records.name}"
        contestants = with_and_without(lab, lambda: readers(lab, topic, records))
        yield from compare(f"{work}, TLS 1.3", contestants, effort.turns, records=records)

        def client(reach: Mapping[str, str]) -> Callable[[], int]:
            def read() -> int:
                with Reader({**reach, "subscribe": topic, "startingOffsets": "earliest"}) as reader:
                    rows: int = sum(batch.num_rows for batch in reader)
                return rows * (KEY_BYTES + records.value_bytes)

            return read

        yield from _own_cost(lab, effort, work, client)


def writes(lab: Lab, effort: Effort, records: Records) -> Iterator[Row]:
    work, topics = f"write {records.name}", Topics(lab, records.partitions)
    contestants = with_and_without(lab, lambda: writers(lab, records, topics.new))
    yield from compare(f"{work}, TLS 1.3", contestants, effort.turns, records=records)
    count = min(records.rows, _ROWS_AT_ONCE)
    keys = [b"%07d" % number for number in range(count)]
    rows = pa.table({"key": keys, "value": [b"v" * records.value_bytes] * count})

    def client(reach: Mapping[str, str]) -> Callable[[], int]:
        def write() -> int:
            with Writer({**reach, "topic": topics.new()}) as writer:
                for _ in range(records.rows // count):
                    writer.write(rows)
            return records.rows // count * count * (KEY_BYTES + records.value_bytes)

        return write

    yield from _own_cost(lab, effort, work, client)
    topics.drop()


def _own_cost(
    lab: Lab, effort: Effort, work: str, client: Callable[[Mapping[str, str]], Callable[[], int]]
) -> Iterator[Row]:
    """Processor time of this process alone, for each GB."""

    def cost(moved: Callable[[], int]) -> Run:
        def run() -> float:
            started = time.process_time()
            size = moved()
            return (time.process_time() - started) / (size / GB)

        return run

    contestants = {
        "client, TLS 1.3": cost(client(lab.reach)),
        "client, PLAINTEXT": cost(client({"kafka.bootstrap.servers": lab.servers})),
    }
    yield from compare(f"{work}, the client's own cost", contestants, effort.turns, measure=CPU_PER_GB, cpu=False)


def openssl() -> Iterator[Row]:
    """The limit: OpenSSL's own AES-256-GCM in pieces of a TLS record, each way."""
    for name, word in (("encrypt", []), ("decrypt", ["-decrypt"])):
        command = ["openssl", "speed", "-seconds", "1", "-bytes", "16384", "-evp", "aes-256-gcm", *word]
        found: list[float] = []
        for _ in range(3):
            out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
            rate = re.search(r"([0-9.]+)k\s*$", out)
            if rate is None:
                raise RuntimeError("openssl speed says nothing that is known")
            found.append(GB / (float(rate[1]) * 1000))
        yield Row(f"AES-256-GCM, {name}", "openssl speed", CPU_PER_GB, tuple(found))
