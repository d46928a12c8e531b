"""What the driver asks the cluster: which partitions there are, where their logs begin and end.

Offsets are listed for all leaders in parallel, under the query's isolation level: with read_committed a log ends at its
last stable offset. Lives in the reader process; every call runs within `kafka.default.api.timeout.ms`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kafkasource.errors import UnknownTopicOrPartition
from kafkasource.source.loss import describe
from kafkasource.source.offsets import EARLIEST, LATEST, Offsets
from kafkasource.source.subscription import Assign, SubscribePattern, SubscribeTopics, Subscription
from kafkasource.types import TopicPartition

if TYPE_CHECKING:
    from kafkasource.client.cluster import Cluster

log = logging.getLogger("kafkasource.source")

_ATTEMPTS = 3  # to see the end of a log at or above a known offset; the JVM connector's fetchOffset.numRetries


class OffsetReader:
    """Answers for one subscription. `retry_ms`: the wait before a log that went backwards is asked again."""

    def __init__(
        self,
        cluster: Cluster,
        subscription: Subscription,
        isolation_level: str,
        retry_ms: int,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._isolation_level = isolation_level
        self._retry_ms = retry_ms
        self._sleep = sleep

    def assigned(self) -> set[TopicPartition]:
        """The partitions to read, asked anew: topics and partitions come and go while a query runs.

        Raises UnknownTopicOrPartition for a subscribed topic that does not exist.
        """
        subscription = self._subscription
        if isinstance(subscription, SubscribePattern):
            return {
                tp
                for topic in self._cluster.all_topics()
                if not topic.internal and subscription.matches(topic.name)
                for tp in topic.topic_partitions
            }
        existing = self._partitions_of(subscription)
        if isinstance(subscription, Assign):
            missing = set(subscription.partitions) - existing
            if missing:
                log.warning("option 'assign': %s do not exist and are left out", describe(missing))
            return existing & set(subscription.partitions)
        return existing

    def _partitions_of(self, subscription: SubscribeTopics | Assign) -> set[TopicPartition]:
        existing: set[TopicPartition] = set()
        described = self._cluster.partitions_of(list(subscription.topics))
        for name in subscription.topics:
            topic = described.get(name)
            if topic is not None:
                existing.update(topic.topic_partitions)
            elif isinstance(subscription, SubscribeTopics):
                raise UnknownTopicOrPartition(3, f"option 'subscribe': topic {name!r}")
        return existing

    def list_offsets(self, symbols: Mapping[TopicPartition, int]) -> Offsets:
        """What EARLIEST and LATEST are now. A partition that was deleted meanwhile is missing, not an error."""
        wanted = dict(symbols)
        while wanted:
            try:
                listed = self._cluster.list_offsets(wanted, self._isolation_level)
                return {tp: found.offset for tp, found in listed.items() if found.offset is not None}
            except UnknownTopicOrPartition:
                topics = self._cluster.partitions_of(sorted({tp.topic for tp in wanted}))
                left = {tp for topic in topics.values() if topic is not None for tp in topic.topic_partitions}
                if wanted.keys() <= left:
                    raise
                wanted = {tp: symbol for tp, symbol in wanted.items() if tp in left}
        return {}

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self.list_offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(
        self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int] | None = None
    ) -> Offsets:
        """Where the logs end now (exclusive).

        A log cannot end below an offset that was read from it, but a new leader may say so for a moment (KAFKA-7703):
        such answers are asked for again, then taken as they are, for the plan to find the loss.
        """
        wanted = list(partitions)
        for attempt in range(_ATTEMPTS):
            found = self.list_offsets(dict.fromkeys(wanted, LATEST))
            backwards = [tp for tp, offset in (known or {}).items() if found.get(tp, offset) < offset]
            if not backwards:
                break
            if attempt + 1 < _ATTEMPTS:
                log.warning("%s end below what was read already; asking again", describe(backwards))
                self._sleep(self._retry_ms / 1000)
        return found
