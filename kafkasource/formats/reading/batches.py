"""Makes typed columns of a task's rows, and applies `badRecords` to bad records."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource import metrics
from kafkasource.errors import BadRecord, escaped
from kafkasource.formats.framing import Side
from kafkasource.formats.reading.formats import BAD_RECORD_TYPE, RowFormats
from kafkasource.formats.rows import MIB, SIZES_OF_INPUT
from kafkasource.formats.schema_source import SchemaId
from kafkasource.formats.typed_pieces import BadRow, Lacking, TypedRows
from kafkasource.kafka import memory
from kafkasource.kafka.process import PerProcess, Recent
from kafkasource.types import BAD_RECORD_COLUMN

log = logging.getLogger("kafkasource.source")

_WANTED_BYTES = 16 * MIB
_MOST_TOLD = 20  # fields
_told: PerProcess[Recent[tuple[str, SchemaId | None], bool]] = PerProcess(lambda: Recent(1_000))


def typed_batches(
    batches: Iterable[pa.RecordBatch], formats: RowFormats, cluster_id: Callable[[], str | None]
) -> Iterator[pa.RecordBatch]:
    """`batches`: of the columns that `RowFormats.fetched` names, each of one partition. `cluster_id`: gives
    Kafka's id of the cluster that they come from, as it is known when a bad record comes.

    A generator. Raises BadRecord behind the rows before the bad record, unless the rows have the column of bad records;
    and the registry's errors.
    """
    task = _Task(formats, cluster_id)
    wish = memory.MemoryDemand(_WANTED_BYTES)
    lease = memory.process_budget().lease(memory.DECODED, wish, task.may_take, total_bytes=formats.memory_budget_bytes)
    with lease:
        for batch in batches:
            yield from task.rows_of(batch)


class _Task:
    def __init__(self, formats: RowFormats, cluster_id: Callable[[], str | None]) -> None:
        self._formats = formats
        self._cluster_id = cluster_id
        to_first_bad = not formats.has_bad_record
        self._sides: list[tuple[Side, TypedRows]] = [
            (side_format.side, side_format.rows(formats.schemas, to_first_bad=to_first_bad))
            for side_format in formats.used
        ]
        self._schema = formats.row_schema
        self._most_bytes = _WANTED_BYTES

    def may_take(self, size: int) -> None:
        self._most_bytes = max(size, MIB)

    def rows_of(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield from self._typed(batch, self._sides, {}, {})

    def _typed(
        self,
        batch: pa.RecordBatch,
        sides: Sequence[tuple[Side, TypedRows]],
        done: dict[str, pa.Array],
        bad: dict[int, tuple[Side, BadRow]],
    ) -> Iterator[pa.RecordBatch]:
        """The batch with its keys and values typed, in pieces. `done`, `bad`: of the sides before."""
        if not sides:
            yield from self._rows(batch, done, bad)
            return
        (side, rows), *others = sides
        values = batch.column(side)
        headers = batch.column("headers") if "headers" in batch.schema.names else None
        most_bytes = max(self._most_bytes, SIZES_OF_INPUT * values.nbytes + MIB)
        for piece in rows.pieces(values, headers, most_bytes):
            count = piece.end - piece.start
            until = {name: array.slice(piece.start, count) for name, array in done.items()}
            found = {row - piece.start: why for row, why in bad.items() if piece.start <= row < piece.end}
            for bad_row in piece.bad:
                found.setdefault(bad_row.row - piece.start, (side, bad_row))
            part = batch.slice(piece.start, count)
            until[side] = piece.array
            rescued = self._formats.rescued_column
            if rescued is not None and side == "value":
                until[rescued] = pa.nulls(count, pa.string()) if piece.rescued is None else piece.rescued
                _tell(part, until[rescued], rescued, piece.lacking)
            yield from self._typed(part, others, until, found)

    def _rows(
        self, batch: pa.RecordBatch, done: dict[str, pa.Array], bad: dict[int, tuple[Side, BadRow]]
    ) -> Iterator[pa.RecordBatch]:
        """The batch; where bad records are an error, as far as the first of them, and then the error."""
        if bad and not self._formats.has_bad_record:
            bad = {min(bad): bad[min(bad)]}
        if bad:
            _count(batch, bad)
        if not bad or self._formats.has_bad_record:
            yield self._batch(batch, done, bad)
            return
        first = min(bad)
        if first:
            yield self._batch(batch, done, {}).slice(0, first)
        raise _error(batch, first, *bad[first])

    def _batch(
        self, batch: pa.RecordBatch, done: dict[str, pa.Array], bad: dict[int, tuple[Side, BadRow]]
    ) -> pa.RecordBatch:
        if self._formats.has_bad_record:
            done = {**done, BAD_RECORD_COLUMN: _bad_records(batch, bad, self._cluster_id)}
        columns = [done[name] if name in done else batch.column(name) for name in self._formats.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _tell(batch: pa.RecordBatch, rescued: pa.StringArray, column: str, lacking: Iterable[Lacking]) -> None:
    """Count the records with rescued fields. Name the fields, once in this process for each topic and schema."""
    count = len(rescued) - rescued.null_count
    topic = batch.column("topic")[0].as_py()
    if count:
        metrics.count("kafkasource_rescued_records_total", count, topic)
    for each in lacking:
        if _told.get().put((topic, each.schema_id), True) is None:
            schema = "records have" if each.schema_id is None else f"schema id {each.schema_id} has"
            paths, more = each.paths[:_MOST_TOLD], len(each.paths) - _MOST_TOLD
            fields = escaped(", ".join(paths)[:2000], keep="") + (f" and {more} more" if more > 0 else "")
            log.warning("topic %s: %s fields that the columns lack: %s. They are in %s", topic, schema, fields, column)


def _count(batch: pa.RecordBatch, bad: dict[int, tuple[Side, BadRow]]) -> None:
    topic = batch.column("topic")[0].as_py()
    for cause, count in Counter(why.cause for _, why in bad.values()).items():
        metrics.count("kafkasource_bad_records_total", count, topic, cause)


def _error(batch: pa.RecordBatch, row: int, side: Side, why: BadRow) -> BadRecord:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return BadRecord(
        f"{topic}-{partition}, offset {offset}: {_reason(side, why)}",
        f"Set badRecords=column to read on: such records are in the column {BAD_RECORD_COLUMN} then, with their bytes. "
        f'Or start after the record (startingOffsets={{"{topic}":{{"{partition}":{offset + 1}}}}}, with a new '
        "checkpoint)",
    )


def _reason(side: Side, why: BadRow) -> str:
    schema = "" if why.schema_id is None else f" of schema id {why.schema_id}"
    field = f", field {why.place}" if why.place else ""
    return escaped(f"the {side}{schema}{field}: {why.reason}", keep="")  # a schema chooses names of fields


def _bad_records(
    batch: pa.RecordBatch, bad: dict[int, tuple[Side, BadRow]], cluster_id: Callable[[], str | None]
) -> pa.StructArray:
    """The column `badRecord`."""
    rows = batch.num_rows
    if not bad:
        return pa.nulls(rows, BAD_RECORD_TYPE)
    whys = [bad.get(row) for row in range(rows)]
    ids = [None if why is None else why[1].schema_id for why in whys]
    good = pa.array([why is None for why in whys], pa.bool_())
    null = pa.scalar(None, pa.binary())
    return pa.StructArray.from_arrays(
        [
            pa.array([None if why is None else _reason(*why) for why in whys], pa.string()),
            pa.array([schema_id if isinstance(schema_id, int) else None for schema_id in ids], pa.int32()),
            # pyarrow 18's if_else makes offsets beyond the bytes of a slice.
            pc.replace_with_mask(batch.column("key"), good, null),
            pc.replace_with_mask(batch.column("value"), good, null),
            pa.array([cluster_id()] * rows, pa.string()),
        ],
        fields=list(BAD_RECORD_TYPE),
        mask=good,
    )
