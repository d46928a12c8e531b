"""Sends dead letters back to the topics that their records came from, each once.

A transaction holds some of the records and, as offsets of a consumer group, which dead letters are done. So a run that
is killed has sent what is marked, and a later run goes on there. Two runs at a time do not meet: the second fences the
first, which fails.

A run may take some of the dead letters only, those with a reason. So an offset is not enough to say which are done. The
committed offset of a partition is that of its first dead letter that is not, and the text beside it has the ranges of
later ones that are: `5-9,12-12`, offsets, both ends included.

Brokers forget such offsets after `offsets.retention.minutes` (7 days by default), and dead letters may live longer: a
run in the week after would send all of them again. In a transaction nobody can ask for a longer life, so another group
has a copy that is kept (`Groups.keep`). A plain commit is not fenced: a run that was fenced may still put an older copy
there. So a dead letter is done where either group says so.

A row that a writer's schema did not take is a dead letter, too, as JSON: there is no record that could be sent. A run
passes over it for good: no run can send it, and each that is left costs a place in that text.

A letter stays, and does not block the others, if its topic or partition does not exist, or if it came from another
cluster: a later run sends it when its topic exists again, or to a topic that the user names. If a topic refuses a
record, the record becomes a dead letter again in the same transaction, with the new reason, and the old dead letter is
done.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkasource.errors import KafkaSourceError, UnsupportedApiVersion
from kafkasource.exactly_once.decision import MAX_METADATA_BYTES
from kafkasource.exactly_once.decision_status import RETENTION_MS
from kafkasource.formats.dead_letters.headers import PREFIX, TOPIC
from kafkasource.formats.dead_letters.makers import topic_for_records
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.producer.delivery import Delivery
from kafkasource.kafka.producer.producer import Producer
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.sink.columns import checked_rows
from kafkasource.sink.partitioner import partitioner_of
from kafkasource.sink.schema import SinkSchema
from kafkasource.tools.admin.dead_letters import LetterOrigin, origins_of
from kafkasource.tools.admin.destinations import Destinations
from kafkasource.tools.admin.topics import existing
from kafkasource.types import TopicPartition

if TYPE_CHECKING:
    from kafkasource.options import Options
    from kafkasource.reader import Reader

log = logging.getLogger("kafkasource.admin")

_NAME = "pykafka-dlq-replay."  # of the group and the transactional id: a run for the same topic fences the other
_KEPT = "pykafka-dlq-replay-kept."


def group_of(topic: str) -> str:
    """The consumer group whose offsets say which dead letters of the topic were sent back."""
    return _NAME + topic


def kept_group_of(topic: str) -> str:
    """The group with the copy of these offsets that brokers do not forget."""
    return _KEPT + topic


def source_options(topic: str) -> dict[str, str]:
    """Options of a run's reader: it reads from the first dead letter that is not done."""
    return {
        "startingOffsets": "committed:earliest",
        "kafka.group.id": group_of(topic),
        "failOnDataLoss": "false",  # dead letters that have aged out cannot be sent back: the log says so
    }


@dataclass(slots=True)
class Done:
    """The dead letters of one partition that are done. Add rows in the order of their offsets, from `next_offset`.

    Some offsets between two rows have no row: transaction markers, and records that were aborted or compacted away. A
    range includes them.
    """

    next_offset: int = 0  # behind the last row; at first the first offset that no earlier run has done
    before: Sequence[tuple[int, int]] = ()  # ranges (first, last) of earlier runs, both included; ascending, apart
    first_left: int | None = None
    _ranges: list[tuple[int, int]] = field(default_factory=list)
    _touches: bool = False  # is the last row done?

    @classmethod
    def parse(cls, offset: int, text: str, what: str) -> Done:
        """From a committed offset and the text beside it. Raises KafkaSourceError where the text is not ours."""
        try:
            pairs = [tuple(map(int, pair.split("-"))) for pair in text.split(",") if pair]
            return cls.of([(0, offset - 1), *((first, last) for first, last in pairs)])
        except ValueError:
            raise KafkaSourceError(
                f"{what}: the text beside its offset is {text!r}, which `pykafka dlq replay` has not written. Another "
                "program commits offsets of this group: let it use another one"
            ) from None

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> Done:
        """Offsets in any of the ranges are done."""
        apart: list[tuple[int, int]] = []
        for first, last in sorted(pair for pair in ranges if pair[0] <= pair[1]):
            if apart and first <= apart[-1][1] + 1:
                apart[-1] = apart[-1][0], max(apart[-1][1], last)
            else:
                apart.append((first, last))
        return cls(apart[0][1] + 1 if apart and apart[0][0] == 0 else 0, apart)

    def __contains__(self, offset: int) -> bool:
        """Was it done by an earlier run?"""
        return any(first <= offset <= last for first, last in self.before)

    def add(self, offset: int, done: bool) -> None:
        if done and self._touches:
            self._ranges[-1] = (self._ranges[-1][0], offset)
        elif done:
            self._ranges.append((offset, offset))
        elif self.first_left is None:
            self.first_left = offset
        self._touches = done
        self.next_offset = offset + 1

    @property
    def committed(self) -> tuple[int, str]:
        """The offset to commit, and the text beside it."""
        later = [(max(first, self.next_offset), last) for first, last in self.before if last >= self.next_offset]
        if self.first_left is None:
            return self.next_offset, _text(later)
        return self.first_left, _text([done for done in self._ranges if done[0] > self.first_left] + later)


