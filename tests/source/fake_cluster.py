"""A cluster of plain values: topics with [start, end) per partition; for the driver's side of the source."""

import uuid
from types import SimpleNamespace

from kafkasource.errors import UnknownTopicOrPartition
from kafkasource.kafka.cluster.offsets import EpochEnd, ListedOffset
from kafkasource.kafka.network.metadata import PartitionMetadata, TopicMetadata
from kafkasource.source.plan.offsets import EARLIEST, LATEST
from kafkasource.types import IsolationLevel, TopicPartition


class FakeCluster:
    """One that tells neither topic ids nor leader epochs, as brokers before 2.1, until a test gives it some.

    It holds no records: for who would weigh some, nobody leads.
    """

    def __init__(self, **logs):
        """`t=[(0, 5), (2, 9)]`: topic t with two partitions."""
        self.logs = {name.replace("_", "."): list(bounds) for name, bounds in logs.items()}
        self.internal = set()
        self.topic_ids = {}
        self.epochs = {}  # of partitions, now
        self.ends_of_epochs = {}  # (partition, epoch): offset
        self.timestamps = {}  # of partitions: that of each record, from offset 0 on
        self.committed = {}  # (group, partition): offset
        self.stable = {}  # of partitions: the last stable offset, where a transaction is open
        self.errors = []  # raised by the next questions for offsets
        self.listed = []
        self.epochs_asked = []
        self.isolation_levels = set()
        self.patience = []  # of questions for topics
        self.closed = False
        self.caller = self
        self.metadata = SimpleNamespace(
            cluster_id="fake", leader_id=lambda tp: None, topic_id=self.topic_ids.get, partition=self._known_partition
        )
        self.topics = SimpleNamespace(list=self._all_topics, describe=self._described)
        self.offsets = SimpleNamespace(list=self._listed_offsets, epoch_ends=self._epoch_ends)
        self.groups = SimpleNamespace(committed_offsets=self._committed_offsets)

    def recreate(self, name, *logs):
        """Another topic of that name."""
        self.logs[name] = list(logs)
        self.topic_ids[name] = uuid.uuid4()

    def _topic(self, name):
        partitions = {
            n: PartitionMetadata(n, leader_id=1, leader_epoch=self.epochs.get(TopicPartition(name, n)))
            for n in range(len(self.logs[name]))
        }
        return TopicMetadata(name, self.topic_ids.get(name), name in self.internal, partitions)

    def wait(self, *pendings):
        assert not pendings

    def _all_topics(self, asked=None, wanted=None):
        return [self._topic(name) for name in self.logs]

    def _described(self, topics, propagation_ms=5000, asked=None):
        self.patience.append(propagation_ms)
        return {name: self._topic(name) if name in self.logs else None for name in topics}

    def _known_partition(self, tp):
        return self._topic(tp.topic).partitions.get(tp.partition) if tp.topic in self.logs else None

    def _listed_offsets(self, asked, isolation_level):
        self.listed.append(dict(asked))
        self.isolation_levels.add(isolation_level)
        if self.errors:
            raise self.errors.pop(0)
        found = {tp: self._offset(tp, symbol) for tp, symbol in asked.items()}
        if isolation_level is IsolationLevel.READ_COMMITTED:
            found |= {tp: self._of_stable(tp, asked[tp], found[tp]) for tp in asked.keys() & self.stable.keys()}
        return {tp: ListedOffset(offset, None, self.epochs.get(tp)) for tp, offset in found.items()}

    def _offset(self, tp, symbol):
        start, end = self._bounds(tp)
        if symbol in (EARLIEST, LATEST):
            return start if symbol == EARLIEST else end
        return next((o for o, ms in enumerate(self.timestamps.get(tp, ())) if ms >= symbol and o >= start), None)

    def _of_stable(self, tp, symbol, offset):
        """Also by time a broker gives no record that a reader with read_committed cannot have yet."""
        if symbol in (EARLIEST, LATEST):
            return offset if symbol == EARLIEST else self.stable[tp]
        return offset if offset is not None and offset < self.stable[tp] else None

    def _bounds(self, tp):
        if tp.partition >= len(self.logs.get(tp.topic, ())):
            raise UnknownTopicOrPartition(3, str(tp))
        return self.logs[tp.topic][tp.partition]

    def _epoch_ends(self, asked):
        self.epochs_asked.append(dict(asked))
        ends = {tp: self.ends_of_epochs.get((tp, epoch), self._bounds(tp)[1]) for tp, epoch in asked.items()}
        return {tp: EpochEnd(None if end is None else asked[tp], end) for tp, end in ends.items()}

    def _committed_offsets(self, group, partitions):
        return {tp: self.committed.get((group, tp)) for tp in partitions}

    def close(self):
        self.closed = True
