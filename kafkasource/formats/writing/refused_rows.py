"""Rows that a writer's schema does not take, as dead letters (`badRecords=topic:NAME`).

There is no record of such a row, so the dead letter has the columns that should have been encoded as JSON: the text of
`valueFormat=json`, without a schema and its id, and with what JSON has no value for in some form
(`JsonEncoder.any_type`). Headers say so: `__dlq.errors.value.format` and `__dlq.errors.key.format` are `json`. A key or
value that is not encoded is as it would have been written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa

from kafkasource import metrics
from kafkasource.errors import SchemaError
from kafkasource.formats.framing import Side
from kafkasource.formats.json.encode import JsonEncoder
from kafkasource.formats.writing.rows import MOST_BYTES, CannotEncodeColumn
from kafkasource.kafka.producer.dead_letters import CLUSTER_ID, FIELD, FORMATS, headers_of

Column: TypeAlias = pa.Array


def as_json(column: Column, error: CannotEncodeColumn) -> Column:
    """The texts of a column, as bytes; null stays null. Raises `error`, with more words, for a type without JSON."""
    try:
        encoder = _encoder(column.type)
    except SchemaError as no_json:
        raise SchemaError(f"{error}. It cannot become a dead letter either: {no_json}") from None
    return pa.concat_arrays(
        [pa.array([], pa.binary()), *(piece.records for piece in encoder.pieces(column, MOST_BYTES))]
    )


@lru_cache(maxsize=64)
def _encoder(data_type: pa.DataType) -> JsonEncoder:
    return JsonEncoder(data_type, any_type=True)


def headers_of_row(
    own: Column | None,
    place: Sequence[Column],
    errors: Sequence[CannotEncodeColumn],
    as_json: Sequence[Side],
    cluster_id: str | None,
) -> pa.ListArray:
    """Return headers as `dead_letters.headers_of` does. `errors`: one for each row; `as_json`: the sides that are JSON;
    `cluster_id`: of the cluster where the rows should have gone."""
    more = {CLUSTER_ID: pa.array([cluster_id] * len(errors), pa.string())}
    more |= {FIELD: pa.array([error.place for error in errors], pa.string())}
    more |= {FORMATS[side]: pa.array(["json"] * len(errors), pa.string()) for side in as_json}
    return headers_of(own, place, pa.array([str(error) for error in errors], pa.string()), more)


def count(cluster: str, topics: Sequence[str], errors: Sequence[CannotEncodeColumn]) -> None:
    """`topics`: where the rows should have gone."""
    for (topic, cause), rows in Counter(zip(topics, (error.cause for error in errors), strict=True)).items():
        metrics.count("kafkasource_dead_letters_total", rows, cluster, topic, cause)
