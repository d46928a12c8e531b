"""A log of a hundred records, read from brokers that lie about everything but the records' bytes.

However they lie, a read that ends without an error has every record once and in order: what is missing is never passed
over quietly.
"""

from __future__ import annotations

import random

from fetch_rig import Kafka, Rig, offsets
from lying_broker import with_lies
from message_bodies import with_defaults

from kafkasource.kafka.protocol.apis import API_VERSIONS
from kafkasource.types import OffsetRange, TopicPartition

ROWS = list(range(100))


class LyingLog(Kafka):
    def __init__(self, rng: random.Random) -> None:
        super().__init__(nodes=2, topics={"t": 1})
        self.rng = rng
        self.lies_left = rng.choice((1, 2, 5, 1000))

    def answer(self, request):
        body = super().answer(request)
        if body is None or request.api is API_VERSIONS or not self.lies_left or self.rng.random() < 0.4:
            return body
        self.lies_left -= 1
        records = [partition["records"] for partition in partitions_of(body)]
        lied = with_lies(self.rng, request.api.response.fields, request.version,
                         with_defaults(request.api.response.fields, body))  # fmt: skip
        for partition, data in zip(partitions_of(lied), records, strict=False):
            if partition["records"] is not None:
                partition["records"] = self.rng.choice((data, data, data[: self.rng.randrange(len(data) + 1)]))
        return lied


def partitions_of(body):
    """Of a Fetch response; of others none."""
    return [each for topic in body.get("responses") or () for each in topic["partitions"] if "records" in each]


def read(rng: random.Random) -> list[int]:
    """Offsets as a task read them."""
    rig = Rig()
    rig.kafka = rig.net.kafka = LyingLog(rng)
    size = rng.choice((700, 2000, 20_000))
    planned = {"topic_id": rig.topic.topic_id, "leader_epoch": 0} if rng.random() < 0.5 else {}
    try:
        return offsets(rig.fetch(OffsetRange(TopicPartition("t", 0), 0, 100, **planned), max_partition_bytes=size))
    finally:
        rig.cluster.close()
