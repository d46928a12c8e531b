"""Dead letters: records that a read could not decode, in a topic of their own (`badRecords=topic:NAME`).

A row whose column `badRecord` is not null becomes one. The column has the key and the value as they were read, and the
columns topic, partition, offset and headers say where, and what stood beside them. The dead letter has the same bytes
and headers. Behind these are the headers by which Kafka's share groups say where a dead letter comes from (KIP-1191).

A row that a writer's schema does not take becomes one, too (`sink.typed.refused_rows`), as JSON in place of a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from kafkasource.client.cache import shared_cluster
from kafkasource.client.config import ClientConfig
from kafkasource.errors import OptionError
from kafkasource.records.arrow.columns import HEADERS_TYPE
from kafkasource.sink.new_topic import SEEN, SeenTopics, exists
from kafkasource.types import BAD_RECORD_COLUMN

if TYPE_CHECKING:
    from kafkasource.client.cluster import Cluster
    from kafkasource.options import Options

Column: TypeAlias = pa.Array

BAD_RECORD = "struct<reason:string,schemaId:int,key:binary,value:binary,clusterId:string>"
"""Spark's catalog string of the source's column."""
NEEDED = (BAD_RECORD_COLUMN, "topic", "partition", "offset", "headers")
"""The columns of a DataFrame with dead letters."""
PLACE = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
"""Where a row was read, and the types of these columns; none is null in a bad row."""

PREFIX = "__dlq.errors."
TOPIC, PARTITION, OFFSET, MESSAGE = (PREFIX + name for name in ("topic", "partition", "offset", "message"))
CLUSTER_ID = PREFIX + "cluster.id"  # Kafka's id of the cluster with this topic; not in KIP-1191
FIELD = PREFIX + "field"  # of a row that a writer's schema does not take: where in the schema
FORMATS = {side: f"{PREFIX}{side}.format" for side in ("key", "value")}
"""Of such a row: `json`, as the dead letter has the column as JSON in place of a record."""

NO_MORE: Mapping[str, Column] = MappingProxyType({})


def dead_letter_topic_of(options: Options) -> str | None:
    """The topic that `badRecords` names. Raises OptionError."""
    topic: str | None = options["badRecords"].partition(":")[2] or None
    if topic is not None and topic == options["topic"]:
        raise OptionError(f"options 'topic' and 'badRecords' both name {topic!r}: bad records need another topic")
    return topic


def headers_of(
    own: Column | None, place: Sequence[Column], reasons: Column, more: Mapping[str, Column] = NO_MORE
) -> pa.ListArray:
    """Headers of dead letters: the record's own, in their order, and those that say where it was read and why it is
    bad; `more`, by name, behind them. All values are text; a null has no header. `place`: the columns `PLACE`. A record
    that was not read, but could not be written, has no offset."""
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


def require_topic(config: ClientConfig, topic: str, *, trusted_ms: int = 0, seen: SeenTopics = SEEN) -> str | None:
    """Look for the topic before a task starts: else the first bad record, perhaps after days, would find that it is
    missing. Driver side; raises OptionError. `trusted_ms`: as for `create_missing`. Returns the id of its cluster."""
    cluster = shared_cluster(config)
    if not seen.within(config, topic, trusted_ms):
        _look_for(cluster, topic)
        seen.saw(config, topic)
    return cluster.metadata.cluster_id or cluster.brokers().cluster_id


def _look_for(cluster: Cluster, topic: str) -> None:
    if not exists(cluster, topic):
        raise OptionError(
            f"option 'badRecords': topic {topic!r} does not exist, or the user may not see it. Create it (pykafka "
            f"topics create {topic}), or name another"
        )
