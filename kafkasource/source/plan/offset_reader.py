"""The driver's questions to the cluster: its partitions, where their logs begin and end, what a group has committed.

The driver lists offsets from all leaders in parallel, under the query's isolation level: with read_committed a log ends
at its last stable offset. Lives in the reader process.

The client below retries temporary errors itself, for `kafka.default.api.timeout.ms`. When it gives up, or has no reason
to retry, that is one failed attempt of the `fetchOffset.numRetries` that each question has here.

An answer that would end in a lost record or a reset goes into no offset before it was asked for again, as often as
attempts are left, each time after another node has said who leads (`_until_believed`). That is so for partitions that
are gone, another topic id, an older leader epoch, an end below what was read, and a log that was truncated.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkasource.errors import (
    AuthorizationFailed,
    BootstrapFailed,
    BootstrapHopeless,
    BrokerError,
    ClusterAuthorizationFailed,
    DeadlineExceeded,
    KafkaSourceError,
    ProtocolError,
    UnknownTopicOrPartition,
    UnsupportedApiVersion,
    UnsupportedVersion,
)
from kafkasource.kafka.cluster.caller import PROPAGATION_MS
from kafkasource.kafka.fetch.loss import UNSEEN, describe
from kafkasource.kafka.network.log_view import LogView, compare
from kafkasource.options.spelling import did_you_mean
from kafkasource.source.plan.offsets import EARLIEST, LATEST, Offsets, StreamOffset
from kafkasource.source.plan.planner import carried, new_leaders, other_epochs, recreated_topics
from kafkasource.source.plan.subscription import Assign, SubscribePattern, SubscribeTopics, Subscription
from kafkasource.types import IsolationLevel, TopicPartition

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.kafka.cluster.offsets import ListedOffset
    from kafkasource.options import Options

log = logging.getLogger("kafkasource.source")

T = TypeVar("T")

# Errors that another attempt may not meet; and those among them that it would meet again.
_MAY_PASS = (BootstrapFailed, BrokerError, DeadlineExceeded, ProtocolError)
_WILL_NOT = (AuthorizationFailed, BootstrapHopeless, UnsupportedVersion)


class LogEnds(NamedTuple):
    """The ends of logs (exclusive), with the epochs of the leaders that gave them (KIP-320; none from brokers before
    2.1) and the topics' ids of that moment.

    No record below an end has a later epoch than the epoch given for its partition. If a log was read beyond its last
    stable offset, its end is the offset up to which it was read, and `last_stable` has its last stable offset.
    """

    listed: StreamOffset
    last_stable: Offsets

    @property
    def offsets(self) -> Offsets:
        return self.listed.offsets

    @property
    def leader_epochs(self) -> Mapping[TopicPartition, int]:
        return self.listed.leader_epochs


class _Doubt(NamedTuple):
    """Why an answer is not believed yet. `topics`: their metadata are asked for before it is asked for again."""

    reason: str
    topics: Collection[str] = ()


class OffsetReader:
    """Answers for one subscription.

    `attempts`: how often in all it asks when that fails in a way that may pass, or when a log seems to have gone
    backwards; `retry_ms`: the wait between.
    """

    def __init__(
        self,
        cluster: Cluster,
        subscription: Subscription,
        isolation_level: IsolationLevel,
        retry_ms: int,
        attempts: int = 3,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._isolation_level = isolation_level
        self._retry_ms = retry_ms
        self._attempts = attempts
        self._sleep = sleep
        self._warned_missing: frozenset[TopicPartition] = frozenset()
        self._warned_none = False
        self._believed_missing: frozenset[TopicPartition] = frozenset()  # each of several answers lacked them
        self._believed_older: frozenset[TopicPartition] = frozenset()  # their leaders stayed with older epochs
        self._intact: dict[TopicPartition, tuple[int, LogView, LogView]] = {}  # read to there; its leader has all of it
        self._asked: Counter[int] = Counter()  # nodes that gave the metadata which are in doubt now

    @classmethod
    def from_options(cls, cluster: Cluster, subscription: Subscription, options: Options) -> OffsetReader:
        return cls(
            cluster,
            subscription,
            options["kafka.isolation.level"],
            retry_ms=options["fetchOffset.retryIntervalMs"],
            attempts=options["fetchOffset.numRetries"],
        )

    # Topics and partitions.

    def assigned(self, known: StreamOffset | None = None) -> set[TopicPartition]:
        """Ask for the partitions to read: topics and partitions come and go while a query runs.

        A partition that was read already (`known`) vanishes, or has another id, only if its topic was deleted. But a
        broker with old metadata may give the same answer, so the driver asks others before it believes that. Raises
        UnknownTopicOrPartition for a subscribed topic that does not exist. Warns of a pattern that matches nothing.
        """
        asked: Counter[int] = Counter()
        self._asked = asked
        found = self._until_believed(lambda: self._assigned(asked), lambda found: self._unlike(found, known))
        if known is not None:
            self._believed_missing = frozenset(self._missing(found, known))
        if isinstance(self._subscription, SubscribePattern):
            self._tell_none(self._subscription, found)
        return found

    def _until_believed(self, ask: Callable[[], T], doubt: Callable[[T], _Doubt | None]) -> T:
        """The first answer without a doubt, or that of the last attempt."""
        found = ask()
        for _ in range(self._attempts - 1):
            doubted = doubt(found)
            if doubted is None:
                break
            self._wait_after(doubted.reason)
            self._ask_another(doubted.topics)
            found = ask()
        return found

    def _ask_another(self, topics: Collection[str]) -> None:
        """Ask a node for the leaders of these topics that was not asked for them yet, if there is one."""
        if topics:
            self._asking(lambda: self._cluster.topics.describe(sorted(topics), propagation_ms=0, asked=self._asked))

    def _missing(self, found: set[TopicPartition], known: StreamOffset) -> list[TopicPartition]:
        return [tp for tp in known.offsets if tp not in found and self._subscription.covers(tp)]

    def _unlike(self, found: set[TopicPartition], known: StreamOffset | None) -> _Doubt | None:
        if known is None:
            return None
        missing = self._missing(found, known)
        if not self._believed_missing.issuperset(missing):
            unseen = f" ({UNSEEN})" if isinstance(self._subscription, SubscribePattern) else ""
            return _Doubt(f"{describe(missing)}, read already, do not exist any more{unseen}")
        return self._of_other_ids(self.topic_ids(found), known)

    @staticmethod
    def _of_other_ids(found: dict[str, uuid.UUID], known: StreamOffset) -> _Doubt | None:
        others = recreated_topics(known, StreamOffset({}, found))
        return _Doubt(f"topics of other ids than those read: {', '.join(sorted(others))}") if others else None

    def _assigned(self, asked: Counter[int]) -> set[TopicPartition]:
        """From a node that `asked` does not count yet, if there is one."""
        subscription = self._subscription
        if isinstance(subscription, SubscribePattern):
            return {
                tp
                for topic in self._asking(lambda: self._cluster.topics.list(asked=asked, wanted=subscription.matches))
                if not topic.internal and subscription.matches(topic.name)
                for tp in topic.topic_partitions
            }
        existing = self._partitions_of(subscription, asked)
        if isinstance(subscription, Assign):
            self._tell_missing(frozenset(subscription.partitions) - existing)
            return existing & set(subscription.partitions)
        return existing

    def _tell_missing(self, missing: frozenset[TopicPartition]) -> None:
        if missing and missing != self._warned_missing:
            log.warning("option 'assign': %s do not exist and are left out", describe(missing))
        self._warned_missing = missing

    def _tell_none(self, subscription: SubscribePattern, found: set[TopicPartition]) -> None:
        if not found and not self._warned_none:
            text = "option 'subscribePattern': no topic has a match of %r in its name, so nothing is read. %s"
            log.warning(text, subscription.pattern, UNSEEN)
        self._warned_none = not found

    def _partitions_of(self, subscription: SubscribeTopics | Assign, asked: Counter[int]) -> set[TopicPartition]:
        existing: set[TopicPartition] = set()
        patience = 0 if self._warned_missing else PROPAGATION_MS  # not at each micro-batch again
        described = self._asking(
            lambda: self._cluster.topics.describe(subscription.topics, propagation_ms=patience, asked=asked)
        )
        for name in subscription.topics:
            topic = described.get(name)
            if topic is not None:
                existing.update(topic.topic_partitions)
            elif isinstance(subscription, SubscribeTopics):
                raise UnknownTopicOrPartition(3, f"option 'subscribe': topic {name!r}{self._similar_to(name)}")
        return existing

    def _similar_to(self, name: str) -> str:
        """A hint at an existing topic. Brokers list only topics that the client may describe."""
        try:
            return did_you_mean(name, [topic.name for topic in self._cluster.topics.list() if not topic.internal])
        except KafkaSourceError:  # the missing topic is the error to tell
            return ""

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster in the newest metadata, without asking; brokers before 0.10.1 have none."""
        return self._cluster.metadata.cluster_id

    def current_cluster_id(self) -> str | None:
        """Ask for the id of the cluster, if it is not known."""
        if self.cluster_id is None:
            self._asking(lambda: self._cluster.topics.describe([]))
        return self.cluster_id

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, uuid.UUID]:
        """The ids of topics in the newest metadata, without asking; brokers before 2.8 have none."""
        found = {topic: self._cluster.metadata.topic_id(topic) for topic in {tp.topic for tp in partitions}}
        return {topic: topic_id for topic, topic_id in found.items() if topic_id is not None}

    def current_topic_ids(self, partitions: Iterable[TopicPartition], known: StreamOffset) -> dict[str, uuid.UUID]:
        """Ask for the ids again. If one differs from the `known` id, ask another node before believing it."""
        wanted = list(partitions)
        topics = sorted({tp.topic for tp in wanted})
        asked: Counter[int] = Counter()
        self._asked = asked

        def ask() -> dict[str, uuid.UUID]:
            self._cluster.topics.describe(topics, propagation_ms=0, asked=asked)
            return self.topic_ids(wanted)

        return self._until_believed(ask, lambda found: self._of_other_ids(found, known))

    def deleted(self, topics: Collection[str], known: StreamOffset) -> set[str]:
        """Find the topics that certainly were deleted: no broker knows them for as long as news travels, or the name
        has another id than the `known` id. Asked for by name, brokers refuse a topic that this client may not see."""
        try:
            described = self._asking(lambda: self._cluster.topics.describe(sorted(topics)))
        except AuthorizationFailed:
            if len(topics) < 2:
                return set()
            return {name for topic in topics for name in self.deleted([topic], known)}
        ids = {name: topic.topic_id for name, topic in described.items() if topic is not None and topic.topic_id}
        again = recreated_topics(known, StreamOffset({}, ids))
        return again | {name for name, topic in described.items() if topic is None}

    # Offsets. A partition that was deleted meanwhile is missing in the answer, not an error.

    def list_offsets(self, symbols: Mapping[TopicPartition, int]) -> Offsets:
        """The offsets that EARLIEST and LATEST stand for now."""
        listed = self._list(symbols)
        return {tp: found.offset for tp, found in listed.items() if found.offset is not None}

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self.list_offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition], known: StreamOffset | None = None) -> LogEnds:
        """The ends of the logs now.

        A log cannot end below an offset that was read from it (`known`), and its leader's epoch cannot fall. But a new
        leader may say the first for a moment (KAFKA-7703), and a leader of before the second. So the driver asks again
        after such an answer, and then takes it as it is: the plan finds the loss. Where an open transaction alone puts
        the end there (`held_back`), the end is the known offset.
        """
        wanted = dict.fromkeys(partitions, LATEST)
        before = known or StreamOffset({})
        ends = self._until_believed(lambda: self._ends(wanted, before), lambda ends: self._backwards(ends, before))
        if known is not None:
            self._believed_older = frozenset(self._older(ends.listed, known))
        return ends

    def _ends(self, wanted: Mapping[TopicPartition, int], known: StreamOffset) -> LogEnds:
        topic_ids = self.topic_ids(wanted)
        listed = self._list(wanted)
        ends = {tp: found.offset for tp, found in listed.items() if found.offset is not None}
        epochs: Mapping[TopicPartition, int] = {
            tp: found.leader_epoch for tp, found in listed.items() if found.leader_epoch is not None
        }
        if epochs == known.leader_epochs:  # the same object: comparing 100,000 partitions costs 10 ms each time
            epochs = known.leader_epochs
        now = StreamOffset(ends, topic_ids, epochs, cluster_id=self.cluster_id)
        below = {tp: offset for tp, offset in carried(known, now).items() if ends.get(tp, offset) < offset}
        held = {tp: offset for tp, offset in self.held_back(below).items() if offset > ends[tp]}
        return LogEnds(replace(now, offsets={**ends, **held}), {tp: ends[tp] for tp in held})

    def _backwards(self, ends: LogEnds, known: StreamOffset) -> _Doubt | None:
        now = ends.listed
        below = [tp for tp, offset in carried(known, now).items() if now.offsets.get(tp, offset) < offset]
        if below:
            return _Doubt(f"{describe(below)} end below what was read already", {tp.topic for tp in below})
        older = self._older(now, known)
        if self._believed_older.issuperset(older):
            return None
        reason = f"{describe(older)} have leaders of older epochs than what was read already"
        return _Doubt(reason, {tp.topic for tp in older})

    @staticmethod
    def _older(now: StreamOffset, known: StreamOffset) -> list[TopicPartition]:
        """Partitions with older epochs than read. Of a topic with another id, `assigned` has asked again already."""
        others = recreated_topics(known, replace(now, leader_epochs={}))
        return [
            tp
            for tp in other_epochs(known, now)
            if tp.topic not in others and compare(known.view(tp), now.view(tp)).is_doubtful
        ]

    def cut_and_regrown(self, known: StreamOffset, ends: LogEnds) -> set[TopicPartition]:
        """The partitions that end where they were read to, under a later leader whose log was truncated below that.

        Nothing else tells of such a log before it moves. The driver asks once about each election. A log that an open
        transaction holds back is asked about when it moves: its records could not be read yet.
        """
        now = ends.listed
        ended = {
            tp: epoch
            for tp, epoch in new_leaders(known, now).items()
            if now.offsets.get(tp) == known.offsets.get(tp)
            and tp not in ends.last_stable
            and self._intact.get(tp) != (known.offsets[tp], known.view(tp), now.view(tp))
        }
        found = self.epoch_ends(ended, known, now)
        cut = {tp for tp, end in found.items() if end < known.offsets[tp]}
        intact = [tp for tp in ended if tp not in cut]
        self._intact.update((tp, (known.offsets[tp], known.view(tp), now.view(tp))) for tp in intact)
        return cut

    def held_back(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        """How far the logs have come of these offsets, though `latest` lists lower ends: transactions are open.

        A reader with read_uncommitted, or its group, may have got there. Nothing is lost up to the high watermark:
        records come when the transactions have ended. There are no such offsets under read_uncommitted.
        """
        if not offsets or self._isolation_level is not IsolationLevel.READ_COMMITTED:
            return {}
        reached = self.high_watermarks(offsets)
        return {tp: min(offset, reached[tp]) for tp, offset in offsets.items() if tp in reached}

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The epochs of the present leaders; brokers before 2.1 give none.

        The leaders themselves are asked: epochs in metadata may be older than the newest records, which would then look
        as if they had been written over a truncated log.
        """
        return self.latest(partitions).leader_epochs

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offset of the first record that is not older than a timestamp in ms; None where all are older."""
        return {tp: found.offset for tp, found in self._list(timestamps).items()}

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """The offsets that the group has committed; None for a partition without one."""
        return self._asking(lambda: self._cluster.groups.committed_offsets(group, partitions))

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The ends of logs for readers with read_uncommitted."""
        wanted = dict.fromkeys(partitions, LATEST)
        found = self._list(wanted, IsolationLevel.READ_UNCOMMITTED)
        return {tp: one.offset for tp, one in found.items() if one.offset is not None}

    def epoch_ends(
        self,
        epochs: Mapping[TopicPartition, int],
        before: StreamOffset,
        now: StreamOffset,
    ) -> Offsets:
        """Ask where leader epochs end in the present logs (exclusive). A partition whose leader does not know is
        missing.

        `before`: what was read. An end below says that a log was truncated, and a leader that was just elected may say
        so in error (redpanda#5435). `now`: which leaders have been seen. A leader of before may say that all is there.
        So the driver asks again after both. Brokers before 0.11 know no epochs, those before 2.3 answer only clients
        that may act as a replica.
        """

        def ask() -> tuple[Offsets, StreamOffset]:
            ends = self._asking(lambda: self._of_existing(epochs, self._cluster.offsets.epoch_ends))
            listed = self._list(dict.fromkeys(now.leader_epochs.keys() & epochs.keys(), LATEST))
            led = {tp: found.leader_epoch for tp, found in listed.items() if found.leader_epoch is not None}
            known = {tp: end.end_offset for tp, end in ends.items() if end.end_offset is not None}
            return known, StreamOffset({}, now.topic_ids, led)

        def doubt(found: tuple[Offsets, StreamOffset]) -> _Doubt | None:
            ends, led = found
            cut = [tp for tp, end in ends.items() if end < before.offsets.get(tp, end)]
            if cut:
                return _Doubt(f"{describe(cut)} were truncated below what was read already", {tp.topic for tp in cut})
            older = self._older(led, now)
            if not older:
                return None
            return _Doubt(f"leaders of before have answered for {describe(older)}", {tp.topic for tp in older})

        try:
            return self._until_believed(ask, doubt)[0] if epochs else {}
        except (UnsupportedApiVersion, ClusterAuthorizationFailed) as error:
            log.info("whether logs were truncated is not looked at: %s", error)
            return {}

    def _list(
        self, wanted: Mapping[TopicPartition, int], isolation_level: IsolationLevel | None = None
    ) -> dict[TopicPartition, ListedOffset]:
        """Under the query's isolation level, unless another is given."""
        level = isolation_level or self._isolation_level
        return self._asking(lambda: self._of_existing(wanted, lambda left: self._cluster.offsets.list(left, level)))

    def _asking(self, ask: Callable[[], T]) -> T:
        """The answer to a question, from one of `attempts`. Raises the error of the last attempt."""
        attempt = 1
        while True:
            try:
                return ask()
            except _MAY_PASS as error:
                if attempt >= self._attempts or isinstance(error, _WILL_NOT):
                    raise
                # The client has logged why each attempt to connect failed.
                level, reason = (logging.DEBUG if isinstance(error, BootstrapFailed) else logging.WARNING), str(error)
            self._wait_after(reason, level)
            attempt += 1

    def _wait_after(self, reason: str, level: int = logging.WARNING) -> None:
        log.log(level, "%s; asking again", reason)
        self._sleep(self._retry_ms / 1000)

    def _of_existing(
        self,
        wanted: Mapping[TopicPartition, int],
        ask: Callable[[Mapping[TopicPartition, int]], dict[TopicPartition, T]],
    ) -> dict[TopicPartition, T]:
        while wanted:
            try:
                return ask(wanted)
            except UnknownTopicOrPartition:
                topics = self._cluster.topics.describe(sorted({tp.topic for tp in wanted}))
                left = {tp for topic in topics.values() if topic is not None for tp in topic.topic_partitions}
                if wanted.keys() <= left:
                    raise
                wanted = {tp: symbol for tp, symbol in wanted.items() if tp in left}
        return {}
