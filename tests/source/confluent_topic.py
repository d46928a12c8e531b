"""Topics that confluent-kafka makes and writes, for our readers to read."""

import uuid

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from kafkasource import options
from kafkasource.source.batch import BatchReader


class Topic:
    """A topic of its own on the test cluster, written to by confluent-kafka."""

    def __init__(self, bootstrap_servers, partitions=1, **config):
        self.bootstrap_servers = bootstrap_servers
        self.name = f"source-{uuid.uuid4().hex[:12]}"
        self.admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        new = NewTopic(self.name, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()})
        self.admin.create_topics([new])[self.name].result(30)

    def write(self, records, **config):
        """Records as keyword arguments of `produce`. Returns the offsets by (partition, order of arrival)."""
        delivered = []
        config = {k.replace("_", "."): v for k, v in config.items()}
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap_servers, "linger.ms": 20} | config)
        for record in records:
            producer.produce(self.name, on_delivery=lambda error, m: delivered.append((error, m)), **record)
            producer.poll(0)
        producer.flush(30)
        assert len(delivered) == len(records)
        assert not any(error for error, _ in delivered)
        return [message.offset() for _, message in delivered]

    def transaction(self, values, *, commit):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.bootstrap_servers, "transactional.id": uuid.uuid4().hex}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(self.name, value=value, partition=0)
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)

    def delete_records_before(self, offset):
        partition = confluent_kafka.TopicPartition(self.name, 0, offset)
        next(iter(self.admin.delete_records([partition]).values())).result(30)

    def reader(self, **given):
        given = {"kafka.bootstrap.servers": self.bootstrap_servers, "subscribe": self.name} | given
        return BatchReader(options.parse(given, "source"))

    def rows(self, **given):
        reader = self.reader(**given)
        return [row for task in reader.partitions() for rows in reader.read(task) for row in rows.to_pylist()]
