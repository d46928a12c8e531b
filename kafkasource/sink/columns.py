"""Makes the rows of Spark's Arrow batches into Arrow columns for the encoder, and checks them batch by batch.

Runs in the executor's Python worker; `sink.schema` has checked the columns on the driver. No row becomes a Python
object on the way, unless it is bad.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.errors import BadRecord
from kafkasource.kafka.producer.rows import Column, InvalidRow, Rows, all_null_as_none
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE, int32_column
from kafkasource.kafka.records.arrow.packed import Unpacked, unpack
from kafkasource.kafka.records.arrow.views import int32_values
from kafkasource.kafka.records.arrow_scalars import scalar
from kafkasource.kafka.records.partitions import order_by_partition
from kafkasource.sink.schema import SinkSchema
from kafkasource.types import BAD_RECORD_COLUMN, PACKED_COLUMN

if TYPE_CHECKING:
    from kafkasource.formats.framing import Side
    from kafkasource.formats.writing.rows import CannotEncodeColumn

_SIDES: tuple[Side, ...] = ("key", "value")
_NULL_TOPIC = (
    "KAFKA_NULL_TOPIC_IN_DATA: a row contains a null topic. Give it one, or set the option 'topic' for all rows"
)
_NO_TIMESTAMP = {"ms": -1, "us": -1_000, "ns": -1_000_000}  # -1 ms by Arrow's unit

_ROWS_OF_TOPIC = 16  # on average, in a batch of `joined`
_JOINED_BYTES = 8 << 20  # or the batch has this size

# The columns that say where a row was read. None of them is null in a bad row.
_PLACE = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}


def joined(schema: SinkSchema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; several become one where each topic has few rows in them, because a topic in a batch costs some 0.2
    ms, however few rows it has there."""
    if schema.topic is not None or "topic" not in schema.positions:
        yield from batches
        return
    position = schema.positions["topic"]
    held: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
        if rows >= _ROWS_OF_TOPIC * len(batch.column(position).unique()) or size_bytes >= _JOINED_BYTES:
            yield _one(held)
            held, rows, size_bytes = [], 0, 0
    if held:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def checked_rows(schema: SinkSchema, batch: pa.RecordBatch) -> Iterator[Rows]:
    """Check the rows of one Arrow batch; one `Rows` per topic in it, each in the batch's order. Bad records are the
    first.

    Executor side. Raises InvalidRow, and BadRecord where bad records have no topic.
    """
    return _Reader(schema).rows(batch)


