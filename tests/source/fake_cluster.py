"""A cluster of plain values: topics with [start, end) per partition; for the driver's side of the source."""

from types import SimpleNamespace

from kafkasource.client.metadata import PartitionMetadata, TopicMetadata
from kafkasource.errors import UnknownTopicOrPartition
from kafkasource.source.offsets import EARLIEST


class FakeCluster:
    def __init__(self, **logs):
        """`t=[(0, 5), (2, 9)]`: topic t with two partitions."""
        self.logs = {name.replace("_", "."): list(bounds) for name, bounds in logs.items()}
        self.internal = set()
        self.listed = []
        self.isolation_levels = set()
        self.closed = False

    def _topic(self, name):
        partitions = {n: PartitionMetadata(n, leader_id=1, leader_epoch=0) for n in range(len(self.logs[name]))}
        return TopicMetadata(name, None, name in self.internal, partitions)

    def all_topics(self):
        return [self._topic(name) for name in self.logs]

    def partitions_of(self, topics):
        return {name: self._topic(name) if name in self.logs else None for name in topics}

    def list_offsets(self, asked, isolation_level):
        self.listed.append(dict(asked))
        self.isolation_levels.add(isolation_level)
        found = {}
        for tp, symbol in asked.items():
            if tp.partition >= len(self.logs.get(tp.topic, ())):
                raise UnknownTopicOrPartition(3, str(tp))
            start, end = self.logs[tp.topic][tp.partition]
            found[tp] = SimpleNamespace(offset=start if symbol == EARLIEST else end, timestamp=-1, leader_epoch=0)
        return found

    def close(self):
        self.closed = True
