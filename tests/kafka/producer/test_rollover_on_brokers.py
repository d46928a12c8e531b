"""Producer ids without epochs left, and sequences past 2^31, as real brokers take them."""

import time

import pytest
from confluent_reader import values_of
from plain_producer import append
from plain_producer import producer as producer_of
from transaction_fakes import LAST_EPOCH, CommitsOtherwise

from kafkasource.exactly_once.decision_status import LastBatch
from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.names import TransactionalIds, WrittenTransaction
from kafkasource.exactly_once.task.plan import TaskResult
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.cluster.routing import TRANSACTION
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.protocol.apis import INIT_PRODUCER_ID
from kafkasource.testing.broker import Broker
from kafkasource.types import TopicPartition

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("limit", ["1000000", "1500"], ids=["whole", "split"])
def test_sequences_go_on_from_0_after_2_31(kafka_broker, kafka_topic, limit):
    topic, servers = kafka_topic(partitions=2, config={"max.message.bytes": limit}), kafka_broker.bootstrap_servers
    small = {"kafka.batch.size": "4096", "kafka.linger.ms": "0"}
    producer = producer_of(servers, **small)
    first, crossing = TopicPartition(topic, 0), TopicPartition(topic, 1)
    values = [b"%06d" % row + b"." * 60 for row in range(3000)]
    try:
        with producer.delivery() as delivery:
            append(producer, delivery, topic, [b"for the producer id"], first.partition)
        producer.sender._identity.current._next_sequences[crossing] = 2**31 - 1234
        with producer.delivery() as delivery:
            append(producer, delivery, topic, values, crossing.partition)
    finally:
        producer.close()
    assert values_of(servers, topic, [crossing.partition])[crossing.partition] == values
    with Cluster(ClientConfig.of(servers)) as cluster:
        (known,) = cluster.transactions.producers([crossing])[crossing]
    assert known.last_sequence == 3000 - 1234 - 1


class Query:
    """Batches of one row in each of two transactions, and what a restart finds."""

    def __init__(self, cluster, producer, topic, ids):
        self.cluster, self.producer, self.topic, self.ids = cluster, producer, topic, ids

    def driver(self, kind=ExactlyOnce):
        return kind(self.cluster, self.ids, timeout_ms=60_000)

    def write(self, batch_id):
        begun, results = self.driver().begin(), []
        assert begun.lost == ()
        decider = begun.driver
        for slot in (0, 1):
            transaction = TaskTransaction.open(
                self.cluster.transactions, self.ids.task(slot), 60_000, decider.transaction_version
            )
            with self.producer.delivery(transaction) as delivery:
                append(self.producer, delivery, self.topic, [b"%d %d" % (batch_id, slot)], slot)
            written = WrittenTransaction(slot, transaction.producer_id, transaction.producer_epoch, 1, 0)
            results.append(
                TaskResult(decider, "q", transaction=written, partitions=(TopicPartition(self.topic, slot),))
            )
        return results


class Killed(CommitsOtherwise):
    """With the batch decided, and one transaction of two committed."""

    def end_tasks(self, decision, transactions):
        assert self.tasks.commit(decision, transactions[:1]) == {}
        raise KeyboardInterrupt


def use_up(cluster, name, left):
    """All epochs of an id but the last `left`; pipelined, which a broker takes in one by one, five in a millisecond."""
    cluster.transactions.init_producer_id(name, 60_000)
    node_id = cluster.coordinators.of(TRANSACTION, name)
    body = {"transactional_id": name, "transaction_timeout_ms": 60_000}
    epoch, last = 0, LAST_EPOCH - left
    while epoch < last:
        pendings = [
            cluster.caller.send(node_id, INIT_PRODUCER_ID, body, timeout_ms=30_000)
            for _ in range(min(500, last - epoch))
        ]
        cluster.caller.wait(*pendings)
        epoch = pendings[-1].result()["producer_epoch"]


@pytest.mark.slow
@pytest.mark.extended
def test_batches_are_decided_recovered_and_seen_once_while_producer_ids_change():
    """Every other batch dies with its decision made and half of its task transactions committed.

    On 3.9.2 it is the same, but there EndTxn gives no new producer id.
    """
    with Broker(use_existing=False) as broker, Cluster(ClientConfig.of(broker.bootstrap_servers)) as c:
        c.topics.create(["t"], partitions=2)
        ids, producer = TransactionalIds("p"), producer_of(broker.bootstrap_servers)
        query, producer_ids = Query(c, producer, "t", ids), {}
        # So that the decision and transaction 1 have their last epochs in a batch that dies between the two.
        use_up(c, ids.driver, 1)
        use_up(c, ids.task(1), 1)
        try:
            for batch_id in range(4):
                results = query.write(batch_id)
                for result in results:
                    producer_ids.setdefault(result.transaction.slot, []).append(result.transaction.producer)
                producer_ids.setdefault("driver", []).append(results[0].driver.producer)
                if batch_id % 2:
                    query.driver().commit(results, batch_id)
                else:
                    with pytest.raises(KeyboardInterrupt):
                        query.driver(Killed).commit(results, batch_id)
                    begun = query.driver().begin()
                    assert (begun.last, begun.lost) == (LastBatch(batch_id + 1, "stream", "q", batch_id), ())
                    assert begun.driver.recovered == 1
            query.driver().begin()
        finally:
            producer.close()
        for name in ("driver", 1):
            used = producer_ids[name]
            assert len({each.producer_id for each in used}) == 2, f"{name} has not changed its producer id"
            assert max(each.producer_epoch for each in used) == LAST_EPOCH
        until = time.monotonic() + 60
        for slot in (0, 1):
            expected = [b"%d %d" % (batch_id, slot) for batch_id in range(4)]
            while values_of(broker.bootstrap_servers, "t", [slot])[slot] != expected:
                assert time.monotonic() < until
