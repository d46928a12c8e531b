"""The map of offsets is true though batches are sent again: several are in flight, some answers get lost."""

import json
import random
from dataclasses import replace

import pyarrow as pa
import pytest
from broker_log import BrokerLog
from confluent_reader import values_of
from proxy import Proxy, ThroughProxy
from sink_fakes import AcknowledgingClient

from kafkasource.errors import ConnectionLost
from kafkasource.kafka.network.network_client import NetworkClient
from kafkasource.kafka.producer.rows import Rows
from kafkasource.mirror.offset_map import translate
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.fan_out import FanOut
from kafkasource.sink.clusters.producers import ClusterProducers
from kafkasource.types import TopicPartition

T0 = TopicPartition("t", 0)
NOT_LEADER = 6
SMALL = {"offsetMap": "map", "kafka.batch.size": 1024, "kafka.retry.backoff.ms": 1, "kafka.linger.ms": 0}


class FaultyClient(AcknowledgingClient):
    """Answers once it has been polled twice for the same requests; some are refused, of some the answer is lost."""

    def __init__(self, randomness):
        super().__init__({T0: 1})
        self.log, self.random, self.seen, self.most_in_flight = BrokerLog(), randomness, 0, 0

    def poll(self, timeout_ms):
        waiting = [sent for sent in self.sent if not sent.pending.done]
        if len(waiting) < 5 and len(self.sent) > self.seen and self.random.random() < 0.8:
            self.seen = len(self.sent)  # more may come
            self.woken.wait(0.05)  # the next request wakes it; long enough for a busy machine to send one
        elif waiting:
            self.most_in_flight = max(self.most_in_flight, len(waiting))
            for sent in waiting:
                self._answer(sent)
        else:
            super().poll(timeout_ms)
        self.woken.clear()

    @property
    def stored(self):
        """The offsets at the source of what lies here, in order."""
        return [int(value) for value in self.log.values]

    def _answer(self, sent):
        fate = self.random.random()
        if fate < 0.2:
            sent.answer(codes={T0: NOT_LEADER})
            return
        code, base_offset = self.log.place(sent.batches[T0])
        if fate < 0.4:
            sent.fail(ConnectionLost("cut"))
        else:
            sent.answer({T0: base_offset}, {T0: code} if code else None)


def write(target, client, offsets, per_append=17, before=lambda number: None):
    """Write rows whose value is the offset where they were read. Return what is known of the offsets."""
    producers = ClusterProducers(target, clients=[client])
    try:
        fan_out = FanOut({"east": producers}, wall_clock_ms=lambda: 1_000_000)
        with fan_out.delivery() as delivery:
            for number, first in enumerate(range(0, len(offsets), per_append)):
                before(number)
                some = offsets[first : first + per_append]
                values = pa.array([b"%06d" % offset for offset in some], pa.binary())
                zeros = pa.array([0] * len(some), pa.int32())
                fan_out.append(Rows("t", len(some), None, values, None, zeros, None, pa.array(some)), delivery)
        return delivery.mapped("east")
    finally:
        producers.close(0)


def check(known, log, offsets):
    """`log`: of each record at the target, in order, the offset at the source."""
    for offset in [*offsets, offsets[-1] + 1]:
        found = translate(known, T0, offset)
        before = log[: found.offset]
        assert all(each < offset for each in before), f"who goes on at {found} for {offset} misses records"
        assert not found.exact or all(each >= offset for each in log[found.offset :]), (offset, found)


def target_of(**given):
    east = {"kafka.bootstrap.servers": "east:1"} | SMALL | given
    return targets.parse({"clusters": json.dumps({"east": east})}).by_name["east"]


def source_offsets(randomness):
    """Some hundreds; half of the logs have holes."""
    holes = randomness.random() < 0.5
    found, at = [], randomness.randrange(100)
    for _ in range(2000):
        at += 1 + (randomness.randrange(3) if holes else 0)
        found.append(at)
    return found


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_with_idempotence_the_map_is_true_whatever_was_sent_again(seed):
    client = FaultyClient(random.Random(seed))
    offsets = source_offsets(client.random)
    known = write(target_of(), client, offsets)
    assert client.most_in_flight > 1
    assert client.stored == offsets
    assert [bool(each.spans) for each in known.values()] == [True], "all is stored, so all is known"
    check(known, client.stored, offsets)


@pytest.mark.slow
def test_without_it_rows_change_places_and_the_map_says_nothing():
    """The same faults move rows if nothing protects them, so the test above would see it."""
    moved = 0
    for seed in range(4):
        client = FaultyClient(random.Random(seed))
        offsets = source_offsets(client.random)
        target = target_of()
        target = replace(target, config=replace(target.config, idempotent=False))
        assert [each.spans for each in write(target, client, offsets).values()] == [()]
        moved += client.stored != sorted(client.stored)
    assert moved


@pytest.mark.broker
@pytest.mark.peers
def test_on_a_real_broker_the_map_is_true_though_answers_were_lost(kafka_broker, kafka_topic):
    topic, randomness = kafka_topic(partitions=1), random.Random(1)
    host, port = kafka_broker.bootstrap_servers.rsplit(":", 1)
    east = {"kafka.bootstrap.servers": kafka_broker.bootstrap_servers, "topic": topic, "kafka.batch.size": 4096}
    target = target_of(**east, **{"kafka.buffer.memory": 65536, "kafka.retry.backoff.ms": 20})
    offsets = list(range(1000, 16_000))
    with Proxy((host, int(port))) as proxy:
        client = NetworkClient(target.config.client, connector=ThroughProxy(target.config.client, proxy))
        known = write(
            target, client, offsets, 500, lambda number: number and proxy.cut(after=randomness.randrange(100))
        )
        assert proxy.harmed >= 10
    log = [int(value) for value in values_of(kafka_broker.bootstrap_servers, topic, settled=True)[0]]
    assert log == offsets
    assert known[T0].target_topic == topic
    for offset in range(1000, 16_000, 7):
        found = translate(known, T0, offset)
        assert (log[found.offset], found.exact) == (offset, True)
