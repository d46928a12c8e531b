"""A stream that writes exactly once to real brokers, as Spark calls its writers, without Spark; and its crashes."""

import itertools
import json
import pickle
import shutil
import tempfile
import uuid
import weakref
from collections import Counter
from pathlib import Path

import confluent_kafka
import pyarrow as pa
from confluent_reader import values_of
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType
from transaction_fakes import FakeContext

from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.sink import writer
from kafkasource.sink.clusters import targets
from lab.campaign import crash_points

SCHEMA = StructType([StructField("value", BinaryType()), StructField("partition", IntegerType())])
SLOTS, ROWS = 4, 50
_names = itertools.count()


class Crash(Exception):
    pass


class Query:
    """Spark's part: the checkpoint, and who is called when."""

    def __init__(self, servers, monkeypatch, judge=None, **written):
        """`judge`: how confluent-kafka connects, where `servers` does not say all."""
        self.servers, self.monkeypatch = servers, monkeypatch
        self.judge = {"bootstrap.servers": servers, **(judge or {})}
        self.topic = f"once-{next(_names)}-{uuid.uuid4().hex[:6]}"
        self.query_id = str(uuid.uuid4())
        self.atomic = written.get("atomicBatch") == "true"
        checkpoint = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, checkpoint, ignore_errors=True)  # it goes with the query
        (Path(checkpoint) / "metadata").write_text(json.dumps({"id": self.query_id}))
        self.options = {
            "kafka.bootstrap.servers": servers,
            "topic": self.topic,
            "checkpointlocation": checkpoint,
            "deliveryGuarantee": "exactly_once",
        } | written
        self.make_topic()
        self.done = set()
        self.crash_at = None
        monkeypatch.setattr(writer.TaskContext, "get", lambda: self.context)  # type: ignore[attr-defined]
        for point in crash_points.TABLE:
            crash_points.wrap(point, lambda name: self.crash_point(name), monkeypatch.setattr)

    def make_topic(self):
        with Cluster(ClientConfig.of(self.servers)) as cluster:
            cluster.topics.create([self.topic], partitions=SLOTS, replication_factor=len(self.servers.split(",")))

    def crash_point(self, name):
        if name == self.crash_at:
            self.crash_at = None
            raise Crash(name)

    def writer(self, written=None):
        return writer.StreamWriter(targets.parse(self.options | (written or {})), SCHEMA)

    def run_batch(self, batch_id, messages=None):
        """`messages` is given those of the tasks."""
        sent = pickle.dumps(self.writer())
        messages = [] if messages is None else messages
        try:
            for slot in range(SLOTS):
                self.context = FakeContext(slot, batch_id=batch_id, query_id=self.query_id)
                messages.append(pickle.loads(pickle.dumps(pickle.loads(sent).write(self.rows(batch_id, slot)))))
            self.context = None
            self.writer().commit(messages, batch_id)
        except Crash:
            raise
        except Exception:
            self.context = None
            self.writer().abort([*messages, *[None] * (SLOTS - len(messages))], batch_id)
            raise
        self.done.add(batch_id)

    def run(self, batches):
        for batch_id in range(batches):
            if batch_id not in self.done:
                self.run_batch(batch_id)

    def rows(self, batch_id, slot):
        values = [f"{batch_id}/{slot}/{row}".encode() for row in range(ROWS)]
        to = [slot if self.atomic else None] * ROWS  # in one transaction each partition has one task
        yield pa.record_batch([pa.array(values, pa.binary()), pa.array(to, pa.int32())], names=["value", "partition"])

    def expected(self, batches):
        return Counter(f"{b}/{s}/{r}" for b in range(batches) for s in range(SLOTS) for r in range(ROWS))

    def seen_up_to_a_later_record(self):
        """What `seen` gives once it is past a record written now to each partition: no transaction is open there."""
        producer = confluent_kafka.Producer({**self.judge, "log_level": 0})
        for partition in range(SLOTS):
            producer.produce(self.topic, b"after", partition=partition)
        producer.flush(30)
        seen = self.seen()
        while seen["after"] < SLOTS:  # abort markers may be some milliseconds behind
            seen = self.seen()
        return seen - Counter(after=SLOTS)

    def seen(self):
        found = values_of(self.judge, self.topic, range(SLOTS), settled=True)
        return Counter(value.decode() for values in found.values() for value in values)
