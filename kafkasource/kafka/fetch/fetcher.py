"""Reading of one range: fetch, decode, yield Arrow batches. `task` reads one range after the other.

At most one fetch is in flight and one answer held. The order makes it fast: `receive` scans an answer for its last
offset and sends the next fetch; only then `rows` decodes the answer, piece by piece, and hands the rows to Spark, while
the broker and the network work on the next answer. How large a fetch is: `budget`.

position --fetch--> answer --scan--> send next fetch --> decode --> rows --> position = next offset
^                                                                                   |
+-----------------------------------------------------------------------------------+

Invariants: rows are yielded in offset order, each once; `position` only grows, and grows past holes (compaction,
markers, aborted transactions) by the batches' last offsets, whatever their row counts; it passes over records that
are gone only through `loss.report`, and never reads others in their place. Not a step forward for
`kafkaConsumer.pollTimeoutMs` is an error: a stuck partition must be seen. Where the log ends by then, it is a loss.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Generic

from kafkasource.errors import (
    BrokerError,
    CorruptMessage,
    CorruptRecordBatch,
    DeadlineExceeded,
    InconsistentTopicId,
    KafkaSourceError,
    MalformedRecordTimestamp,
    OffsetOutOfRange,
    ProtocolError,
    RequestTimeout,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedRecordFormat,
)
from kafkasource.kafka import counters
from kafkasource.kafka.fetch import loss
from kafkasource.kafka.fetch.budget import FetchBudget
from kafkasource.kafka.fetch.config import FetchSettings
from kafkasource.kafka.fetch.messages import FetchedPartition
from kafkasource.kafka.fetch.partition import PartitionClient, Sent
from kafkasource.kafka.fetch.pieces import decode_pieces
from kafkasource.kafka.fetch.planned_log import Truncation
from kafkasource.kafka.records.batches import next_fetch_offset
from kafkasource.kafka.records.compression import RecordBatchTooLarge
from kafkasource.types import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa


log = logging.getLogger("kafkasource.source")


_RECORD_REFETCHES = 1  # how often a batch with a wrong CRC is fetched again
_ANSWER_REFETCHES = 4  # how often an answer that cannot be decoded is fetched again
_NEWS_TRAVELS_S = 3.0  # a topic counts as gone after brokers have denied it for this long: news takes a while
_RECORD_BYTES = 1024  # the assumed size of an unseen record: a high guess
_ANY_BYTES = 2**31 - 1  # no limit: the size in a request is an int32
_LEAST_THROTTLED_BYTES = 16_384  # a fetch gets no smaller than this for the sake of a quota
_IS_DELETED = "the topic has been deleted"
_IS_GONE = f"{_IS_DELETED}, or recreated under its name"


class Recovery(Enum):
    """The next step after a failed fetch."""

    FAIL = auto()
    REFRESH = auto()  # ask for the leader again, and fetch a little later
    RECONNECT = auto()  # fetch again over another connection
    ASK_BOUNDS = auto()  # the offset may be gone
    REFRESH_THEN_ASK = auto()  # the log may be gone, or the broker that was asked has not heard of it yet


def recovery(error: KafkaSourceError) -> Recovery:
    """The table of faults. `PartitionFetcher` does what it says."""
    if isinstance(error, OffsetOutOfRange):
        return Recovery.ASK_BOUNDS
    if isinstance(error, (UnknownTopicOrPartition, UnknownTopicId, InconsistentTopicId, UnknownLeaderEpoch)):
        return Recovery.REFRESH_THEN_ASK
    if isinstance(error, (UnsupportedRecordFormat, RecordBatchTooLarge, MalformedRecordTimestamp)):
        return Recovery.FAIL  # a second fetch would meet the same error
    if isinstance(error, (ProtocolError, CorruptMessage)) or isinstance(error.__cause__, ProtocolError):
        return Recovery.RECONNECT
    if isinstance(error, BrokerError) and error.row.unknown:
        return Recovery.REFRESH  # Java's consumer goes on too (FetchCollector.handleInitializeErrors)
    return Recovery.REFRESH if error.retriable else Recovery.FAIL


@dataclass(slots=True)
class _InFlight(Generic[Sent]):
    offset: int
    asked_bytes: int
    sent: Sent


class PartitionFetcher(Generic[Sent]):
    """Reads one range. Single use, one thread; `clock` in seconds. The ranges of one task share `budget`.

    `begin` may come first. Then, until `is_done`: `receive`, and where that says so, all of `rows`. `close` at the end.
    """

    def __init__(
        self,
        offset_range: OffsetRange,
        settings: FetchSettings,
        client: PartitionClient[Sent],
        budget: FetchBudget,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.position = offset_range.start_offset  # next offset to yield
        # Do the fetches in flight and the answers here cover the rest? A guess before the first answer.
        self.is_covered = offset_range.size <= budget.near_bytes() // _RECORD_BYTES
        self._range = offset_range
        self._tp = offset_range.topic_partition
        self._settings = settings
        self._client = client
        self._budget = budget
        self._clock = clock
        self._sleep = sleep
        self._in_flight: _InFlight[Sent] | None = None
        self._answer: FetchedPartition | None = None  # received, and not decoded yet
        self._least_bytes = 0  # the next fetch asks for at least this much, after a batch that did not come whole
        self._most_bytes = _ANY_BYTES  # the next fetch asks for no more, after one that a quota held back
        self._answers = 0  # with records
        self._asked_bytes = 0  # the size that the newest fetch asked for
        self._held_bytes = 0  # size of the answer that was received last
        self._held_since = 0.0
        self._damages = 0  # damaged answers at `position`
        self._final: DeadlineExceeded | None = None  # the error that ends the range; others only end an attempt
        self._denied_since: float | None = None  # brokers have said nothing else since than that the topic is unknown
        self.restart_patience()

    @property
    def is_done(self) -> bool:
        return self.position >= self._range.end_offset

    @property
    def may_begin(self) -> bool:
        """Does the task's budget allow the first fetch before the range's turn?"""
        return self._budget.may_begin(self._client.line_bytes)

    def begin(self) -> None:
        """Send the first fetch, if the task need not wait for that. `receive` does the rest, faults included."""
        if self._in_flight is None:
            self._send_ahead(self.position)

    def receive(self) -> bool:
        """Wait for the answer at `position`, and send the fetch behind it.

        False: the answer had no records, or failed and was recovered from. Raises DataLoss, DeadlineExceeded, or the
        error that it cannot recover from; so does `rows`.
        """
        try:
            fetched = self._next_response()
            if fetched is not None:
                self._fetch_on(fetched)
        except KafkaSourceError as error:
            self._recover(error)
            return False
        self._answer = fetched
        return fetched is not None

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows of the answer that was just received, in no empty batch. Then its memory can be used again."""
        fetched, self._answer = self._answer, None
        assert fetched is not None
        try:
            for decoded in decode_pieces(fetched, self._range, self.position, self._settings, self._budget.memory):
                self._budget.memory.saw_rows()
                if self._advance(decoded.next_offset, decoded.required_bytes):
                    rows = sum(batch.num_rows for batch in decoded.batches)
                    counters.count("kafkasource_records_read_total", rows, self._tp.topic)
                    yield from decoded.batches
                    self.restart_patience()  # Spark's time between two batches does not count against the broker
        except KafkaSourceError as error:
            self._recover(error)

    def close(self) -> None:
        """Forget the fetch in flight."""
        if self._in_flight is not None:
            self._client.forget(self._in_flight.sent)
            self._budget.ended(self._in_flight.asked_bytes)
            self._in_flight = None

    def extend(self, seconds: float) -> None:
        """Give the fetch in flight this much more time."""
        if self._in_flight is not None:
            self._client.extend(self._in_flight.sent, seconds)

    def restart_patience(self) -> None:
        """From now on the range must move within `kafkaConsumer.pollTimeoutMs`."""
        self._patience_ends = self._clock() + self._settings.poll_timeout_ms / 1000
        self._failures = 0
        self._denied_since = None

    # The steps.

    def _next_response(self) -> FetchedPartition | None:
        """The response for `position`; None when it brought nothing, or nothing is left to fetch."""
        if self._held_bytes:
            self._budget.used_up(self._held_bytes, self._clock() - self._held_since)
            self._held_bytes = 0
        if self._in_flight is None or self._in_flight.offset != self.position:
            self.close()
            if not self._client.is_ready and not self._get_ready():
                return None
            self._send(self.position)
        in_flight, self._in_flight = self._in_flight, None
        assert in_flight is not None
        try:
            fetched = self._client.receive(in_flight.sent)
        finally:
            self._budget.ended(in_flight.asked_bytes)
        self._denied_since = None
        if len(fetched.records):
            self._held_bytes, self._held_since = len(fetched.records), self._clock()
            counters.count("kafkasource_bytes_read_total", self._held_bytes, self._tp.topic)
            self._answers += 1
            self._most_bytes = min(2 * self._most_bytes, _ANY_BYTES)
            return fetched
        if fetched.throttled_ms:
            # The client waits for as long as the broker says. Kafka 2.0 to 2.5 never let a fetch through that may bring
            # more than the quota of ten seconds (KAFKA-9677), so the next one asks for less.
            self._check_patience(
                f"a quota of this user or client id holds back fetches of {in_flight.asked_bytes} bytes"
                " (consumer_byte_rate or request_percentage)"
            )
            self._most_bytes = max(in_flight.asked_bytes // 2, _LEAST_THROTTLED_BYTES)
            return None
        if self._clock() >= self._patience_ends and self._passes_over_what_was_cut_off():
            return None
        self._check_patience(
            f"the broker has nothing at this offset; its high watermark is {fetched.high_watermark}"
            + ("" if fetched.last_stable_offset is None else f", its last stable offset {fetched.last_stable_offset}")
        )
        self._back_off()  # with min_bytes 0 the broker would answer at once, again and again
        return None

    def _get_ready(self) -> bool:
        """False: the log turned out to hold nothing more of this range."""
        truncation = self._client.get_ready()
        if truncation is not None:
            self._end_where_the_log_was_truncated(truncation)
        return self.position < self._range.end_offset

    def _fetch_on(self, fetched: FetchedPartition) -> None:
        """Send the fetch behind this answer, if the range goes on there."""
        ahead = next_fetch_offset(fetched.records)
        if ahead is None or ahead <= self.position:
            return  # decoding will say why
        self.is_covered = ahead >= self._range.end_offset
        if not self.is_covered:
            self._send_ahead(ahead)

    def _send_ahead(self, offset: int) -> None:
        """Send the next fetch early, unless the task would have to wait for that. Decode the answer at hand first."""
        if not self._client.is_ready or not self._budget.may_send_ahead(self._client.line_bytes, self._answers):
            return
        try:
            self._send(offset)
        except KafkaSourceError as error:  # `receive` sends the fetch later, or raises
            log.debug("fetch of %s at offset %d could not be sent ahead: %s", self._tp, offset, error)

    def _send(self, offset: int) -> None:
        client = self._client
        near = self._budget.next_size(client.round_trip_s, client.line_bytes, self._answers)
        allowed = min(near, self._most_bytes)
        asked = max(allowed, self._least_bytes)
        self._asked_bytes = asked
        self._in_flight = _InFlight(offset, asked, client.send(offset, asked))
        self._budget.sent(asked)

    def _advance(self, next_offset: int, required_bytes: int | None) -> bool:
        """Take over the position that decoding reached. False: no whole batch came, so the next fetch asks for more."""
        if next_offset > self.position:
            self.position = next_offset
            self._damages = 0
            self.restart_patience()
            return True
        wanted = max(required_bytes or 0, self._asked_bytes + 1)
        if wanted > self._settings.max_message_bytes:
            raise KafkaSourceError(
                f"the record batch at offset {self.position} of {self._tp} needs {wanted} bytes, more than"
                f" 'kafka.receive.message.max.bytes' ({self._settings.max_message_bytes}) allows: raise that option"
            )
        self._check_patience(f"its first record batch, of {required_bytes} bytes, does not arrive completely")
        self._least_bytes = wanted  # from KIP-74 on brokers send it whole anyway; older ones do not
        return False

    # Time.

    def _check_patience(self, reason: str) -> None:
        if self._clock() >= self._patience_ends:
            self._final = DeadlineExceeded(
                f"Cannot fetch record for offset {self.position} of {self._tp} in {self._settings.poll_timeout_ms}"
                f" milliseconds (option 'kafkaConsumer.pollTimeoutMs'): {reason}"
            )
            raise self._final

    def _back_off(self) -> None:
        most = self._settings.retry_backoff_max_ms
        self._sleep(min(self._settings.retry_backoff_ms * 2 ** min(self._failures, 30), most) / 1000)
        self._failures += 1

    # Faults.

    def _recover(self, error: KafkaSourceError) -> None:
        """Make the next fetch possible, or raise. A fetch in flight is dropped: it left before the fault was known.

        The client gives up after `kafka.default.api.timeout.ms`, where a partition has no leader, or no broker answers.
        The range does not: its patience is `kafkaConsumer.pollTimeoutMs`.
        """
        self.close()
        try:
            if isinstance(error, DeadlineExceeded):
                raise error
            self._recover_from(error)
        except DeadlineExceeded as late:
            if late is self._final:
                raise
            self._check_patience(str(late))
            self._back_off()

    def _recover_from(self, error: KafkaSourceError) -> None:
        step = recovery(error)
        if step is not Recovery.REFRESH_THEN_ASK:
            self._denied_since = None
        elif self._denied_since is None:
            self._denied_since = self._clock()
        if step is Recovery.FAIL:
            raise error
        if step is Recovery.ASK_BOUNDS:
            self._pass_over_what_is_gone(error)
            return
        counters.count("kafkasource_fetch_retries_total", 1, self._tp.topic)
        if step is Recovery.RECONNECT:
            self._reconnect(error)
            return
        self._check_patience(self._told(error))
        log.info("fetch of %s at offset %d failed and is tried again: %s", self._tp, self.position, error)
        if self._news_has_travelled() and self._client.is_gone():
            self._end_with_the_log()
            return
        self._client.refresh_leader()
        self._back_off()

    def _told(self, error: KafkaSourceError) -> str:
        """The error's text, with advice if the line is too slow even for the smallest fetch."""
        if not isinstance(error, RequestTimeout):
            return str(error)
        return (
            f"{error}. This fetch asked for {self._asked_bytes} bytes, but a first record batch that is larger comes"
            " whole (KIP-74). If the line cannot carry it within 'kafka.request.timeout.ms', raise that option, and"
            " 'kafkaConsumer.pollTimeoutMs' above it"
        )

    def _news_has_travelled(self) -> bool:
        """Have brokers denied the topic for long enough? Other faults and waiting do not count: after such a time a
        cluster that starts again may deny it once, before its brokers have heard of any topic."""
        return self._denied_since is not None and self._clock() - self._denied_since >= _NEWS_TRAVELS_S

    def _reconnect(self, error: KafkaSourceError) -> None:
        """Bytes damaged on the way come whole the second time; damaged on the broker's disk they never do."""
        self._damages += 1
        records = isinstance(error, (CorruptRecordBatch, CorruptMessage))
        if self._damages <= (_RECORD_REFETCHES if records else _ANSWER_REFETCHES):
            log.warning(
                "%s at offset %d: damaged, fetched again on a new connection: %s", self._tp, self.position, error
            )
            self._client.reconnect()
            return
        if isinstance(error, CorruptRecordBatch):  # its text has topic, partition and offset
            raise type(error)(
                f"{error}. {self._damages} fetches brought it damaged: check the leader's disk and its other replicas,"
                " or start after it ('startingOffsets', with a new checkpoint)"
            ) from None
        if records:
            raise error
        raise ProtocolError(
            f"{self._tp} at offset {self.position}: {self._damages} answers in a row could not be read. {error}."
            f" If a record batch is larger than 'kafka.receive.message.max.bytes'"
            f" ({self._settings.max_message_bytes}), raise that option"
        ) from error

    # Lost records.

    def _pass_over_what_is_gone(self, error: KafkaSourceError) -> None:
        """OFFSET_OUT_OF_RANGE: below the log (aged out), above it (truncated, recreated), or stale news."""
        end = self._range.end_offset
        bounds = self._client.bounds()
        if bounds is None:
            self._end_with_the_log()
        elif self.position < bounds.start and self._is_at_earliest:
            self.position = min(bounds.start, end)  # the user did not ask for records that aged out
            self.restart_patience()
        elif self.position < bounds.start:
            self._skip_to(min(bounds.start, end), f"the log holds [{bounds.start}, {bounds.end})")
        elif self.position > bounds.end:
            self._skip_to(end, f"the log holds [{bounds.start}, {bounds.end})")
        else:
            self._check_patience(str(error))  # a new leader may not know yet what its log holds
            self._client.refresh_leader()
            self._back_off()

    def _end_with_the_log(self) -> None:
        """The log of the plan is gone. `earliest` to `latest` is another of its name, if nothing was read yet."""
        anew = self._range.is_whole_log and self.position == self._range.start_offset
        deleted = self._client.is_deleted
        self._skip_to(self._range.end_offset, _IS_DELETED if deleted else _IS_GONE, deleted=deleted)
        if anew and self._bind_anew():
            self.position = self._range.start_offset

    def _bind_anew(self) -> bool:
        """Read the present contents of the log, as the JVM connector's batch does. False: the log does not exist."""
        try:
            now = self._client.bind_anew()
        except DeadlineExceeded as error:
            self._final = error  # nothing would ask a second time: the range has come to its end
            raise
        if now is None:
            return False
        log.warning("%s is read from earliest to latest: that is %s now", self._tp, now)
        self._range, self.is_covered = now, False
        return True

    def _passes_over_what_was_cut_off(self) -> bool:
        """Nothing has come for as long as the range waits. If the log ends here, the rest was there and is gone."""
        end = self._client.high_watermark()
        if end is None or end > self.position:
            return False  # a transaction is open, or the leader is new and cannot tell yet
        self._skip_to(self._range.end_offset, f"the log ends at {end}")
        return True

    @property
    def _is_at_earliest(self) -> bool:
        """Does the range begin at the start of the log, wherever that is, and is nothing of it read yet?"""
        return self._range.from_earliest and self.position == self._range.start_offset

    def _end_where_the_log_was_truncated(self, found: Truncation) -> None:
        """End the range at the cut. The records behind it were not planned: the next plan finds the truncation, too,
        and continues there. No plan follows a batch: `earliest` to `latest` is read to the end that the log has now."""
        end = max(found.end_offset, self.position)
        self._report_gone(
            end,
            self._range.end_offset,
            f"the log was truncated, leader epoch {found.planned_epoch} of the plan ends at {found.end_offset} in the"
            f" log of leader epoch {found.leader_epoch}",
            loss.LOG_TRUNCATED,
        )
        if not (self._range.is_whole_log and self.position <= found.end_offset and self._bind_anew()):
            self._range = replace(self._range, end_offset=end)

    def _skip_to(self, resume: int, reason: str, *, deleted: bool = False) -> None:
        self._report_gone(self.position, resume, reason, deleted=deleted)
        self.position = resume
        self.restart_patience()

    def _report_gone(
        self,
        start: int,
        resume: int,
        reason: str,
        condition: str = loss.COULD_NOT_READ_OFFSET_RANGE,
        *,
        deleted: bool = False,
    ) -> None:
        """[start, resume) cannot be read any more: an error, unless that is tolerated."""
        loss.report(
            [
                loss.Loss(
                    condition,
                    f"Could not read records in offset [{start}, {resume}) for topic partition {self._tp}: {reason}.",
                    f"{resume - start} offsets are skipped; reading goes on at {resume}.",
                    deleted=deleted,
                    skipped={self._tp.topic: resume - start},
                )
            ],
            fail_on_data_loss=self._settings.fail_on_data_loss,
            fail_on_deleted_topic=self._settings.fail_on_deleted_topic,
        )
