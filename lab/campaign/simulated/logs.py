"""A query whose logs have a history: elections, truncations, topics made again; and brokers with old or wrong answers.

The query is the connector's stream reader, called as Spark calls it, or a reader that has no checkpoint
(`Reader.follow`), on the tests' cluster of plain values. A broker may show a topic as it was before the last thing that
happened to it, until metadata are asked for again; a new leader may give a wrong end of an epoch, once. Some clusters
have topic ids, the others leader epochs alone (Kafka 2.4 to 2.7).

With `failOnDataLoss=false` each record that is there at the end must have been read, and none twice. In a calm world
nothing is lost, so the query has `failOnDataLoss=true` and must not stop.
"""

from __future__ import annotations

import copy
import json
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fake_cluster import FakeCluster

from kafkasource import options
from kafkasource.errors import DataLoss, KafkaSourceError, UnknownTopicOrPartition
from kafkasource.kafka.cluster.offsets import EpochEnd
from kafkasource.source.plan.offset_reader import OffsetReader
from kafkasource.source.plan.offsets import EARLIEST
from kafkasource.source.plan.positions import AtOffsets
from kafkasource.source.plan.reader_positions import FetchPositions
from kafkasource.source.plan.subscription import SubscribeTopics
from kafkasource.source.spark.stream import StreamReader
from kafkasource.spark.releases import ReadAllAvailable
from kafkasource.types import IsolationLevel, OffsetRange, TopicPartition
from lab.campaign.simulated.worlds import CUT, MADE_AGAIN, OLD_NEWS, WRONG_END, Outcome

STEPS = 90
OLD_NEWS_ONE_IN, WRONG_END_ONE_IN = 4, 4
MOST_GENERATIONS = 50
TOPICS = ("a", "b")
LIMITS = (None, 1, 3, 7)


@dataclass
class Log:
    """[start, end) with records in it, and where the epochs of its leaders begin: the first one at 0."""

    epoch: int
    start: int = 0
    end: int = 0
    records: dict[int, int] = field(default_factory=dict)  # offset: the record's number
    begins: dict[int, int] = field(default_factory=dict)  # epoch: offset
    open_at: int | None = None  # the last stable offset, where a transaction is open

    def __post_init__(self) -> None:
        self.begins[self.epoch] = 0

    def end_of(self, epoch: int) -> int | None:
        """Answer like Kafka's cache of leader epochs. None: it has not heard of that epoch."""
        if epoch > self.epoch:
            return None
        return min((offset for later, offset in self.begins.items() if later > epoch), default=self.end)

    def elect(self, cut: int) -> None:
        """A new leader, whose log ends at `cut`."""
        self.records = {offset: number for offset, number in self.records.items() if offset < cut}
        self.begins = {epoch: offset for epoch, offset in self.begins.items() if offset <= cut}
        self.end, self.epoch = cut, self.epoch + 1
        self.begins[self.epoch] = cut
        if self.open_at is not None:
            self.open_at = min(self.open_at, cut)


@dataclass
class Topic:
    topic_id: uuid.UUID | None
    logs: list[Log]


