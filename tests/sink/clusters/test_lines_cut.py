"""Lines to clusters that are cut half way and come back, or do not: real sockets, brokers of the tests' own."""

import json
from contextlib import ExitStack, contextmanager

import pyarrow as pa
import pytest
from broker_log import BrokerLog
from fake_broker import FakeKafka, serve
from proxy import Proxy

from kafkasource.kafka.producer.rows import Rows
from kafkasource.sink.clusters import targets
from kafkasource.sink.clusters.fan_out import FanOut
from kafkasource.sink.clusters.producers import shared_producers

PARTITIONS, ROWS, PER_BATCH = 4, 8_000, 100
SMALL = {"kafka.buffer.memory": 131072, "kafka.batch.size": 2048, "kafka.reconnect.backoff.max.ms": 50}


class StoringKafka(FakeKafka):
    """Knows sequences, and keeps what it is sent."""

    def __init__(self):
        super().__init__(topics={"t": PARTITIONS})
        self.logs = {number: BrokerLog(1 << 20) for number in range(PARTITIONS)}

    def _produce_code(self, request, topic, data):
        return self.logs[data["index"]].append(bytes(data["records"]))

    def values(self):
        """The values by partition, then in order."""
        return [[int(value) for value in log.values] for log in self.logs.values()]


@contextmanager
def lines(*names, **written):
    """FanOut over a proxy to each cluster: (fan-out, {name: producers}, {name: proxy}, {name: cluster})."""
    with ExitStack() as stack:
        clusters, proxies = {}, {}
        for name in names:
            kafka = clusters[name] = StoringKafka()
            proxy = proxies[name] = stack.enter_context(Proxy())
            kafka.addresses[1] = proxy.address
            proxy.upstream = stack.enter_context(serve(kafka, advertise=False))
        servers = {name: {"kafka.bootstrap.servers": proxy.bootstrap_servers} for name, proxy in proxies.items()}
        options = {key.replace("__", "."): str(value) for key, value in (SMALL | written).items()}
        producers = shared_producers(targets.parse({"clusters": json.dumps(servers)} | options).by_name)
        try:
            yield FanOut(producers, wall_clock_ms=lambda: 1_000_000), producers, proxies, clusters
        finally:
            for each in producers.values():
                each.close(0)


def write(fan_out, half_way=lambda: None, each=lambda: None):
    with fan_out.delivery() as delivery:
        for first in range(0, ROWS, PER_BATCH):
            if first == ROWS // 2:
                half_way()
            each()
            numbers = range(first, first + PER_BATCH)
            keys = pa.array([b"k%d" % (number % 97) for number in numbers], pa.binary())
            values = pa.array([b"%0100d" % number for number in numbers], pa.binary())
            fan_out.append(Rows("t", PER_BATCH, keys, values, None, None, None), delivery)
    return delivery


def cut(proxy):
    proxy.refuse = True
    proxy.reset_all()


def count(found):
    return sum(one.records for one in found.values())


def by_key(values):
    found = {}
    for number in (number for each in values for number in each):
        found.setdefault(number % 97, []).append(number)
    return found


IN_ORDER = by_key([range(ROWS)])


@pytest.mark.parametrize("producers", [1, 3])
def test_under_block_a_line_that_was_cut_carries_everything_once_it_is_there_again(producers):
    with lines("east", "west", producersPerCluster=producers) as (fan_out, of, proxies, clusters):

        def half_way():
            cut(proxies["west"])
            # The line is there again once the task waits for memory.
            pool = of["west"].pool
            allocate = pool.allocate

            def allocate_as_before(size, max_block_ms, on_wait, **more):
                def there_again():
                    proxies["west"].refuse = False
                    on_wait()

                return allocate(size, max_block_ms, there_again, **more)

            pool.allocate = allocate_as_before

        delivery = write(fan_out, half_way)
        for name, kafka in clusters.items():
            assert by_key(kafka.values()) == IN_ORDER, name
            assert (count(delivery.written(name)), delivery.discarded(name)) == (ROWS, {})


@pytest.mark.parametrize("how", ["refused", "silent"])
def test_under_discard_the_other_line_carries_everything_and_this_one_what_it_could(how):
    settings = {"clusters.west.onSlowCluster": "discard", "slowClusterWait": "100ms"}
    with lines("east", "west", **settings) as (fan_out, of, proxies, clusters):

        def half_way():
            if how == "refused":
                cut(proxies["west"])
            else:
                proxies["west"].blackhole = True

        delivery = write(fan_out, half_way)
        assert by_key(clusters["east"].values()) == IN_ORDER
        assert (count(delivery.written("east")), delivery.discarded("east")) == (ROWS, {})
        written, discarded = count(delivery.written("west")), count(delivery.discarded("west"))
        assert written + discarded == ROWS
        assert 0 < discarded <= ROWS * 0.8  # after the cut, and what was in the queue
        assert of["west"].health.dead
        there = by_key(clusters["west"].values())
        for key, numbers in there.items():
            assert numbers == sorted(set(numbers)), key
        assert sum(map(len, there.values())) >= written


def test_a_line_that_is_there_again_carries_the_next_tasks_rows():
    settings = {"clusters.west.onSlowCluster": "discard", "slowClusterWait": "400ms"}
    with lines("east", "west", **settings) as (fan_out, _of, proxies, clusters):
        write(fan_out, lambda: cut(proxies["west"]))
        proxies["west"].refuse = False
        for _ in range(200):  # each task sends something that tells when the cluster answers again
            delivery = write(fan_out)
            if not delivery.discarded("west"):  # on a busy machine it may be late, and be given up, once more
                break
        assert (count(delivery.written("west")), delivery.discarded("west")) == (ROWS, {})
        there = by_key(clusters["west"].values())
        # What the task before had sent and given up may be there, too, late: in front of this one's.
        assert {key: numbers[-len(IN_ORDER[key]) :] for key, numbers in there.items()} == IN_ORDER
