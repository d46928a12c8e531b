"""Runs a parity case through one connector. Topics are made, filled and cut by confluent-kafka, which is neither."""

from __future__ import annotations

import contextlib
import itertools
import json
import string
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import confluent_kafka
import parity
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from parity import Seen
from parity_writes import REGISTERING, Writes
from pyspark.sql import functions as F

import kafkasource
from kafkasource.spark import releases

PATIENCE_S = 60  # for a query to end, and for what Kafka does in its own time

# Options of both connectors, unless a case says otherwise: do not wait for records at the end of a log (the JVM
# connector's offset requests queue behind that), nor a second before a failed question is asked again.
QUICK = {"kafka.fetch.max.wait.ms": "20", "fetchOffset.retryIntervalMs": "10"}


class Kafka:
    """The broker, with the steps of the cases. All names begin with `run`."""

    def __init__(self, bootstrap_servers, run):
        self.bootstrap_servers = bootstrap_servers
        self.run = run
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        self.ends = {}  # next offset, by (topic, partition)
        self.generation = {}  # times that a topic of this name was made
        self._open = []  # producers whose transaction never ends

    def create(self, topic, partitions=1, records=0):
        """A topic that keeps records of any age, with this many records in each partition."""
        deadline = time.monotonic() + PATIENCE_S
        while True:  # a topic of that name may still be going away
            try:
                self.admin.create_topics([NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})])[
                    topic
                ].result()
                break
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self.generation[topic] = self.generation.get(topic, 0) + 1
        self.ends |= {(topic, partition): 0 for partition in range(partitions)}
        self.produce(topic, records if isinstance(records, Mapping) else dict.fromkeys(range(partitions), records))

    def produce(self, topic, records, timestamp=None):
        """Write this many more records to each of these partitions."""
        producer = self._producer()
        given = {} if timestamp is None else {"timestamp": timestamp}
        for partition, count in records.items():
            for _ in range(count):
                self._produce_one(producer, topic, partition, **given)
        assert producer.flush(PATIENCE_S) == 0

    def _producer(self, **config):
        servers = {"bootstrap.servers": self.bootstrap_servers, "linger.ms": 2, "log_level": 0}
        return confluent_kafka.Producer(servers | config)

    def _produce_one(self, producer, topic, partition, **record):
        offset = self.ends[topic, partition]
        value = f"{self.generation[topic]}:{partition}-{offset}"
        record = {"key": f"key-{offset}", "value": value, "timestamp": parity.T0 + 1000 * offset, **record}
        producer.produce(topic, partition=partition, on_delivery=_delivered, **record)
        self.ends[topic, partition] = offset + 1

    def transaction(self, topic, count, end):
        """Write this many records to partition 0, in a transaction that is committed, aborted, or left open."""
        producer = self._producer(
            **{"transactional.id": f"{topic}-{self.ends[topic, 0]}", "transaction.timeout.ms": 900_000}
        )
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        for _ in range(count):
            self._produce_one(producer, topic, 0)
        producer.flush(PATIENCE_S)
        if end == "open":
            self._open.append(producer)
            return
        producer.commit_transaction(PATIENCE_S) if end == "commit" else producer.abort_transaction(PATIENCE_S)
        self.ends[topic, 0] += 1  # the marker

    def add_partitions(self, topic, total):
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result()
        for partition in range(total):
            self.ends.setdefault((topic, partition), 0)
        self._await(lambda: len(self._metadata().topics[topic].partitions) == total)

    def delete_records(self, topic, before):
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        for done in self.admin.delete_records(wanted).values():
            done.result()

    def delete(self, topic):
        self.admin.delete_topics([topic])[topic].result()
        self._await(lambda: topic not in self._metadata().topics)

    def committed(self, group, topics):
        """{topic: {partition: offset}} of the offsets that a group has committed."""
        with closing(self._consumer(group)) as consumer:
            found = consumer.committed([TopicPartition(t, p) for t, p in self.ends if t in topics], timeout=PATIENCE_S)
        ends = {}
        for tp in found:
            if tp.offset >= 0:
                ends.setdefault(tp.topic, {})[str(tp.partition)] = tp.offset
        return ends

    def commit(self, group, topic, offsets):
        wanted = [TopicPartition(topic, p, o) for p, o in offsets.items()]

        def committed():
            try:
                consumer.commit(offsets=wanted, asynchronous=False)
            except KafkaException as error:
                if error.args[0].name() != "COORDINATOR_LOAD_IN_PROGRESS":  # of a broker that has just started
                    raise
                return False
            return True

        with closing(self._consumer(group)) as consumer:
            self._await(committed)

    def _consumer(self, group):
        return confluent_kafka.Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": group})

    def close(self):
        """End what was left open, and delete all topics of this run."""
        for producer in self._open:
            with contextlib.suppress(KafkaException):
                producer.abort_transaction(PATIENCE_S)
        topics = [topic for topic in self._metadata().topics if topic.startswith(self.run)]
        for done in self.admin.delete_topics(topics).values():
            done.result()

    def _metadata(self):
        return self.admin.list_topics(timeout=PATIENCE_S)

    @staticmethod
    def _await(done):
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < deadline, "Kafka did not get there"
            time.sleep(0.02)