@dataclass(frozen=True, slots=True)
class _Reader:
    schema: SinkSchema

    def rows(self, batch: pa.RecordBatch) -> Iterator[Rows]:
        if BAD_RECORD_COLUMN in self.schema.positions:
            column = batch.column(self.schema.positions[BAD_RECORD_COLUMN])
            if column.null_count < batch.num_rows:
                yield self._dead_letters(batch.filter(column.is_valid()))
                batch = batch.filter(column.is_null())
        if batch.num_rows == 0:
            return
        if PACKED_COLUMN in self.schema.positions:
            for value in batch.column(self.schema.positions[PACKED_COLUMN]):
                yield self._unpacked(value)
            return
        yield from self._encoded(batch) if self.schema.formats else self._of_batch(batch, {}, None)

    def _encoded(self, batch: pa.RecordBatch) -> Iterator[Rows]:
        from kafkasource.formats.writing.rows import CannotEncodeColumn, encoded, with_schema_ids

        passing_over = self.schema.dead_letter_topic is not None
        try:
            for part in encoded(batch, self.schema.positions, self.schema.formats, passing_over=passing_over):
                if part.refused:
                    errors = [*part.refused.values()]
                    part, bad = part.parted()
                    yield self._refused(bad, errors)
                if part.batch.num_rows:
                    own = _headers(self._column(part.batch, "headers", HEADERS_TYPE))
                    headers = with_schema_ids(own, part.records, self.schema.formats)
                    yield from self._of_batch(part.batch, part.records, headers)
        except CannotEncodeColumn as error:
            raise InvalidRow(str(error)) from None

    def _refused(self, bad: pa.RecordBatch, errors: Sequence[CannotEncodeColumn]) -> Rows:
        """The dead letters of rows that the writer's schema does not take. Raises InvalidRow."""
        from kafkasource.formats.dead_letters.makers import count_rows, of_rows

        assert self.schema.dead_letter_topic is not None
        if self.schema.topic is not None:
            topics: Column = pa.array([self.schema.topic] * bad.num_rows, pa.string())
        else:
            topics = self._column(bad, "topic", pa.string())
        if topics.null_count:
            raise InvalidRow(_NULL_TOPIC)
        typed = [each.side for each in self.schema.formats]
        sides: dict[Side, Column] = {
            side: bad.column(self.schema.positions[side]) if side in typed else self._column(bad, side, pa.binary())
            for side in _SIDES
            if side in self.schema.positions
        }
        partitions = self._column(bad, "partition", pa.int32())
        letters = of_rows(
            self.schema.dead_letter_topic,
            self.schema.cluster_id,
            sides,
            errors,
            typed,
            place=[topics, pa.nulls(bad.num_rows) if partitions is None else partitions, pa.nulls(bad.num_rows)],
            headers=_headers(self._column(bad, "headers", HEADERS_TYPE)),
            timestamps_ms=_milliseconds(self._column(bad, "timestamp", None)),
        )
        for cluster_name in self.schema.cluster_names:
            count_rows(cluster_name, topics.to_pylist(), errors)
        return letters

    def _of_batch(self, batch: pa.RecordBatch, records: Mapping[str, Column], headers: Column | None) -> Iterator[Rows]:
        """`records`: the keys or values that were encoded. `headers`: None means those of the column."""
        partitions = self._column(batch, "partition", pa.int32())
        if partitions is not None and partitions.null_count == len(partitions):
            partitions = None
        keys = records["key"] if "key" in records else self._column(batch, "key", pa.binary())
        all_rows = Rows(
            topic=self.schema.topic or "",
            count=batch.num_rows,
            keys=all_null_as_none(keys),
            values=records["value"] if "value" in records else self._column(batch, "value", pa.binary()),
            headers=_headers(self._column(batch, "headers", HEADERS_TYPE)) if headers is None else headers,
            partitions=partitions,
            timestamps_ms=_milliseconds(self._column(batch, "timestamp", None)),
            offsets=_without_nulls(self._column(batch, "offset", pa.int64())),
        )
        if self.schema.topic is not None:
            yield all_rows
            return
        topics: Column = self._column(batch, "topic", pa.string())
        if topics.null_count:
            raise InvalidRow(_NULL_TOPIC)
        encoded = topics.dictionary_encode()
        try:
            names = encoded.dictionary.to_pylist()
        except UnicodeDecodeError:
            raise InvalidRow("column 'topic': a name is not UTF-8") from None
        if len(names) == 1:
            yield replace(all_rows, topic=names[0])
            return
        order, spans = order_by_partition(int32_values(encoded.indices), len(names))
        by_topic = all_rows.take(pa.Array.from_buffers(pa.int32(), len(order), [None, pa.py_buffer(order)]))
        for number, first, last in spans:
            yield by_topic.of_topic(names[number], first, last)

    def _dead_letters(self, bad: pa.RecordBatch) -> Rows:
        """The dead letters of rows that are all bad."""
        column = bad.column(self.schema.positions[BAD_RECORD_COLUMN])
        if self.schema.dead_letter_topic is None:
            raise self._error(bad, pc.struct_field(column, "reason"))
        from kafkasource.formats.dead_letters.makers import of_undecoded

        place = {name: self._column(bad, name, data_type) for name, data_type in _PLACE.items()}
        for name, values in place.items():
            if values is None or values.null_count:
                raise InvalidRow(
                    f"column {name!r} is null in a row whose column {BAD_RECORD_COLUMN!r} is not: there it must say "
                    "where the record was read"
                )
        return of_undecoded(
            self.schema.dead_letter_topic,
            column,
            [*place.values()],
            headers=_headers(self._column(bad, "headers", HEADERS_TYPE)),
            timestamps_ms=_milliseconds(self._column(bad, "timestamp", None)),
        )

    def _error(self, bad: pa.RecordBatch, reasons: Column) -> BadRecord:
        """Raise the error of the first of these rows."""
        place = {name: bad.column(self.schema.positions[name])[0] for name in _PLACE if name in self.schema.positions}
        where = ", ".join(f"{name} {value}" for name, value in place.items()) or "a row"
        return BadRecord(
            f"{where}: column {BAD_RECORD_COLUMN!r} is not null, as the record could not be decoded: {reasons[0]}",
            f"Set badRecords=topic:NAME to write such records to a topic of their own, or leave them out: "
            f".where('{BAD_RECORD_COLUMN} IS NULL')",
        )

    def _unpacked(self, value: pa.BinaryScalar) -> Rows:
        """The rows in a value of `packRecords`. Raises InvalidRow for any other value."""
        found = _unpack_row(value)
        batch = found.batch
        return Rows(
            topic=self.schema.topic or found.topic,
            count=batch.num_rows,
            keys=all_null_as_none(batch.column("key")),
            values=batch.column("value"),
            headers=_headers(batch.column("headers")) if "headers" in batch.schema.names else None,
            partitions=int32_column(found.partition, batch.num_rows),
            timestamps_ms=_milliseconds(batch.column("timestamp")),
            offsets=batch.column("offset"),
        )

    def _column(self, batch: pa.RecordBatch, name: str, wanted: pa.DataType | None) -> Column | None:
        """A column in the wanted type (None: as it is). None: the DataFrame does not have it."""
        position = self.schema.positions.get(name)
        if position is None:
            return None
        column: Column = batch.column(position)
        if isinstance(column.type, pa.DictionaryType):
            column = column.dictionary_decode()
        if wanted is None or column.type == wanted:
            return column
        if wanted == pa.binary() and column.type == pa.string():
            return column.view(wanted)  # the same buffers: a cast would look at every row
        try:
            return column.cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidRow(f"column {name!r} of type {column.type} cannot be written as {wanted}: {error}") from None


