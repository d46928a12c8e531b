"""A process that writes as Spark's Python worker does, for one task after the other, and tells how much memory it took.

    python memory_worker.py '{"servers": ..., "proxy": [host, port], "topic": ..., "options": {...}}'

Takes a number of bytes a line on stdin, writes so many as one task, and answers with a line of JSON.
"""

import json
import sys
import time
from pathlib import Path

import pyarrow as pa
from proxy import Proxy, ThroughProxy
from pyspark.sql.types import BinaryType, StructField, StructType

from kafkasource.kafka.network.network_client import NetworkClient
from kafkasource.sink.clusters import producers as producers_module
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.producers import ClusterProducers
from kafkasource.sink.clusters.targets import ONLY
from kafkasource.sink.writer import StreamWriter

ROWS, VALUE_BYTES = 10_000, 100  # of an Arrow batch, as Spark hands them over


def memory():
    """VmHWM, the peak: of this program alone, where getrusage counts the one that started it, too. RssFile: pages of
    files, so the code of libraries, shared with every other worker."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith(" kB")}
    return {"peak": kilobytes["VmHWM"] * 1024, "shared": kilobytes["RssFile"] * 1024}


def batches(size):
    """Each made when it is wanted, as from a socket."""
    for number in range(0, size // VALUE_BYTES, ROWS):
        values = [b"%0*d" % (VALUE_BYTES, row) for row in range(number, number + ROWS)]
        yield pa.record_batch([pa.array(values, pa.binary())], names=["value"])


def main(told):
    written = {"kafka.bootstrap.servers": told["servers"], "topic": told["topic"], **told["options"]}
    named = targets.parse(written)
    target = named.by_name[ONLY]
    proxy = Proxy()
    proxy.address = tuple(told["proxy"])
    client = NetworkClient(target.config.client, connector=ThroughProxy(target.config.client, proxy))
    producers_module._cache.values[target] = ClusterProducers(target, clients=[client])
    writer = StreamWriter(named, StructType([StructField("value", BinaryType())]))
    for line in sys.stdin:
        started = time.monotonic()
        report = writer.write(batches(int(line)))
        seconds = time.monotonic() - started
        print(json.dumps({"records": report.clusters[ONLY].records, "seconds": seconds, **memory()}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