def _text(ranges: Sequence[tuple[int, int]]) -> str:
    return ",".join(f"{first}-{last}" for first, last in ranges)


@dataclass(frozen=True)
class Choice:
    """The dead letters to send back, and their target. `topic`: the topic of dead letters."""

    topic: str
    reason: str = ""  # words that a dead letter's reason must have in it, in any case
    to: str | None = None  # one topic for all of them
    from_topic: str | None = None  # only those that came from this topic

    def takes(self, origin: LetterOrigin) -> bool:
        """Is it a dead letter of another topic, with the reason? One of this topic itself would come back for ever."""
        target = self.to or origin.topic
        known = origin.reason is not None and target is not None and target != self.topic and not origin.is_row
        return (
            known and self.from_topic in (None, origin.topic) and self.reason.lower() in (origin.reason or "").lower()
        )

    def back(self, rows: pa.RecordBatch, origins: Sequence[LetterOrigin]) -> pa.RecordBatch:
        """The records as they were: their bytes, their own headers, their time, and their partition in their topic."""
        headers = [own_headers(own) for own in rows.column("headers").to_pylist()]
        # In another topic the key decides, and where nobody knows the partition.
        partitions = [None if self.to else origin.partition_number for origin in origins]
        columns = {name: rows.column(name) for name in ("key", "value", "timestamp")}
        columns["topic"] = pa.array([self.to or origin.topic for origin in origins], pa.string())
        columns["headers"] = pa.array(headers, HEADERS_TYPE)
        columns["partition"] = pa.array(partitions, pa.int32())
        return pa.RecordBatch.from_pydict(columns)


def own_headers(headers: Sequence[Mapping[str, object]] | None) -> list[Mapping[str, object]] | None:
    """Remove the headers that made a dead letter of the record: the last header of each name.

    Earlier headers with these names belong to the record, which was a dead letter before. Each set of such headers
    begins with the topic's name."""
    rows = list(headers or ())
    topics = [number for number, header in enumerate(rows) if header["key"] == TOPIC]
    begin = topics[-1] if len(topics) > 1 else 0
    last = {
        header["key"]: number
        for number, header in enumerate(rows)
        if number >= begin and str(header["key"]).startswith(PREFIX)
    }
    return [header for number, header in enumerate(rows) if number not in last.values()] or None