def _delivered(error, _):
    if error is not None:
        raise KafkaException(error)


def make_shared_topics(kafka):
    """`parity.Case.SHARED`: what the cases that change nothing read."""
    names = {name: f"{kafka.run}-{name}" for name in parity.Case.SHARED}
    kafka.create(names["numbers"], 3, {0: 101, 1: 11, 2: 1})
    kafka.create(names["other"], 1, 5)
    kafka.create(names["aged"], 1, 8)
    kafka.delete_records(names["aged"], {0: 4})
    kafka.create(names["empty"], 1)
    kafka.create(names["headers"], 1)
    producer = kafka._producer()
    several = [("h", b"1"), ("a", None), ("h", b""), ("h", None)]
    for record in (
        {"headers": None},
        {"headers": []},
        {"headers": several, "key": None},
        {"headers": [("one", b"1")], "key": b"", "value": b""},
        {"headers": None, "value": None},
        {"headers": None, "key": None, "value": bytes(range(256))},
    ):
        kafka._produce_one(producer, names["headers"], 0, **record)
    assert producer.flush(PATIENCE_S) == 0
    # Offsets: 0-2 committed, 4-6 aborted, 8-9 committed, 11-12 open; markers at 3, 7 and 10.
    kafka.create(names["transactions"], 1)
    for count, end in ((3, "commit"), (3, "abort"), (2, "commit"), (2, "open")):
        kafka.transaction(names["transactions"], count, end)
    kafka.commit(f"{kafka.run}-group", names["numbers"], {0: 90, 1: 5})
    return names


SPARK_TOO_BUSY = "Python worker failed to connect back"  # within the ten seconds that Spark gives it


