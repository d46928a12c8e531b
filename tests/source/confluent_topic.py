"""Topics that confluent-kafka makes and writes, for our readers to read."""

import time
import uuid

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from kafkasource import options
from kafkasource.source.spark.batch import BatchReader


class Topic:
    """A topic of its own on the test cluster, written to by confluent-kafka."""

    def __init__(self, bootstrap_servers, partitions=1, replicas=1, replica_assignment=None, **config):
        self.bootstrap_servers = bootstrap_servers
        self.name = f"source-{uuid.uuid4().hex[:12]}"
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        where = {"replica_assignment": replica_assignment} if replica_assignment else {"replication_factor": replicas}
        self._new = NewTopic(self.name, partitions, **where, config=_dotted(config))
        self.create()

    def create(self):
        self.admin.create_topics([self._new])[self.name].result(30)

    def leader(self, partition=0):
        """Its node id. A broker that is asked a moment after the topic was made may not know it yet."""
        found = []
        eventually(lambda: found.append(self._leader(partition)) or found[-1] >= 0)
        return found[-1]

    def _leader(self, partition):
        known = self.admin.list_topics(self.name, timeout=30).topics[self.name].partitions.get(partition)
        return -1 if known is None else known.leader

    def delete(self):
        """Until the controller forgets the name, so that it can be created again."""
        self.admin.delete_topics([self.name])[self.name].result(30)
        eventually(lambda: self.name not in self.admin.list_topics(timeout=30).topics)

    def write(self, records, **config):
        """Records as keyword arguments of `produce`. Returns the offsets by (partition, order of arrival)."""
        delivered = []
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.bootstrap_servers, "linger.ms": 20} | _dotted(config)
        )
        for record in records:
            producer.produce(self.name, on_delivery=lambda error, m: delivered.append((error, m)), **record)
            producer.poll(0)
        producer.flush(30)
        assert len(delivered) == len(records)
        assert not any(error for error, _ in delivered)
        return [message.offset() for _, message in delivered]

    def transactional_producer(self):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.bootstrap_servers, "transactional.id": uuid.uuid4().hex}
        )
        producer.init_transactions(30)
        return producer

    def transaction(self, values, *, commit):
        producer = self.transactional_producer()
        producer.begin_transaction()
        for value in values:
            producer.produce(self.name, value=value, partition=0)
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)

    def as_confluent_reads(self, start=0, **config):
        """(offset, key, value) of partition 0, from an offset to the end that confluent-kafka sees."""
        common = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": self.name,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        consumer = confluent_kafka.Consumer(common | _dotted(config))
        rows = []
        try:
            consumer.assign([confluent_kafka.TopicPartition(self.name, 0, start)])
            while True:
                message = consumer.poll(30)
                assert message is not None
                if message.error():
                    assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                    return rows
                rows.append((message.offset(), message.key(), message.value()))
        finally:
            consumer.close()

    def delete_records_before(self, offset):
        partition = confluent_kafka.TopicPartition(self.name, 0, offset)
        next(iter(self.admin.delete_records([partition]).values())).result(30)

    def from_offset(self, offset):
        """`startingOffsets` or `endingOffsets` of partition 0."""
        return f'{{"{self.name}":{{"0":{offset}}}}}'

    def reader(self, **given):
        given = {"kafka.bootstrap.servers": self.bootstrap_servers, "subscribe": self.name} | given
        return BatchReader(options.parse(given, "source"))

    def rows(self, **given):
        reader = self.reader(**given)
        return rows_of(reader, reader.partitions())


def rows_of(reader, tasks):
    return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


def _dotted(config):
    return {name.replace("_", "."): value for name, value in config.items()}


def eventually(condition, within_s=60.0):
    """Wait for what a broker does by and by; only its failure takes as long as the limit."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(0.05)
