"""A task's reading of one topic-partition: fetch, decode, yield Arrow batches. Runs in an executor's Python worker.

Bound: at most one fetch in flight and one completed fetch held, so at most two times `max.partition.fetch.bytes` (or
one larger batch) of wire bytes. The order that makes it fast: a response is scanned for its last offset, the next
fetch is sent, and only then the response is decoded and handed to Spark, while the broker and the network work on the
next one.

position --fetch--> response --scan--> send next fetch --> decode --> rows --> position = next offset
^                                                                                     |
+-------------------------------------------------------------------------------------+

Invariants: rows are yielded in offset order, each once; `position` only grows, and grows past holes (compaction,
markers, aborted transactions) by the batches' last offsets, whatever their row counts; it passes over records that
are gone only through `loss.report`. Not a step forward for `kafkaConsumer.pollTimeoutMs` is an error: a stuck
partition must be seen.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from kafkasource.errors import (
    CorruptMessage,
    CorruptRecordBatch,
    DeadlineExceeded,
    InconsistentTopicId,
    KafkaSourceError,
    OffsetOutOfRange,
    ProtocolError,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedRecordFormat,
)
from kafkasource.records.batches import decode_all, next_fetch_offset
from kafkasource.records.compression import RecordBatchTooLarge
from kafkasource.source import loss
from kafkasource.source.fetch_protocol import FetchedPartition, FetchSettings
from kafkasource.types import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.client.config import ClientConfig

__all__ = ["FetchSettings", "PartitionFetcher", "fetch"]

log = logging.getLogger("kafkasource.source")


@dataclass(frozen=True, slots=True)
class LogBounds:
    """What a log holds now: [start, end)."""

    start: int
    end: int


class PartitionClient(Protocol):
    """What the fetcher needs of the cluster, for one partition. `fetch_client.ClusterPartition` is the real one."""

    def send(self, fetch_offset: int, max_bytes: int) -> Any:
        """Send a fetch to the leader; what it returns is for `receive`. Raises KafkaSourceError where nobody leads."""

    def receive(self, sent: Any) -> FetchedPartition:
        """Wait for the answer, within `request.timeout.ms`. Raises what the broker or the connection had to say."""

    def work(self) -> None:
        """Take from the network what has come, without waiting. Raises nothing that `receive` would not."""

    def forget(self, sent: Any) -> None:
        """Nobody will wait for this answer."""

    def refresh_leader(self) -> None:
        """Ask for metadata before the next `send`."""

    def reconnect(self) -> None:
        """Close the connection to the leader, for the next `send` to open another."""

    def bounds(self) -> LogBounds | None:
        """Ask what the log holds; None: the topic was deleted, or is another one of the same name."""


class Recovery(Enum):
    """What a failed fetch calls for."""

    FAIL = auto()
    REFRESH = auto()  # later, whoever leads then
    RECONNECT = auto()  # over another connection
    ASK_BOUNDS = auto()  # the offset may be gone
    REFRESH_THEN_ASK = auto()  # the topic may be gone, or the asked broker behind the news


_RECORD_REFETCHES = 1  # of a batch whose CRC is wrong
_ANSWER_REFETCHES = 4  # of an answer that makes no sense
_NEWS_TRAVELS = 5  # failures, so some seconds with the backoff, before a topic that brokers deny is asked about


def recovery(error: KafkaSourceError) -> Recovery:
    if isinstance(error, OffsetOutOfRange):
        return Recovery.ASK_BOUNDS
    if isinstance(error, (UnknownTopicOrPartition, UnknownTopicId, InconsistentTopicId)):
        return Recovery.REFRESH_THEN_ASK
    if isinstance(error, (UnsupportedRecordFormat, RecordBatchTooLarge)):
        return Recovery.FAIL  # it would be the same the second time
    if isinstance(error, (ProtocolError, CorruptMessage)) or isinstance(error.__cause__, ProtocolError):
        return Recovery.RECONNECT
    return Recovery.REFRESH if error.retriable else Recovery.FAIL


@dataclass(slots=True)
class _InFlight:
    offset: int
    sent: Any


class PartitionFetcher:
    """Reads one range. Single use; `clock` in seconds."""

    def __init__(
        self,
        offset_range: OffsetRange,
        settings: FetchSettings,
        client: PartitionClient,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.position = offset_range.start_offset  # next offset to yield
        self._range = offset_range
        self._tp = offset_range.topic_partition
        self._settings = settings
        self._client = client
        self._clock = clock
        self._sleep = sleep
        self._in_flight: _InFlight | None = None
        self._max_bytes = settings.max_partition_bytes
        self._damages = 0  # of what was fetched at `position`
        self._restart_patience()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The range's rows, in no empty batch. Raises DataLoss, DeadlineExceeded, or what cannot be recovered from."""
        try:
            while self.position < self._range.end_offset:
                try:
                    fetched = self._next_response()
                    if fetched is None:
                        continue
                    self._send_ahead(fetched)
                    for decoded in self._decode(fetched):
                        self._client.work()  # before the position moves: should it fail, these rows are fetched again
                        if self._advance(decoded.next_offset, decoded.required_bytes):
                            yield from decoded.batches
                            self._restart_patience()  # Spark's time between two batches is not the broker's
                except KafkaSourceError as error:
                    self._recover(error)
        finally:
            self._drop_in_flight()

    # The steps.

    def _next_response(self) -> FetchedPartition | None:
        """The response for `position`; None when it brought nothing."""
        if self._in_flight is None or self._in_flight.offset != self.position:
            self._drop_in_flight()
            self._in_flight = _InFlight(self.position, self._client.send(self.position, self._max_bytes))
        in_flight, self._in_flight = self._in_flight, None
        fetched = self._client.receive(in_flight.sent)
        if len(fetched.records):
            return fetched
        self._check_patience(
            f"the broker has nothing at this offset; its high watermark is {fetched.high_watermark}"
            + ("" if fetched.last_stable_offset is None else f", its last stable offset {fetched.last_stable_offset}")
        )
        self._back_off()  # with min_bytes 0 the broker answers at once, again and again
        return None

    def _send_ahead(self, fetched: FetchedPartition) -> None:
        ahead = next_fetch_offset(fetched.records)
        if ahead is not None and self.position < ahead < self._range.end_offset:
            try:
                self._in_flight = _InFlight(ahead, self._client.send(ahead, self._max_bytes))
            except KafkaSourceError as error:  # it will be sent, or fail, when it is needed
                log.debug("fetch of %s at offset %d could not be sent ahead: %s", self._tp, ahead, error)

    def _decode(self, fetched: FetchedPartition) -> Iterator[Any]:
        return decode_all(
            fetched.records,
            start_offset=self.position,
            topic=self._tp.topic,
            partition=self._tp.partition,
            end_offset=self._range.end_offset,
            include_headers=self._settings.include_headers,
            check_crc=self._settings.check_crcs,
            max_decompressed_bytes=self._settings.max_decompressed_bytes,
            aborted_transactions=fetched.aborted_transactions,
        )

    def _advance(self, next_offset: int, required_bytes: int | None) -> bool:
        """Take the position that decoding reached; False when nothing whole came, and the next fetch asks for more."""
        if next_offset > self.position:
            self.position = next_offset
            self._damages = 0
            self._restart_patience()
            return True
        wanted = max(required_bytes or 0, self._max_bytes + 1)
        if wanted > self._settings.max_message_bytes:
            raise KafkaSourceError(
                f"the record batch at offset {self.position} of {self._tp} needs {wanted} bytes, more than"
                f" 'kafka.receive.message.max.bytes' ({self._settings.max_message_bytes}) allows: raise that option"
            )
        self._check_patience(f"its first record batch, of {required_bytes} bytes, does not come whole")
        self._max_bytes = wanted  # KIP-74 brokers send it whole anyway; older ones need to be asked
        return False

    # Time.

    def _restart_patience(self) -> None:
        self._patience_ends = self._clock() + self._settings.poll_timeout_ms / 1000
        self._failures = 0

    def _check_patience(self, reason: str) -> None:
        if self._clock() >= self._patience_ends:
            raise DeadlineExceeded(
                f"Cannot fetch record for offset {self.position} of {self._tp} in {self._settings.poll_timeout_ms}"
                f" milliseconds (option 'kafkaConsumer.pollTimeoutMs'): {reason}"
            )

    def _back_off(self) -> None:
        most = self._settings.retry_backoff_max_ms
        self._sleep(min(self._settings.retry_backoff_ms * 2 ** min(self._failures, 30), most) / 1000)
        self._failures += 1

    # Faults.

    def _recover(self, error: KafkaSourceError) -> None:
        """Make the next fetch possible, or raise. A fetch in flight is dropped: it left before the fault was known."""
        self._drop_in_flight()
        if isinstance(error, DeadlineExceeded):
            raise error
        step = recovery(error)
        if step is Recovery.FAIL:
            raise error
        if step is Recovery.ASK_BOUNDS:
            self._pass_over_what_is_gone(error)
            return
        if step is Recovery.RECONNECT:
            self._reconnect(error)
            return
        self._check_patience(str(error))
        log.info("fetch of %s at offset %d failed and is tried again: %s", self._tp, self.position, error)
        if step is Recovery.REFRESH_THEN_ASK and self._failures >= _NEWS_TRAVELS and self._client.bounds() is None:
            self._report_gone("the topic has been deleted, or recreated under its name", self._range.end_offset)
            return
        self._client.refresh_leader()
        self._back_off()

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
        if records:
            raise error  # its text has topic, partition and offset
        raise ProtocolError(
            f"{self._tp} at offset {self.position}: {self._damages} answers in a row made no sense. {error}."
            f" If a record batch is larger than 'kafka.receive.message.max.bytes'"
            f" ({self._settings.max_message_bytes}), raise that option"
        ) from error

    def _pass_over_what_is_gone(self, error: KafkaSourceError) -> None:
        """OFFSET_OUT_OF_RANGE: below the log (aged out), above it (truncated, recreated), or stale news."""
        end = self._range.end_offset
        bounds = self._client.bounds()
        if bounds is not None and bounds.start <= self.position <= bounds.end:
            self._check_patience(str(error))  # a new leader may not know yet what its log holds
            self._client.refresh_leader()
            self._back_off()
            return
        if bounds is None:
            self._report_gone("the topic has been deleted, or recreated under its name", end)
        else:
            resume = min(bounds.start, end) if self.position < bounds.start else end
            self._report_gone(f"the log holds [{bounds.start}, {bounds.end})", resume)

    def _report_gone(self, holds: str, resume: int) -> None:
        """[position, resume) cannot be read any more: an error, or the position jumps."""
        gone = OffsetRange(self._tp, self.position, resume)
        loss.report(
            [
                loss.Loss(
                    loss.COULD_NOT_READ_OFFSET_RANGE,
                    f"Could not read records in offset [{gone.start_offset}, {gone.end_offset}) for topic partition"
                    f" {self._tp}: {holds}.",
                    f"{gone.size} offsets are skipped; reading goes on at {resume}.",
                )
            ],
            fail_on_data_loss=self._settings.fail_on_data_loss,
        )
        self.position = resume
        self._restart_patience()

    def _drop_in_flight(self) -> None:
        if self._in_flight is not None:
            self._client.forget(self._in_flight.sent)
            self._in_flight = None


def fetch(config: ClientConfig, ranges: Sequence[OffsetRange], settings: FetchSettings) -> Iterator[pa.RecordBatch]:
    """Rows of the ranges, one after the other in this order, over the worker's shared connections.

    A generator; closing it forgets what is in flight.
    """
    from kafkasource.source.fetch_client import ClusterPartition

    for offset_range in ranges:
        client = ClusterPartition(config, offset_range.topic_partition, settings)
        yield from PartitionFetcher(offset_range, settings, client).batches()