class Replay:
    """One run. `sent`: the records that went back, by topic; `left`: the dead letters that were not chosen; `rows`:
    those that are rows as JSON, which cannot be sent; `passed_over`: those that were chosen and cannot go back, by
    reason. They stay, or are dead letters again."""

    def __init__(self, reader: Reader, parsed: Options, choice: Choice) -> None:
        """`reader`: of the topic of dead letters, with headers, committed records and `source_options`. `parsed`:
        options of a sink. Contacts no broker."""
        self._reader = reader
        self._choice = choice
        self._group = group_of(choice.topic)
        self._kept_group = kept_group_of(choice.topic)
        self._config = ProducerConfig.from_options(parsed)
        self._partitioner = partitioner_of(parsed["partitioner"], self._config.batch_bytes)
        self._timeout_ms: int = parsed["kafka.transaction.timeout.ms"]
        self.sent: Counter[str] = Counter()
        self.left = 0
        self.rows = 0
        self.passed_over: Counter[str] = Counter()
        self._destinations = Destinations(reader.cluster)

    def count(self) -> None:
        """Only count what a run would send."""
        for _, origins in self._chosen(self._done(self._partitions())):
            self.sent.update(str(self._choice.to or origin.topic) for origin in origins)

    def run(self) -> None:
        """Send them, a transaction for each Arrow batch of dead letters. An error leaves what is not committed for the
        next run."""
        transactions = self._reader.cluster.transactions
        producer = Producer(self._config)
        try:
            version = transactions.version()
            # First of all: it ends what a killed run has left open, and stops one that still runs.
            transaction = TaskTransaction.open(transactions, self._group, self._timeout_ms, version)
            partitions = self._partitions()
            done = self._done(partitions)
            # Copies offsets that an earlier run did not copy. It also fails early if this user may not commit them.
            self._keep({tp: done.get(tp, Done()) for tp in partitions})
            for rows, origins in self._chosen(done):
                with self._aborting(transaction):
                    sent = self._send(producer, transaction, rows, origins)
                    self._mark(transaction, done)
                    given = transactions.end(self._group, transaction.producer, True, version)
                if refused := sent.pop(self._choice.topic, 0):
                    self.passed_over[f"their topics refuse them: dead letters of {self._choice.topic} again"] += refused
                self.sent.update(sent)
                self._keep(done)
                transaction = transaction.following(given)
        finally:
            producer.close()

    def _done(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Done]:
        """The dead letters that earlier runs have done, by partition. The request names the partitions: otherwise a
        broker omits those whose first offset came with a transaction that has just ended (Kafka 3.9)."""
        ranges: dict[TopicPartition, list[tuple[int, int]]] = {}
        for group in (self._group, self._kept_group):
            for tp, committed in self._reader.cluster.groups.committed(group, partitions).items():
                if committed is not None:
                    done = Done.parse(committed.offset, committed.text, f"group {group!r}, {tp}")
                    ranges.setdefault(tp, []).extend(done.before)
        return {tp: Done.of(pairs) for tp, pairs in ranges.items()}

    def _partitions(self) -> list[TopicPartition]:
        return existing(self._reader.cluster, [self._choice.topic])[self._choice.topic].topic_partitions

    def _keep(self, done: Mapping[TopicPartition, Done]) -> None:
        """The copy of what is committed."""
        offsets = {tp: partition_done.committed for tp, partition_done in done.items()}
        try:
            self._reader.cluster.groups.keep(self._kept_group, offsets, RETENTION_MS)
        except UnsupportedApiVersion as error:  # of no release yet: each serves a version with the field
            log.warning(
                "brokers forget after offsets.retention.minutes which dead letters of %s were sent back: %s",
                *(self._choice.topic, error),
            )

    def _chosen(self, done: dict[TopicPartition, Done]) -> Iterator[tuple[pa.RecordBatch, list[LetterOrigin]]]:
        """The rows that go back, with their origins, batch by batch; none is empty. Marks them in `done`."""
        for batch in self._reader:
            numbers, origins = [], []
            places = zip(*(batch.column(name).to_pylist() for name in ("topic", "partition", "offset")), strict=True)
            for number, ((topic, partition, offset), origin) in enumerate(zip(places, origins_of(batch), strict=True)):
                mine = done.setdefault(TopicPartition(topic, partition), Done())
                before = offset in mine
                chosen = not before and self._choice.takes(origin)
                refusal = self._destinations.refusal(origin) if chosen and self._choice.to is None else None
                now = chosen and refusal is None
                mine.add(offset, before or now or origin.is_row)
                if now:
                    numbers.append(number)
                    origins.append(origin)
                if refusal is not None:
                    self.passed_over[refusal] += 1
                self.left += not (before or chosen or origin.is_row)
                self.rows += origin.is_row and not before
            if numbers:
                yield batch.take(pa.array(numbers, pa.int64())), origins

    def _send(
        self, producer: Producer, transaction: TaskTransaction, rows: pa.RecordBatch, origins: Sequence[LetterOrigin]
    ) -> Counter[str]:
        back = self._choice.back(rows, origins)
        schema = SinkSchema(None, {name: number for number, name in enumerate(back.schema.names)})
        topic, dead_letters = self._choice.topic, None
        if self._choice.to is None:  # else the dead letter would lose the name of its own topic: the run fails
            dead_letters = topic_for_records(topic, self._partitioner, self._reader.cluster.metadata.cluster_id)
        with producer.delivery(delivery=Delivery(transaction, dead_letters)) as delivery:
            for part in checked_rows(schema, back):
                producer.append(part, self._partitioner, delivery)
        sent: Counter[str] = Counter()
        for tp, written in delivery.written.items():
            sent[tp.topic] += written.records
        return sent

    def _mark(self, transaction: TaskTransaction, done: Mapping[TopicPartition, Done]) -> None:
        """The offsets of the group, in the transaction."""
        transactions, version = self._reader.cluster.transactions, transaction.transaction_version
        offsets = {tp: partition_done.committed for tp, partition_done in done.items()}
        for tp, (_, text) in offsets.items():
            if len(text) > MAX_METADATA_BYTES:
                raise KafkaSourceError(
                    f"{tp}: letters that were sent back and letters that were not alternate too often: their list "
                    f"would have {len(text)} bytes, and a broker keeps {MAX_METADATA_BYTES} beside an offset. Run it "
                    "without --reason, or with one that more of them have. Send those that cannot go back to another "
                    "topic: --from-topic TOPIC --to ANOTHER"
                )
        if version < 2:
            transactions.add_offsets(self._group, transaction.producer, self._group)
        transactions.commit_offsets(self._group, transaction.producer, self._group, offsets, version)

    @contextlib.contextmanager
    def _aborting(self, transaction: TaskTransaction) -> Iterator[None]:
        """Abort if this block fails, so that no reader waits for the transaction; then raise the error."""
        try:
            yield
        except BaseException:
            if transaction.may_be_aborted():
                with contextlib.suppress(Exception):  # its timeout will do it
                    transactions, version = self._reader.cluster.transactions, transaction.transaction_version
                    transactions.end(self._group, transaction.producer, False, version)
            raise
