"""A producer that is closed has sent what tasks handed over, and tells the truth about the rest."""

import plain_producer
import pyarrow as pa
import pytest
from fan_out_rig import SilentClient
from sink_fakes import T0, AcknowledgingClient, FakeClock
from transaction_fakes import FakeContext, FakeTransactionCluster

from kafkasource.errors import ClientClosed
from kafkasource.exactly_once.driver.driver import ExactlyOnce
from kafkasource.exactly_once.names import TransactionalIds
from kafkasource.exactly_once.query_identity import IdentitySource
from kafkasource.exactly_once.task.task import Guarantee
from kafkasource.sink import task
from kafkasource.sink.clusters import producers as producers_module
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.producers import ClusterProducers
from kafkasource.sink.clusters.targets import ONLY
from kafkasource.sink.clusters.transactions import ClusterTask
from kafkasource.sink.schema import SinkSchema


def producer_with(client):
    return plain_producer.producer(client=client, **{"kafka.linger.ms": "60000"})


def append(producer, delivery):
    plain_producer.append(producer, delivery, "t", [b"v"] * 3)


def test_what_lingers_is_sent_and_acknowledged():
    producer = producer_with(AcknowledgingClient({T0: 1}))
    delivery = producer.sender.begin()
    append(producer, delivery)
    producer.close()
    assert delivery.records == 3
    assert producer.pool.available_bytes == producer.pool.total_bytes


def test_a_task_that_has_given_its_last_row_hears_of_its_success():
    producer = producer_with(AcknowledgingClient({T0: 1}))
    delivery = producer.sender.begin()
    append(producer, delivery)
    delivery.flushing = True
    producer.close()
    delivery.wait(lambda: False)
    assert delivery.records == 3


def test_a_task_that_has_more_rows_hears_that_the_producer_is_closed():
    producer = producer_with(AcknowledgingClient({T0: 1}))
    delivery = producer.sender.begin()
    append(producer, delivery)
    producer.close()
    with pytest.raises(ClientClosed):
        append(producer, delivery)
    with pytest.raises(ClientClosed):
        delivery.wait(lambda: False)


@pytest.mark.parametrize("flushing", [False, True])
def test_what_is_not_acknowledged_in_the_time_given_fails_its_task(flushing):
    client = SilentClient({T0: 1})
    producer = producer_with(client)
    delivery = producer.sender.begin()
    append(producer, delivery)
    delivery.flushing = flushing
    producer.close(timeout_ms=1)
    with pytest.raises(ClientClosed):
        delivery.wait(lambda: False)
    assert client.closed


def test_nobody_waits_for_a_task_that_has_failed():
    producer = producer_with(SilentClient({T0: 1}))
    delivery = producer.sender.begin()
    append(producer, delivery)
    delivery.fail(ZeroDivisionError())
    producer.close()
    assert not producer.usable


@pytest.fixture
def kept(monkeypatch):
    """Producers that this process keeps, of a client that acknowledges; their clock."""
    clock, made = FakeClock(), []

    def producers(target):
        made.append(ClusterProducers(target, clients=[AcknowledgingClient({T0: 1})], clock_ms=clock))
        return made[-1]

    monkeypatch.setattr(producers_module._cache, "values", {})
    monkeypatch.setattr(producers_module, "ClusterProducers", producers)
    yield clock
    for one in made:
        one.close(0)


def shared(number, *, used=True):
    written = {"kafka.bootstrap.servers": f"localhost:{number}"}
    found = producers_module.shared_producers(targets.parse(written).by_name)[ONLY]
    if used:
        with found.leased_memory(), found.producers[0].delivery() as delivery:
            append(found.producers[0], delivery)
    return found


def test_of_more_than_eight_producers_those_end_that_were_unused_for_longest(kept):
    made = []
    for number in range(1, 21):
        made.append(shared(number))
        kept.now_ms += 1000
    assert [one.usable for one in made] == [False] * 12 + [True] * 8
    assert [one.producers[0].alive() for one in made] == [False] * 12 + [True] * 8
    assert sum(one.pool.available_bytes for one in made[:12]) == sum(one.pool.total_bytes for one in made[:12])


def test_a_producer_in_use_is_never_ended_for_another(kept, monkeypatch):
    monkeypatch.setattr(producers_module, "_MAX_CLUSTERS", 1)
    used, coming = shared(1, used=False), shared(2, used=False)
    with used.leased_memory(), used.producers[0].delivery() as delivery:
        append(used.producers[0], delivery)
        kept.now_ms += 1000
        others = [shared(number) for number in (3, 4, 5)]
        kept.now_ms += 400_000
        assert coming.use.idle_s == 401  # that task did not come
        others.append(shared(6))
        assert used.usable
    assert delivery.records == 3
    assert [one.usable for one in others] == [False, False, False, True]
    assert not coming.usable


def test_a_producer_that_nobody_uses_for_five_minutes_ends_by_itself(kept):
    first = shared(1)
    kept.now_ms += 299_000
    (producer,) = first.producers
    producer.sender.wakeup()
    assert first.usable
    kept.now_ms += 2_000
    producer.sender.wakeup()
    producer._thread.join(60)
    assert not producer.alive()
    assert producers_module._cache.values == {}
    assert shared(1) is not first


def test_a_task_of_exactly_once_writes_its_first_row_however_long_that_took(kept):
    shared(1)  # of the batch before
    cluster = FakeTransactionCluster(2)
    begun = ExactlyOnce(cluster, TransactionalIds("p"), timeout_ms=600_000).begin()
    guarantee = Guarantee(IdentitySource("p"), 600_000, False, "fail")
    target = targets.parse({"kafka.bootstrap.servers": "localhost:1"}).by_name[ONLY]
    exactly_once = ClusterTask.start(guarantee, begun, FakeContext(), target)

    def late_batches():
        kept.now_ms += 301_000
        for idle in list(producers_module._cache.values.values()):
            idle.producers[0].sender.wakeup()
            idle.producers[0]._thread.join(60)
        yield pa.record_batch([pa.array([b"a", b"b"])], names=["value"])

    schema = SinkSchema("t", {"value": 0})
    tasks = {ONLY: exactly_once}
    report = task.write(late_batches(), schema, {ONLY: target}, tasks, lambda name: cluster, {})[ONLY]
    assert report.written[T0].records == 2
    assert [result.transaction.rows for result in report.results] == [2]
