"""Reads topics in this process, without Spark: Arrow batches of the source's rows, from the source's own fetcher.

    with Reader({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "events"}) as reader:
        for batch in reader:                     # all records of now; `follow` continues with new ones
            print(batch.column("value").to_pylist())

Options are those of the format `pykafka` (`options`). Options that only a Spark query can honour are refused. Columns:
`records.arrow.columns.ROW_SCHEMA`, with `includeHeaders` the headers too; or those that `columns` names. `valueFormat`
and `keyFormat` make typed columns of values and keys. A batch holds rows of one partition in the order of their
offsets. Lost records go through `kafka.fetch.loss`, by the rule of a streaming query: see
`source.plan.reader_positions`.

One thread at a time. Ctrl-C may interrupt any call; the reader can be closed after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkasource import options as option_table
from kafkasource.errors import OptionError
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.fetch.config import FetchSettings
from kafkasource.kafka.fetch.task import fetch
from kafkasource.kafka.records.arrow.columns import row_schema
from kafkasource.source.plan.offset_reader import OffsetReader
from kafkasource.source.plan.offsets import EARLIEST
from kafkasource.source.plan.positions import Position, ending_position, starting_position
from kafkasource.source.plan.reader_positions import FetchPositions
from kafkasource.source.plan.subscription import SubscribePattern, parse_subscription
from kafkasource.types import OffsetRange, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.formats.reading.formats import RowFormats


class Reader:
    """See the module. Contacts no broker before the first call for records, positions or a plan."""

    def __init__(
        self,
        options: Mapping[str, str] | option_table.Options,
        *,
        start: Position | None = None,
        end: Position | None = None,
        client: ClientConfig | None = None,
    ) -> None:
        """`start`, `end` and `client` replace those of the options. Raises OptionError."""
        parsed = options if isinstance(options, option_table.Options) else option_table.parse(options, "source")
        for name in parsed.no_effect_in("reader"):
            raise OptionError(f"option {name!r} is for Spark queries and has no effect here: leave it out")
        self._shown = repr(parsed)
        self._start = start or starting_position(parsed, streaming=False)
        self._end = end or ending_position(parsed, streaming=False)
        self._settings = FetchSettings.from_options(parsed)
        self._fail_on_data_loss: bool = parsed["failOnDataLoss"]
        self.cluster = Cluster(client or ClientConfig.from_options(parsed))
        self._parsed = parsed
        self._subscription = parse_subscription(parsed)
        self._formats: RowFormats | None = None
        self._offsets = OffsetReader.from_options(self.cluster, self._subscription, parsed)

    def __repr__(self) -> str:
        return f"Reader({self._shown})"

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self.cluster.close()

    def plan(self) -> list[OffsetRange]:
        """The ranges to read now, by partition: from the start to the end, as far as the log goes.

        Leaves out empty ranges. Raises DataLoss as `FetchPositions.begin` does.
        """
        assigned = self._offsets.assigned()
        positions = self.positions()
        positions.begin(assigned)
        assert self._end is not None  # a batch read has one
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
        """Positions for partitions that a consumer group gives and takes away: see `FetchPositions`.

        They begin at the start of this reader (`startingOffsets`). With `committed:earliest` and `kafka.group.id` that
        is the group's committed offset, or the earliest offset where it has committed none.
        """
        return FetchPositions(self._offsets, self._start, fail_on_data_loss=self._fail_on_data_loss, clock=clock)

    def read(self, ranges: Iterable[OffsetRange]) -> Iterator[pa.RecordBatch]:
        """The records of ranges, one range after the other. It fetches later ranges ahead, and holds the bytes of a few
        fetches."""
        formats = self._row_formats()
        if formats is None:
            return fetch(self.cluster, ranges, self._settings)
        from kafkasource.formats.reading.batches import typed_batches

        settings = replace(self._settings, columns=formats.fetched)
        return typed_batches(fetch(self.cluster, ranges, settings), formats, lambda: self.cluster.metadata.cluster_id)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches.

        With `valueFormat` or `keyFormat` the first call resolves the readers' schemas: it may ask the registry.
        """
        formats = self._row_formats()
        return row_schema(self._settings.columns) if formats is None else formats.row_schema

    def _row_formats(self) -> RowFormats | None:
        """The formats of `valueFormat` and `keyFormat`. The first call resolves the readers' schemas."""
        if self._parsed["valueFormat"] == self._parsed["keyFormat"] == "binary":
            return None
        if self._formats is None:
            from kafkasource.formats.reading.formats import RowFormats

            topics = None if isinstance(self._subscription, SubscribePattern) else self._subscription.topics
            self._formats = RowFormats.of(self._parsed, topics)
        return self._formats

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """All records that exist now, partition by partition."""
        return self.read(self.plan())

    def follow(
        self,
        *,
        poll_s: float = 0.2,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> Iterator[pa.RecordBatch]:
        """Records from the start on, for ever: the existing ones, then new ones, within about `poll_s` of their
        arrival.

        It reads new partitions from their beginning, and ignores the end. Raises DataLoss as
        `FetchPositions.next_ranges` does.
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
        """The start in each of these logs. A start outside of a log moves to the log's nearer end.

        For tools that show or set offsets. To read from there, use `positions`, which also detects lost records.
        """
        assigned = set(partitions)
        starts = self._start.resolve(assigned, self._offsets)
        first, last = self._offsets.earliest(starts), self._offsets.latest(starts).offsets
        last |= self._offsets.held_back({tp: starts[tp] for tp, end in last.items() if starts[tp] > end})
        return {tp: min(max(starts[tp], first[tp]), last[tp]) for tp in first.keys() & last.keys()}