def _unpack_row(value: pa.BinaryScalar) -> Unpacked:
    """Raises InvalidRow for a value that `packRecords` has not made."""
    try:
        return unpack(value.as_buffer())
    except ValueError as error:
        raise InvalidRow(f"column {PACKED_COLUMN!r} is for what 'packRecords' reads: {error}") from None


def _without_nulls(column: Column | None) -> Column | None:
    return None if column is None or column.null_count else column


def _headers(column: Column | None) -> Column | None:
    """Headers without a null among their elements or keys: Kafka's format has no place for one."""
    column = all_null_as_none(column)
    if column is None:
        return None
    entries = column.flatten()
    if entries.null_count or entries.field("key").null_count:
        raise InvalidRow("column 'headers': a header and its key must not be null (its value may be)")
    return column


def _milliseconds(column: Column | None) -> Column | None:
    """Spark's microseconds (Arrow's other units too) as Kafka's milliseconds since the epoch, rounded down.

    -1 ms stays -1: Kafka stores that for a record without a timestamp, and the source reads it so. Every other time
    before 1970 is refused, as Java's producer refuses it.
    """
    column = all_null_as_none(column)
    if column is None:
        return None
    if not pa.types.is_timestamp(column.type):
        raise InvalidRow(f"column 'timestamp' of type {column.type} cannot be written: it must be a timestamp")
    times = column.cast(pa.int64())
    if pc.min(times).as_py() < 0:
        none = scalar(_NO_TIMESTAMP.get(column.type.unit, 0), pa.int64())
        if pc.any(pc.and_(pc.less(times, scalar(0, pa.int64())), pc.not_equal(times, none))).as_py():
            raise InvalidRow(
                "column 'timestamp': a record's timestamp must not be before 1970-01-01 00:00:00 UTC. Only -1 ms "
                "(1969-12-31 23:59:59.999) is allowed: it means that the record has no timestamp"
            )
    return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
