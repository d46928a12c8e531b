"""What tests of fetching share: settings, record batches that we did not encode, and brokers in this process."""

import functools
from dataclasses import replace

import pyarrow as pa
from fake_broker import LOG_END, FakeKafka, FakeNet
from kafka.record.memory_records import MemoryRecordsBuilder

from kafkasource import options
from kafkasource.kafka.fetch.budget import FetchBudget
from kafkasource.kafka.fetch.config import FetchSettings
from kafkasource.kafka.fetch.fetcher import PartitionFetcher
from kafkasource.kafka.fetch.task import in_order, open_partitions
from kafkasource.kafka.protocol.apis import FETCH
from kafkasource.types import OffsetRange, TopicPartition

TP = TopicPartition("t", 0)
ROWS_PER_BATCH = 10

_DEFAULTS = FetchSettings.from_options(options.parse({"kafka.bootstrap.servers": "bootstrap:9092"}, "source"))


def fetch_settings(**changes):
    """What a query has whose options are all at their defaults, but for these."""
    return replace(_DEFAULTS, **changes)


@functools.cache
def record_batch(first, count=ROWS_PER_BATCH, value=b"x" * 50):
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 20)
    for _ in range(count):
        builder.append(timestamp=1000, key=None, value=value, headers=[])
    builder.close()
    return first.to_bytes(8, "big") + bytes(builder.buffer())[8:]  # the base offset is outside the CRC


def offsets(batches):
    batches = list(batches)
    return pa.Table.from_batches(batches).column("offset").to_pylist() if batches else []


class Kafka(FakeKafka):
    """Topics whose partitions hold [0, 100) in batches of ten; a fetch takes what fits, one batch at least.

    Who names a rack of `racks` is sent to that node; replicas have [0, `replicas_end`).
    """

    value = b"x" * 50
    log_end = 100  # as ListOffsets tells
    replicas_end = 100
    replicas_error = None  # a code; else what is beyond their end is empty
    damaged_node = None  # whose record batches have a wrong CRC

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.racks = {}

    def _list_offsets(self, request):
        body = super()._list_offsets(request)
        for topic in body["topics"]:
            for row in topic["partitions"]:
                row["offset"] = self.log_end if row["offset"] == LOG_END else row["offset"]
        return body

    def _fetch(self, request):
        (topic,) = request.body["topics"]
        (asked,) = topic["partitions"]
        by_id = {known.topic_id: name for name, known in self.topics.items()}
        name = topic["topic"] or by_id.get(topic["topic_id"])
        row = {"partition_index": asked["partition"], "error_code": 0, "high_watermark": 100, "records": b""}
        if name not in self.topics:
            row |= {"error_code": 100 if request.version > 12 else 3}
        else:
            row |= self._of_partition(request, self.topics[name], asked)
        return {"error_code": 0, "responses": [{**topic, "partitions": [row]}]}

    def _of_partition(self, request, topic, asked):
        at, epoch = asked["fetch_offset"], asked["current_leader_epoch"]
        leads = topic.leaders[asked["partition"]] == request.node_id
        end = 100 if leads else self.replicas_end
        if epoch != -1 and epoch != topic.epochs[asked["partition"]]:
            return {"error_code": 74 if epoch < topic.epochs[asked["partition"]] else 75}
        if not leads and not self.racks:
            return {"error_code": 6}
        if leads and request.body["rack_id"] in self.racks:
            return {"preferred_read_replica": self.racks[request.body["rack_id"]]}
        if not leads and at >= end and self.replicas_error:
            return {"error_code": self.replicas_error}
        if not 0 <= at <= 100:
            return {"error_code": 1}
        batches = (record_batch(first, value=self.value) for first in range(at // 10 * 10, end, ROWS_PER_BATCH))
        data = b"".join(batches)
        data = data[: max(asked["partition_max_bytes"], len(record_batch(0, value=self.value)))]
        return {"records": data[:100] + b"?" + data[101:] if request.node_id == self.damaged_node else data}


class Rig:
    """A task's side and brokers, with a clock that stands still unless somebody waits."""

    def __init__(self, partitions=1):
        self.kafka = Kafka(nodes=2, topics={"t": partitions})
        self.net = FakeNet(self.kafka)
        self.cluster = self.net.cluster()

    @property
    def topic(self):
        return self.kafka.topics["t"]

    def sleep(self, seconds):
        self.net.now += seconds

    def fetch(self, *ranges, **given):
        """Batches of ranges, as a task reads them."""
        settings = fetch_settings(**{"max_partition_bytes": 2000} | given)
        return in_order(self.fetchers(ranges, settings, FetchBudget(settings)), lambda: self.net.now)

    def fetchers(self, ranges, settings, budget):
        return [
            PartitionFetcher(one, settings, partition, budget, lambda: self.net.now, self.sleep)
            for one, partition in open_partitions(self.cluster, ranges, settings)
        ]

    def batches(self, start=0, end=100, **settings):
        planned = {name: settings.pop(name) for name in ("topic_id", "leader_epoch") if name in settings}
        return self.fetch(OffsetRange(TP, start, end, **planned), **settings)

    def read(self, start=0, end=100, **settings):
        return offsets(self.batches(start, end, **settings))

    def asked(self, *apis):
        """Names of what brokers were asked so far; of these APIs only, where some are given."""
        return [request.api.name for request in self.kafka.requests if not apis or request.api in apis]

    def fetches(self):
        return [
            (one.node_id, one.body["topics"][0]["partitions"][0]["fetch_offset"]) for one in self.kafka.asked(FETCH)
        ]
