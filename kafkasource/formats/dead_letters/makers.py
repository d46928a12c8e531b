"""Makes dead letters, for each of the three reasons:

of_undecoded   a read could not decode the record: its column `badRecord` has the bytes and the reason
of_rows        the writer's schema does not take the row
of_records     a broker, or a limit of the producer, does not take the record

Only a row has no record yet, so its dead letter has the columns that should have been encoded as JSON: the text of
`valueFormat=json`, without a schema and its id, and with some form for what JSON has no value for
(`JsonEncoder.any_type`). The headers `__dlq.errors.value.format` and `__dlq.errors.key.format` are then `json`. All
other keys and values are the bytes that the record has, or should have had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource import metrics
from kafkasource.errors import SchemaError
from kafkasource.formats.dead_letters.headers import CLUSTER_ID, FIELD, FORMATS, headers_of
from kafkasource.kafka.producer.delivery import DeadLetterTopic
from kafkasource.kafka.producer.rows import Column, Rows, all_null_as_none

if TYPE_CHECKING:
    from kafkasource.formats.framing import Side
    from kafkasource.formats.json.encode import JsonEncoder
    from kafkasource.formats.writing.rows import CannotEncodeColumn
    from kafkasource.kafka.producer.partitioner import Partitioner
    from kafkasource.kafka.records.builder import RecordColumns
    from kafkasource.types import TopicPartition


def of_undecoded(
    topic: str, bad_records: Column, place: Sequence[Column], *, headers: Column | None, timestamps_ms: Column | None
) -> Rows:
    """Dead letters of rows whose column `badRecord` is not null. `place`: topic, partition and offset of
    the records."""
    return Rows(
        topic=topic,
        count=len(bad_records),
        keys=all_null_as_none(pc.struct_field(bad_records, "key").cast(pa.binary())),
        values=pc.struct_field(bad_records, "value").cast(pa.binary()),
        headers=headers_of(
            headers,
            place,
            pc.struct_field(bad_records, "reason"),
            {CLUSTER_ID: pc.struct_field(bad_records, "clusterId")},
        ),
        partitions=None,
        timestamps_ms=timestamps_ms,
    )


def of_rows(
    topic: str,
    cluster_id: str | None,
    columns: Mapping[Side, Column],
    errors: Sequence[CannotEncodeColumn],
    typed: Sequence[Side],
    *,
    place: Sequence[Column],
    headers: Column | None,
    timestamps_ms: Column | None,
) -> Rows:
    """Dead letters of rows that the writer's schema does not take, one error for each.

    `columns`: keys and values; `typed`: those that should have been encoded; `cluster_id`: of the cluster where the
    rows should have gone. Raises SchemaError for a type without JSON.
    """
    texts = {side: _as_json(column, errors[0]) if side in typed else column for side, column in columns.items()}
    more: dict[str, Column] = {
        CLUSTER_ID: pa.array([cluster_id] * len(errors), pa.string()),
        FIELD: pa.array([error.place for error in errors], pa.string()),
    }
    more |= {FORMATS[side]: pa.array(["json"] * len(errors), pa.string()) for side in columns if side in typed}
    return Rows(
        topic=topic,
        count=len(errors),
        keys=all_null_as_none(texts.get("key")),
        values=texts["value"],
        headers=headers_of(headers, place, pa.array([str(error) for error in errors], pa.string()), more),
        partitions=None,
        timestamps_ms=timestamps_ms,
    )


def of_records(
    topic: str, cluster_id: str | None, tp: TopicPartition, columns: RecordColumns, reasons: Mapping[int, str]
) -> Rows:
    """Dead letters of the records with these numbers, which should have gone to `tp`."""
    numbers = pa.array(reasons, pa.int32())
    count = len(numbers)

    def pick(column: Column | None) -> Column | None:
        return None if column is None else column.take(numbers)

    values = pick(columns.values)
    return Rows(
        topic=topic,
        count=count,
        keys=pick(columns.keys),
        values=pa.nulls(count, pa.binary()) if values is None else values,
        headers=headers_of(
            pick(columns.headers),
            [pa.array([tp.topic] * count), pa.array([tp.partition] * count, pa.int32()), pa.nulls(count, pa.int64())],
            pa.array(reasons.values(), pa.string()),
            {CLUSTER_ID: pa.array([cluster_id] * count, pa.string())},
        ),
        partitions=None,
        timestamps_ms=pick(columns.timestamps_ms),
    )


def topic_for_records(topic: str, partitioner: Partitioner, cluster_id: str | None) -> DeadLetterTopic:
    """The topic of dead letters as a delivery needs it. `cluster_id`: of the cluster that is written to."""
    return DeadLetterTopic(topic, partitioner, partial(of_records, topic, cluster_id))


def count_rows(cluster: str, topics: Sequence[str], errors: Sequence[CannotEncodeColumn]) -> None:
    """Count rows as dead letters. `topics`: where the rows should have gone."""
    for (topic, cause), rows in Counter(zip(topics, (error.cause for error in errors), strict=True)).items():
        metrics.count("kafkasource_dead_letters_total", rows, cluster, topic, cause)


def _as_json(column: Column, error: CannotEncodeColumn) -> Column:
    """The texts of a column, as bytes; null stays null. Raises `error`, with more words, for a type without JSON."""
    from kafkasource.formats.writing.rows import MOST_BYTES

    try:
        encoder = _encoder(column.type)
    except SchemaError as no_json:
        raise SchemaError(f"{error}. It cannot become a dead letter either: {no_json}") from None
    return pa.concat_arrays(
        [pa.array([], pa.binary()), *(piece.records for piece in encoder.pieces(column, MOST_BYTES))]
    )


@lru_cache(maxsize=64)
def _encoder(data_type: pa.DataType) -> JsonEncoder:
    from kafkasource.formats.json.encode import JsonEncoder

    return JsonEncoder(data_type, any_type=True)