class Brokers(FakeCluster):
    """Shows `topics`, or what `old` has of some."""

    def __init__(self, random: Random, ids: bool) -> None:
        super().__init__()
        self.random, self.ids = random, ids
        self.faults: Counter[str] = Counter()
        self.harms = True
        self.generation = 0
        self.topics_now: dict[str, Topic] = {}
        self.before: dict[str, Topic] = {}  # the last thing that happened to each
        self.unseen: set[str] = set()  # the query's process has not seen since what happened
        self.old: dict[str, Topic] = {}  # shown instead
        self.asked_of: set[tuple[TopicPartition, int]] = set()  # leaders that were asked for the end of an epoch
        for name in TOPICS:
            self.make(name)

    def make(self, name: str) -> None:
        """Make a topic, in place of one of the name.

        Without ids the epochs of the new topic are lower, else nothing could show that it is another. And no broker
        shows the old topic any more: its epochs would look like those of newer leaders.
        """
        if self.ids:
            self.remember(name)
        else:
            self.before.pop(name, None)
            self.unseen.discard(name)
            self.old.pop(name, None)
        self.generation += 1
        first = 0 if self.ids else 1000 * (MOST_GENERATIONS - self.generation)
        topic_id = uuid.UUID(int=self.random.getrandbits(128)) if self.ids else None
        self.topics_now[name] = Topic(topic_id, [Log(first) for _ in range(self.random.randint(1, 2))])
        self._show()

    def remember(self, name: str) -> None:
        if name in self.topics_now:
            self.before[name] = copy.deepcopy(self.topics_now[name])
            self.unseen.add(name)

    def log(self, tp: TopicPartition) -> Log:
        return self.topics_now[tp.topic].logs[tp.partition]

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(name, n) for name, topic in self.topics_now.items() for n in range(len(topic.logs))]

    def _show(self) -> None:
        shown = {**self.topics_now, **self.old}
        self.logs = {name: [(log.start, log.end) for log in topic.logs] for name, topic in shown.items()}
        ids = {name: topic.topic_id for name, topic in shown.items() if topic.topic_id is not None}
        self.topic_ids.clear()
        self.topic_ids.update(ids)
        each = {TopicPartition(name, n): log for name, topic in shown.items() for n, log in enumerate(topic.logs)}
        self.shown = each
        self.epochs = {tp: log.epoch for tp, log in each.items()}
        self.stable = {tp: log.open_at for tp, log in each.items() if log.open_at is not None}

    def _described(self, topics: Iterable[str], propagation_ms: int = 5000, asked: Any = None) -> Any:
        """A broker with old news is not asked twice in a row. A process remembers the epochs that it has seen."""
        told_old, self.old = bool(self.old), {}
        if self.harms and self.unseen and not told_old and not self.random.randrange(OLD_NEWS_ONE_IN):
            name = self.random.choice(sorted(self.unseen))
            self.old = {name: self.before[name]}
            self.faults[OLD_NEWS] += 1
        self.unseen &= self.old.keys()
        self._show()
        return super()._described(topics, propagation_ms, asked)

    def _listed_offsets(self, asked: Any, isolation_level: Any) -> Any:
        self._show()
        return super()._listed_offsets(asked, isolation_level)

    def _epoch_ends(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        self._show()
        found = {}
        for tp, epoch in asked.items():
            if tp not in self.shown:
                raise UnknownTopicOrPartition(3, str(tp))
            log = self.shown[tp]
            end = log.end_of(epoch)
            new = (tp, log.epoch) not in self.asked_of
            if self.harms and new and end and not self.random.randrange(WRONG_END_ONE_IN):
                end = self.random.randrange(end)
                self.faults[WRONG_END] += 1
            self.asked_of.add((tp, log.epoch))
            found[tp] = EpochEnd(None if end is None else epoch, end)
        return found


class Query:
    """The calls of Spark, its checkpoint, and tasks that read what was planned."""

    def __init__(self, random: Random, brokers: Brokers, calm: bool) -> None:
        self.random, self.brokers, self.calm = random, brokers, calm
        self.ends: list[Any] = []  # of planned micro-batches
        self.done = 0
        self.read: Counter[int] = Counter()
        self.level = "read_uncommitted"
        self.restart()

    def restart(self) -> None:
        if self.random.random() < 0.3:
            self.level = self.random.choice(("read_uncommitted", "read_committed"))
        given = {
            "kafka.bootstrap.servers": "nowhere:1",
            "subscribe": ",".join(TOPICS),
            "startingOffsets": "earliest",
            "fetchOffset.retryIntervalMs": "0",
            "failOnDataLoss": str(self.calm).lower(),
            "kafka.isolation.level": self.level,
        }
        limit = self.random.choice(LIMITS)
        if limit is not None:
            given["maxOffsetsPerTrigger"] = str(limit)
        self.brokers.unseen = set(self.brokers.before)  # a new process has no metadata
        brokers: Any = self.brokers
        self.reader = StreamReader(options.parse(given, "source"), lambda _: brokers)

    @property
    def is_pending(self) -> bool:
        return self.done < len(self.ends)

    def step(self) -> bool:
        """A call of Spark's, or a crash. False: nothing is new."""
        if not self.is_pending:
            start = self.ends[-1] if self.ends else _wire(self.reader.initialOffset())
            end = _wire(self.reader.latestOffset(start, self.reader.getDefaultReadLimit() or ReadAllAvailable()))
            if self.ends and end == start:
                return False
            self.ends.append(end)
            return True
        start = self.ends[self.done - 1] if self.done else _wire(self.reader.initialOffset())
        planned = self.reader.partitions(start, self.ends[self.done])
        for one in (one for partition in planned for one in partition.value):
            read_range(self.brokers, one, self.read)
        self.done += 1
        return True


class Follower:
    """A reader that keeps its positions in memory."""

    def __init__(self, random: Random, brokers: Brokers, calm: bool) -> None:
        self.random, self.brokers = random, brokers
        self.now_s = 0.0
        self.read: Counter[int] = Counter()
        some: Any = brokers
        level = random.choice(list(IsolationLevel))
        asked = OffsetReader(some, SubscribeTopics(TOPICS), level, 0, sleep=lambda _: None)
        start = AtOffsets("startingOffsets", others=EARLIEST)
        clock = self._now
        self.positions = FetchPositions(asked, start, fail_on_data_loss=calm, assigned=asked.assigned, clock=clock)
        self.positions.begin(asked.assigned())

    def _now(self) -> float:
        return self.now_s

    def restart(self) -> None:
        """Do nothing: without a checkpoint it would read everything again."""

    def step(self) -> bool:
        """False: nothing is new, though it has looked for new topics."""
        looks = self.random.random() < 0.5 or not self.brokers.harms
        self.now_s += 10 if looks else 1
        ranges = self.positions.next_ranges()
        for one in ranges:
            read_range(self.brokers, one, self.read)
        self.positions.reached(ranges)
        return bool(ranges)


def read_range(brokers: Brokers, one: OffsetRange, into: Counter[int]) -> None:
    """Read as a task does that compares the log with the plan."""
    tp = one.topic_partition
    topic = brokers.topics_now[tp.topic]
    if tp.partition >= len(topic.logs) or topic.topic_id != one.topic_id:
        return
    log = topic.logs[tp.partition]
    end = log.end if one.leader_epoch is None else log.end_of(one.leader_epoch)
    for offset in range(one.start_offset, min(one.end_offset, -1 if end is None else end)):
        if offset in log.records:
            into[log.records[offset]] += 1


def _wire(offset: Any) -> Any:
    return json.loads(json.dumps(offset))


class History:
    """The things that happen to the logs."""

    def __init__(self, random: Random, brokers: Brokers, calm: bool) -> None:
        self.random, self.brokers = random, brokers
        self.kinds = ["append"] * 6 + ["elect", "grow", "open", "close"]
        if not calm:
            self.kinds += ["cut", "cut", "expire", "make again"]
        self.records = 0

    def event(self) -> None:
        random, brokers = self.random, self.brokers
        tp, kind = random.choice(brokers.partitions()), random.choice(self.kinds)
        log = brokers.log(tp)
        if kind in ("elect", "grow", "cut"):
            brokers.remember(tp.topic)
        if kind == "append":
            self._append(log, random.randint(1, 6))
        elif kind == "elect":
            log.elect(log.end)
        elif kind == "cut" and log.end > log.start:
            brokers.faults[CUT] += 1
            end = log.end
            log.elect(random.randrange(log.start, end))
            if not random.randrange(3):  # it grows to the very offset again
                self._append(log, end - log.end)
        elif kind == "expire":
            most = log.end if log.open_at is None else log.open_at
            log.start = random.randint(log.start, max(log.start, most))
            log.records = {offset: number for offset, number in log.records.items() if offset >= log.start}
        elif kind == "grow" and len(brokers.topics_now[tp.topic].logs) < 3:
            brokers.topics_now[tp.topic].logs.append(Log(brokers.topics_now[tp.topic].logs[0].epoch))
        elif kind == "open" and log.open_at is None:
            log.open_at = log.end
        elif kind == "close":
            log.open_at = None
        elif kind == "make again" and brokers.generation < MOST_GENERATIONS - 1 and not random.randrange(3):
            brokers.faults[MADE_AGAIN] += 1
            brokers.make(tp.topic)

    def _append(self, log: Log, count: int) -> None:
        for _ in range(count):
            log.records[log.end] = self.records
            log.end, self.records = log.end + 1, self.records + 1


def run(random: Random) -> Outcome:
    brokers = Brokers(random, ids=random.random() < 0.5)
    calm = random.random() < 0.4
    query = (Query if random.random() < 0.7 else Follower)(random, brokers, calm)
    history = History(random, brokers, calm)
    findings: Counter[str] = Counter()
    texts: list[str] = []
    try:
        for _ in range(STEPS):
            for _ in range(random.randint(0, 4)):
                history.event()
            query.step()
            if not random.randrange(5):
                query.restart()
        brokers.harms, brokers.old = False, {}
        for tp in brokers.partitions():
            brokers.log(tp).open_at = None
        steps = 0
        while query.step():
            steps += 1
            if steps > 1000:
                findings["stalled"] += 1
                break
    except (DataLoss, KafkaSourceError) as error:
        findings["a loss that was none" if isinstance(error, DataLoss) else "failed"] += 1
        texts.append(repr(error))
    else:
        judge(brokers, query.read, findings, texts)
    return Outcome(brokers.faults, query.read.total(), findings, tuple(texts[:3]))


def judge(brokers: Brokers, read: Counter[int], findings: Counter[str], texts: list[str]) -> None:
    there: Collection[tuple[TopicPartition, int, int]] = [
        (tp, offset, number) for tp in brokers.partitions() for offset, number in brokers.log(tp).records.items()
    ]
    lost = [f"{tp} at {offset}" for tp, offset, number in there if not read[number]]
    doubled = [f"record {number}, {count} times" for number, count in read.items() if count > 1]
    findings.update(lost=len(lost), doubled=len(doubled))
    texts += [f"lost: {each}" for each in lost[:1]] + [f"doubled: {each}" for each in doubled[:1]]
    for rule in [rule for rule, count in findings.items() if not count]:
        del findings[rule]
