"""The headers of dead letters: the place and the reason of each (KIP-1191)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from kafkasource.kafka.producer.rows import Column
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE

PREFIX = "__dlq.errors."
TOPIC, PARTITION, OFFSET, MESSAGE = (PREFIX + name for name in ("topic", "partition", "offset", "message"))
CLUSTER_ID = PREFIX + "cluster.id"  # Kafka's id of the cluster with this topic; not in KIP-1191
FIELD = PREFIX + "field"  # of a row that a writer's schema does not take: where in the schema
FORMATS = {side: f"{PREFIX}{side}.format" for side in ("key", "value")}
"""Of such a row: `json`, as the dead letter has the column as JSON in place of a record."""

NO_MORE: Mapping[str, Column] = MappingProxyType({})


def headers_of(
    own: Column | None, place: Sequence[Column], reasons: Column, more: Mapping[str, Column] = NO_MORE
) -> pa.ListArray:
    """Headers of dead letters: the record's own, in their order, then those that say where it was read and why it is
    bad, then `more`, by name. All values are text; a null has no header.

    `place`: topic, partition and offset. A record that was not read, but could not be written, has no offset.
    """
    before = [None] * len(reasons) if own is None else own.to_pylist()
    whys = zip(*(each.to_pylist() for each in (*place, reasons.fill_null(""), *more.values())), strict=True)
    return pa.array(
        [
            [
                *(headers or ()),
                *(
                    {"key": name, "value": str(value).encode()}
                    for name, value in zip((TOPIC, PARTITION, OFFSET, MESSAGE, *more), why, strict=True)
                    if value is not None
                ),
            ]
            for headers, why in zip(before, whys, strict=True)
        ],
        HEADERS_TYPE,
    )
