"""Checks on the driver that a DataFrame can be written, before a task starts: with the texts of the JVM connector.

Columns are found by exact name: topic, key, value, headers, partition, timestamp; others are ignored, except the
source's column of bad records. Spark plans each write in a process of its own, which this module spares pyarrow.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.types import BAD_RECORD_COLUMN, PACKED_COLUMN

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from kafkasource.formats.writing.formats import WriteFormat
    from kafkasource.options import Options

BAD_RECORD = "struct<reason:string,schemaId:int,key:binary,value:binary,clusterId:string>"
"""Spark's catalog string of the source's column."""
NEEDED = (BAD_RECORD_COLUMN, "topic", "partition", "offset", "headers")
"""The columns of a DataFrame with dead letters."""

_STRING_OR_BINARY = ("string", "binary")
_ACCEPTED: dict[str, tuple[str, ...]] = {  # Spark's catalog strings by column, in the order they are checked
    "topic": ("string",),
    "key": _STRING_OR_BINARY,
    "value": _STRING_OR_BINARY,
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("timestamp",),  # not in the JVM connector (SPARK-50160): the record's create time
}
_OFFSET: dict[str, tuple[str, ...]] = {"offset": ("bigint",)}  # where a mirror's rows, or dead letters, were read
_BAD_RECORD: dict[str, tuple[str, ...]] = {BAD_RECORD_COLUMN: (BAD_RECORD,)}


class InvalidSchema(KafkaSourceError, ValueError):
    """The DataFrame cannot be written: a column is missing or of the wrong type. Raised on the driver."""


@dataclass(frozen=True)
class SinkSchema:
    """The position of each column in the Arrow batches. Pickled into every task."""

    topic: str | None  # the option, which wins over the column
    positions: dict[str, int]  # by name, of the columns that exist
    dead_letter_topic: str | None = None  # where bad records go; None: one is an error
    formats: tuple[WriteFormat, ...] = ()  # of keys and values that are encoded
    cluster_names: tuple[str, ...] = ("",)  # of the clusters that get the rows, in metrics
    cluster_id: str | None = None  # Kafka's id of the cluster, for dead letters; None also where there are several

    @classmethod
    def check(
        cls,
        schema: StructType,
        topic: str | None,
        *,
        offsets: bool = False,
        dead_letter_topic: str | None = None,
        typed: Container[str] = (),
        text: Container[str] = (),
    ) -> SinkSchema:
        """Find the columns of a Spark schema. Driver side; raises InvalidSchema in the JVM connector's words.

        `offsets`: the rows must have the column `offset`, too. Otherwise it is ignored, except by bad records. `typed`:
        keys or values that are encoded, which may have any type; `text`: those that must be strings.
        """
        types = {field.name: _catalog_string(field.dataType) for field in schema.fields}
        if PACKED_COLUMN in types and "value" not in types and ("value" in typed or "value" in text):
            raise InvalidSchema(f"column {PACKED_COLUMN!r} has records as they are: leave out the option 'valueFormat'")
        if dead_letter_topic is not None:
            check_dead_letters(types)
        if types.get(PACKED_COLUMN) == "binary" and "value" not in types:
            return cls(topic, {PACKED_COLUMN: list(types).index(PACKED_COLUMN)}, dead_letter_topic)
        accepted_by_name = _accepted(types, offsets=offsets, dead=dead_letter_topic is not None)
        positions: dict[str, int] = {}
        for position, field in enumerate(schema.fields):
            if field.name in accepted_by_name and field.name not in positions:
                positions[field.name] = position
        if topic is None and "topic" not in positions:
            raise InvalidSchema(
                "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
            )
        if "value" not in positions:
            raise InvalidSchema("Required attribute 'value' not found")
        for name in ("offset", "partition") if offsets else ():
            if name not in positions:
                raise InvalidSchema(f"'offsetMap' needs the column {name!r}, as the source has it")
        accepted_by_name |= {name: ("string",) for name in accepted_by_name if name in text}
        for name in filter(positions.__contains__, accepted_by_name):
            found = _catalog_string(schema.fields[positions[name]].dataType)
            if name not in typed and found not in accepted_by_name[name]:
                raise InvalidSchema(
                    f"{name} attribute unsupported type {found}. {name} must be a(n) "
                    f"{' or '.join(accepted_by_name[name])}{_other_types(name, found)}"
                )
        return cls(topic, positions, dead_letter_topic)


def _accepted(types: dict[str, str], *, offsets: bool, dead: bool) -> dict[str, tuple[str, ...]]:
    """The types that these columns may have, from `_ACCEPTED`. `dead`: bad records become dead letters."""
    bad = dead or types.get(BAD_RECORD_COLUMN) == BAD_RECORD
    place = offsets or dead or (bad and types.get("offset") in _OFFSET["offset"])
    return _ACCEPTED | (_OFFSET if place else {}) | (_BAD_RECORD if bad else {})


def _other_types(name: str, found: str) -> str:
    """Say how a key or a value of another type can be written."""
    if name not in ("key", "value"):
        return ""
    if found.startswith(("struct<", "array<", "map<")):
        return f". Write to_json({name}) AS {name}, or set {name}Format=json"
    return f". Write CAST({name} AS STRING) AS {name}, or set {name}Format=json"


def dead_letter_topic_of(options: Options) -> str | None:
    """The topic that `badRecords` names. Raises OptionError."""
    topic: str | None = options["badRecords"].partition(":")[2] or None
    if topic is not None and topic == options["topic"]:
        raise OptionError(f"options 'topic' and 'badRecords' both name {topic!r}: bad records need another topic")
    return topic


def check_dead_letters(types: Container[str]) -> None:
    """`types`: the names of the columns there are. Raises InvalidSchema for one that dead letters need. Without the
    column `badRecord` they are only what cannot be written, which needs none."""
    if BAD_RECORD_COLUMN not in types:
        return
    missing = next((name for name in NEEDED if name not in types), None)
    if missing is not None:
        includes = " with includeHeaders=true" if missing == "headers" else ""
        raise InvalidSchema(
            f"option 'badRecords'=topic:NAME needs the column {missing!r}, as the source has it{includes}: a dead "
            f"letter is the record as it was read. Keep {', '.join(NEEDED)} in the DataFrame. Where "
            "badRecord is null, topic, partition and headers say what is written, as in any write"
        )


def _catalog_string(data_type: DataType) -> str:
    """Spark's catalog string. A collation, and the length of a char or varchar, do not change what is written."""
    kind = str(data_type.simpleString())
    return "string" if kind.startswith(("string collate ", "char(", "varchar(")) else kind