class Run(Writes):
    """One case through one connector, `kafka` or `pykafka`; `seen` is what each of its reads saw."""

    _numbers = itertools.count()

    def __init__(self, spark, kafka, shared, format_name, folder):
        self.spark = spark
        self.kafka = kafka
        self.started_as = self.format = format_name
        self.checkpoint = Path(folder, f"checkpoint-{format_name}")
        own = f"{kafka.run}-{next(Run._numbers)}"
        self.names = {
            "run": kafka.run,
            "mine": f"{own}-mine",
            "mine2": f"{own}-mine2",
            "group": f"{own}-group",
            **shared,
        }
        self._placeholders = {name: placeholder for placeholder, name in self.names.items() if placeholder != "run"}
        self.frame = None  # of the last batch read
        self.seen = []

    def fill(self, text):
        """A text of the case with the real names in it."""
        return string.Template(text).substitute(self.names)

    def do(self, steps):
        for step in steps:
            getattr(self, "_" + type(step).__name__.lower())(step)
        return self.seen

    # Kafka

    def _topic(self, step):
        self.kafka.create(self.names[step.name], step.partitions, step.records)

    def _produce(self, step):
        records = step.records if isinstance(step.records, Mapping) else {0: step.records}
        self.kafka.produce(self.names[step.name], records, step.timestamp)

    def _addpartitions(self, step):
        self.kafka.add_partitions(self.names[step.name], step.total)

    def _deleterecords(self, step):
        self.kafka.delete_records(self.names[step.name], step.before)

    def _deletetopic(self, step):
        self.kafka.delete(self.names[step.name])

    def _change(self, _):
        self.format = {"kafka": "pykafka", "pykafka": "kafka"}[self.format]

    # Reads

    def _options(self, step, **chosen):
        """The options of a read, with the real names in them."""
        options = {"kafka.bootstrap.servers": self.kafka.bootstrap_servers, **QUICK, **chosen, **step.options}
        if not any(key.lower() in ("subscribe", "subscribepattern", "assign") for key in options):
            options["subscribe"] = "$numbers"
        return {key: self.fill(text) for key, text in options.items() if text is not None}

    def _load(self, reader, step, **chosen):
        reader = reader.options(**self._options(step, **chosen))
        if step.schema is not None:
            reader = reader.schema(step.schema)
        return reader.format(self.format).load()

    @contextlib.contextmanager
    def _watched(self):
        """A new outcome; an error of the block becomes part of it."""
        seen = Seen()
        self.seen.append(seen)
        try:
            yield seen
        except Exception as error:
            java = getattr(error, "java_exception", None)  # what no class of pyspark's stands for
            text = f"{error}\n{java.toString()}" if java is not None else str(error)
            for name, placeholder in self._placeholders.items():
                text = text.replace(name, placeholder)
            seen.error = text

    def _batch(self, step):
        self.frame = None
        with self._watched() as seen:
            self.frame = self._load(self.spark.read, step)
            self._collect(self.frame, seen)

    def _again(self, _):
        with self._watched() as seen:
            self._collect(self.frame, seen)

    def _stream(self, step):
        with self._watched() as seen:
            self._run(step, seen, step.trigger, lambda query: query.awaitTermination(PATIENCE_S))

    def _running(self, step):
        with self._watched() as seen:

            def act(query):
                query.processAllAvailable()
                for each in step.during:
                    self.do([each])
                    query.processAllAvailable()
                query.stop()
                return True

            self._run(step, seen, {"processingTime": "0 seconds"}, act)

    def _run(self, step, seen, trigger, act):
        query = self._start(step, seen, **trigger)
        self._finish(query, seen, lambda: act(query))

    def _start(self, step, seen, **trigger):
        with REGISTERING:  # runs at a time must not share a registration (docs/decisions/spark.md, 59)
            if self.format == "pykafka":
                kafkasource.register(self.spark)
            frame = self._shaped(step, **self._told(trigger))
        during = list(getattr(step, "during", ()) if isinstance(step, parity.Stream) else ())

        def take(rows, batch_id):
            while during:
                self.do([during.pop(0)])
            if batch_id == getattr(step, "dies_in", None):
                raise RuntimeError("the sink of this case dies here")
            self._collect(rows, seen)

        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**trigger).start()

    def _told(self, trigger):
        """The option with the trigger, for ours on a Spark that does not pass the trigger on."""
        untold = self.format == "pykafka" and not releases.TELLS_START_AND_LIMIT
        return {"trigger": next(iter(trigger))} if untold else {}

    def _shaped(self, step, **told):
        reader = self.spark.readStream
        shape = getattr(step, "shape", "one")
        if shape == "union":
            return self._load(reader, step, subscribe="$numbers", **told).union(
                self._load(self.spark.readStream, step, subscribe="$other", **told)
            )
        frame = self._load(reader, step, **told)
        if shape == "distinct":
            return frame.dropDuplicates(["key"])
        if shape == "self-join":
            return frame.join(frame.selectExpr("key AS key2"), F.expr("key = key2")).drop("key2")
        return frame

    def _finish(self, query, seen, act):
        """Wait for the end, and take down what the query's progress and checkpoint say."""
        try:
            assert act(), f"the query did not end within {PATIENCE_S} s"
        finally:
            query.stop()
            progress = query.recentProgress
            seen.batches = [each["numInputRows"] for each in progress if each["numInputRows"]]
            seen.metrics = sorted(progress[-1]["sources"][0].get("metrics") or {}) if progress else []
            seen.ends = self._planned_ends()

    def _planned_ends(self):
        """The last line per source in the newest file of the checkpoint's offset log, without our reserved entry."""
        logged = [path for path in Path(self.checkpoint, "offsets").glob("*") if path.name.isdigit()]
        if not logged:
            return []
        lines = max(logged, key=lambda path: int(path.name)).read_text().splitlines()[2:]
        return [self._renamed(json.loads(line)) for line in lines if line != "-"]

    def _renamed(self, ends):
        return {self._placeholder(topic): of for topic, of in sorted(ends.items()) if not topic.startswith("@")}

    def _placeholder(self, topic):
        return self._placeholders.get(topic, topic)

    def _committed(self, step):
        with self._watched() as seen:
            wanted = step.expected(self.started_as).ends
            deadline = time.monotonic() + PATIENCE_S
            while True:  # offsets are committed behind the query's back
                found = self._renamed(self.kafka.committed(self.fill(step.group), set(self._placeholders)))
                seen.ends = [found] if found else []
                if seen.ends == list(wanted) or time.monotonic() > deadline:
                    break
                time.sleep(0.1)

    def _collect(self, frame, seen):
        if not seen.columns:
            seen.columns = frame.dtypes
        names = ("topic", "partition", "offset", "key", "value", "unix_millis(timestamp)", "timestampType")
        headers = ("headers",) if "headers" in frame.columns else ()
        self._add(seen, frame.selectExpr("spark_partition_id()", *names, *headers).collect())

    def _add(self, seen, rows):
        """`rows`: the number of the task, then topic, partition, offset, key, value, ms, timestampType[, headers]."""
        tasks = {}
        for task, topic, partition, offset, key, value, ms, kind, *more in rows:
            topic = self._placeholder(topic)
            found = [None if of is None else [(key, _bytes(value)) for key, value in of] for of in more]
            seen.rows.append((topic, partition, offset, _bytes(key), _bytes(value), ms, kind, *found))
            first, last = tasks.setdefault(task, {}).get((topic, partition), (offset, offset))
            tasks[task][topic, partition] = min(first, offset), max(last, offset)
        seen.rows.sort(key=lambda row: row[:3])
        seen.pieces += sorted(
            " + ".join(f"{t}-{p} {first}..{last}" for (t, p), (first, last) in sorted(of.items()))
            for of in tasks.values()
        )


def _bytes(value):
    return None if value is None else bytes(value)
