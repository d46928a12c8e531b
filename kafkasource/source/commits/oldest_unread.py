"""When the oldest record that a query has not read yet was written: for lag in seconds, where metrics are wanted.

The ends of the logs do not show this for a log that has stopped growing. So, at most every ten seconds, the reader
process fetches a little from where the planned micro-batch ends. It looks only at the header of the first record batch,
whose first timestamp stands for all its records; where the log cleaner has replaced that, the last one does. It sends
one request per leader, in parallel, and no broker waits for records. One thread.
"""

from __future__ import annotations

import logging
import math
import struct
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kafkasource import metrics
from kafkasource.errors import BrokerError, KafkaSourceError
from kafkasource.kafka.records import header as h
from kafkasource.source.plan.samples import Requests, Sampler, longest_waiting
from kafkasource.types import IsolationLevel, TopicPartition

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster

log = logging.getLogger("kafkasource.source")

ASK_EVERY_S = 10.0  # at most
ASK_AFTER_FAILURE_S = 60.0  # a leader that does not answer would hold up each trigger
_EACH_BYTES = 16 << 10
_MESSAGE_TIMESTAMP = struct.Struct(">q")
_MESSAGE_TIMESTAMP_POS = 18  # of a message v1: offset, size, crc, magic and attributes are before it


class OldestUnread:
    """Uses the cluster that plans. No failure here fails the query."""

    def __init__(
        self,
        cluster: Cluster,
        isolation_level: IsolationLevel,
        wanted: Callable[[], bool] = metrics.wanted,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sampler = Sampler(cluster, isolation_level)
        self._wanted = wanted
        self._clock = clock
        self._due_s = -math.inf
        self._asked_s: dict[TopicPartition, float] = {}
        self._known: dict[tuple[TopicPartition, int], int] = {}

    def times_ms(
        self, next_offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[tuple[TopicPartition, int], int]:
        """The known timestamps of the next records, by partition and next offset."""
        if not self._wanted():
            return {}
        unread = {tp: offset for tp, offset in next_offsets.items() if offset < ends.get(tp, 0)}
        self._known = {(tp, at): ms for (tp, at), ms in self._known.items() if unread.get(tp) == at}
        unknown = [tp for tp, offset in unread.items() if (tp, offset) not in self._known]
        if unknown and self._clock() >= self._due_s:
            self._due_s = self._clock() + ASK_EVERY_S
            self._asked_s = {tp: asked_s for tp, asked_s in self._asked_s.items() if tp in next_offsets}
            try:
                self._ask(longest_waiting(unknown, self._asked_s), unread)
            except KafkaSourceError as error:
                log.debug("the oldest unread records are not known: %s", error)
                self._due_s = self._clock() + ASK_AFTER_FAILURE_S
        return dict(self._known)

    def _ask(self, partitions: list[TopicPartition], unread: Mapping[TopicPartition, int]) -> None:
        too_large = self._learn(self._sampler.by_leader(partitions), unread)
        if too_large:
            self._learn(self._sampler.each_alone(too_large), unread)

    def _learn(self, requests: Requests, unread: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Note what these leaders answer. Returns the partitions whose first batch was too large for the answer."""
        empty, answered = [], set()
        for tp, records in self._sampler.fetch(requests, unread, _EACH_BYTES):
            answered.add(tp)
            self._asked_s[tp] = self._clock()
            if isinstance(records, BrokerError):
                continue
            written_ms = first_timestamp_ms(records)
            if written_ms is not None:
                self._known[tp, unread[tp]] = written_ms
            elif not len(records):
                empty.append(tp)
        if any(tp not in answered for _, asked in requests for tp in asked):
            self._due_s = self._clock() + ASK_AFTER_FAILURE_S
        return empty


def first_timestamp_ms(records: memoryview | bytes) -> int | None:
    """The timestamp of a fetch's first record batch, or of its first message v1 (a wrapper has the newest of its
    messages, and so has a batch with a delete horizon).

    None: no header came whole, or it is a message v0, or the timestamp is -1.
    """
    magic = records[h.MAGIC_POS] if len(records) > h.MAGIC_POS else None
    if magic == 2 and len(records) >= h.HEADER_BYTES:
        fields = h.HEADER.unpack_from(records)
        attributes, base_timestamp_ms, max_timestamp_ms = fields[5], fields[7], fields[8]
        found = max_timestamp_ms if attributes & (h.LOG_APPEND_TIME | h.DELETE_HORIZON) else base_timestamp_ms
    elif magic == 1 and len(records) >= _MESSAGE_TIMESTAMP_POS + _MESSAGE_TIMESTAMP.size:
        (found,) = _MESSAGE_TIMESTAMP.unpack_from(records, _MESSAGE_TIMESTAMP_POS)
    else:
        return None
    return int(found) if found >= 0 else None
