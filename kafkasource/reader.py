"""Reading topics in this process, without Spark: Arrow batches of the source's rows, by the source's own fetcher.

    with Reader({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "events"}) as reader:
        for batch in reader:                     # all records of now; `follow` continues with new ones
            print(batch.column("value").to_pylist())

Options are those of the format `pykafka` (`options`). Options that only a Spark query can honour are refused. Columns:
`records.columns.ROW_SCHEMA`, with `includeHeaders` the headers too. A batch holds rows of one partition in the order of
their offsets. Lost records go through `source.loss`, by the rule of a streaming query: see
`source.plan.reader_positions`.

One thread at a time. Ctrl-C may interrupt any call; the reader can be closed after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkasource import options as option_table
from kafkasource.client.cluster import Cluster
from kafkasource.client.config import ClientConfig
from kafkasource.errors import OptionError
from kafkasource.source.fetch.config import FetchSettings
from kafkasource.source.fetch.task import fetch
from kafkasource.source.plan.offset_reader import OffsetReader
from kafkasource.source.plan.offsets import EARLIEST
from kafkasource.source.plan.positions import Position, ending_position, starting_position
from kafkasource.source.plan.reader_positions import FetchPositions
from kafkasource.source.plan.subscription import parse_subscription
from kafkasource.types import OffsetRange, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_OF_QUERIES = (
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxPartitions",
    "minRecordsPerPartition",
    "maxRecordsPerPartition",
    "pushDownPredicate",
    "packRecords",
    "addHeaders",
    "commitOffsets",
    "groupIdPrefix",
    "groupOwnership",
)


class Reader:
    """See the module. Asks no broker before the first record, position or plan is asked for."""

    def __init__(
        self,
        options: Mapping[str, str] | option_table.Options,
        *,
        start: Position | None = None,
        end: Position | None = None,
    ) -> None:
        """`start` and `end`: in place of what the options say. Raises OptionError."""
        parsed = options if isinstance(options, option_table.Options) else option_table.parse(options, "source")
        for name in _OF_QUERIES:
            if name in parsed.given:
                raise OptionError(f"option {name!r} is for Spark queries and has no effect here: leave it out")
        self._start = start or starting_position(parsed, streaming=False)
        self._end = end or ending_position(parsed, streaming=False)
        self._settings = FetchSettings.from_options(parsed)
        self._fail_on_data_loss: bool = parsed["failOnDataLoss"]
        self.cluster = Cluster(ClientConfig.from_options(parsed))
        self._offsets = OffsetReader.from_options(self.cluster, parse_subscription(parsed), parsed)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self.cluster.close()

    def plan(self) -> list[OffsetRange]:
        """What there is to read now, by partition: from where the start says to the end, as far as the log goes.

        Empty ranges are left out. Raises DataLoss as `FetchPositions.begin`.
        """
        assigned = self._offsets.assigned()
        positions = self.positions()
        positions.begin(assigned)
        assert self._end is not None  # as of a batch read
        ends = self._end.resolve(assigned, self._offsets)
        earliest = {tp for tp, symbol in self._start.symbols(assigned).items() if symbol == EARLIEST}
        ranges = [
            replace(
                one,
                end_offset=min(one.end_offset, ends.get(one.topic_partition, one.start_offset)),
                from_earliest=one.topic_partition in earliest,
            )
            for one in positions.next_ranges()
        ]
        return [one for one in ranges if one.size > 0]

    def positions(self, *, clock: Callable[[], float] = time.monotonic) -> FetchPositions:
        """For partitions that are given and taken away, as a consumer group does: see `FetchPositions`.

        They begin where the start of this reader says (`startingOffsets`; with `committed:earliest` and
        `kafka.group.id` where the group stands, and at the earliest offset where it stands nowhere).
        """
        return FetchPositions(self._offsets, self._start, fail_on_data_loss=self._fail_on_data_loss, clock=clock)

    def read(self, ranges: Iterable[OffsetRange]) -> Iterator[pa.RecordBatch]:
        """The records of ranges, one range after the other, the coming ones fetched ahead. Holds few fetches' bytes."""
        return fetch(self.cluster, ranges, self._settings)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """All that is there now, partition by partition."""
        return self.read(self.plan())

    def follow(
        self,
        *,
        poll_s: float = 0.2,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> Iterator[pa.RecordBatch]:
        """From the start on for ever: what is there, then what comes, within about `poll_s` of its arrival.

        New partitions are read from their beginning. The end is not looked at. Raises DataLoss as
        `FetchPositions.next_ranges`.
        """
        offsets = self._offsets
        positions = FetchPositions(
            offsets, self._start, fail_on_data_loss=self._fail_on_data_loss, assigned=offsets.assigned, clock=clock
        )
        positions.begin(offsets.assigned())
        while True:
            ranges = positions.next_ranges()
            yield from self.read(ranges)
            positions.reached(ranges)
            if not ranges:
                sleep(poll_s)

    def start_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the start lies in each of these logs, moved to the nearer end of what they hold where it is beyond.

        For tools that show or set offsets. To read from there, use `positions`, which also detects lost records.
        """
        assigned = set(partitions)
        starts = self._start.resolve(assigned, self._offsets)
        first, last = self._offsets.earliest(starts), self._offsets.latest(starts).offsets
        return {tp: min(max(starts[tp], first[tp]), last[tp]) for tp in first.keys() & last.keys()}
