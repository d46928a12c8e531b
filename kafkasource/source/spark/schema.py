"""The columns of a row, exactly the JVM connector's: names, order, types, all nullable.

`kafka.records.arrow.columns.ROW_SCHEMA` is the same in Arrow; Spark compares the two batch by batch.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafkasource.errors import OptionError
from kafkasource.options import no_such_column
from kafkasource.types import BAD_RECORD_COLUMN

if TYPE_CHECKING:
    from kafkasource.formats.framing import Side
    from kafkasource.formats.reading.formats import Format, RowFormats
    from kafkasource.formats.schema_source import RecordType, RegisteredSchema
    from kafkasource.options import Options

READER_SCHEMA = "kafkasource.readerSchema"
"""In the metadata of a typed column: the schema that `load()` has resolved."""

RECORD_TYPES = "kafkasource.recordTypes"
"""In its place where the option `recordTypes` names several."""

_FIXED = "Kafka source has a fixed schema and cannot be set with a custom one"  # the JVM connector's words


def spark_schema(include_headers: bool, packed: bool = False) -> StructType:
    """The schema without, or with, the column `headers` (option `includeHeaders`); or that of `packRecords`."""
    if packed:
        return StructType([StructField("records", BinaryType())])
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),  # Kafka's id: -1 none, 0 create time, 1 log append time
    ]
    if include_headers:
        fields.append(StructField("headers", ArrayType(header)))  # null where a record has none
    return StructType(fields)


def schema_of(options: Options, formats: RowFormats | None = None) -> StructType:
    """The schema that the options ask for. The columns of `formats` carry their readers' schemas as metadata."""
    if options["packRecords"]:
        return spark_schema(False, packed=True)
    whole = _whole(formats)
    return StructType([whole[name] for name in options["columns"]])


def _whole(formats: RowFormats | None) -> StructType:
    """All columns that rows may have."""
    binary = spark_schema(True)
    if formats is None:
        return binary
    from kafkasource.formats.reading.formats import BAD_RECORD_TYPE
    from kafkasource.source.spark.arrow_to_spark import spark_type

    typed = {each.side: each for each in formats.formats}
    fields = [
        field
        if field.name not in typed
        else StructField(
            field.name,
            spark_type(formats.type_of(typed[field.name])),
            True,
            _metadata(typed[field.name]),
        )
        for field in binary.fields
    ]
    if formats.rescued_column is not None:
        fields.append(StructField(formats.rescued_column, StringType()))
    if formats.has_bad_record:
        fields.append(StructField(BAD_RECORD_COLUMN, spark_type(BAD_RECORD_TYPE)))
    return StructType(fields)


def _metadata(one: Format) -> dict[str, str] | None:
    if one.reader is None:
        return None
    if one.types:
        types = [[each.name, _plain(each.schema), each.subject] for each in one.types]
        return {RECORD_TYPES: json.dumps(types)}
    return {READER_SCHEMA: json.dumps(_plain(one.reader))}


def _plain(schema: RegisteredSchema) -> list[object]:
    return [schema.kind, schema.text, schema.references]


def _schema(kind: str, text: str, references: list[list[str]]) -> RegisteredSchema:
    from kafkasource.formats.schema_source import RegisteredSchema

    return RegisteredSchema(kind, text, tuple((name, each) for name, each in references))


def known_types(schema: StructType) -> tuple[RecordType, ...]:
    """The same as `known_readers`, for `recordTypes`."""
    from kafkasource.formats.schema_source import RecordType

    if "value" not in schema.names or RECORD_TYPES not in (schema["value"].metadata or {}):
        return ()
    found = json.loads(schema["value"].metadata[RECORD_TYPES])
    return tuple(RecordType(name, _schema(*each), subject) for name, each, subject in found)


def known_readers(schema: StructType) -> dict[Side, RegisteredSchema]:
    """The readers' schemas that `schema_of` has put into a schema's metadata: Spark hands them on."""
    found: dict[Side, RegisteredSchema] = {}
    sides: tuple[Side, ...] = ("key", "value")
    for side in sides:
        if side in schema.names and READER_SCHEMA in (schema[side].metadata or {}):
            found[side] = _schema(*json.loads(schema[side].metadata[READER_SCHEMA]))
    return found


def without_comments(kind: DataType) -> DataType:
    """The type without the metadata of fields within it."""
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, without_comments(each.dataType), each.nullable) for each in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(without_comments(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(without_comments(kind.keyType), without_comments(kind.valueType), kind.valueContainsNull)
    return kind


def with_columns_of(schema: StructType, options: Options, formats: RowFormats | None = None) -> Options:
    """The options, with the columns of `schema` in its order: Spark hands on what the user gave to `.schema()`, or else
    `schema_of(options)`.

    Raises OptionError where the source cannot read such rows.
    """
    names = tuple(schema.fieldNames())
    ours = schema_of(options, formats)
    if options["packRecords"]:
        if names != tuple(ours.fieldNames()):
            raise OptionError(f"{_FIXED}: with packRecords=true it has a single column, 'records'. Leave out .schema()")
        return options
    if not names:
        raise OptionError(f"{_FIXED}: .schema() names no column. Name the columns that the query uses")
    whole = _whole(formats)
    for number, field in enumerate(schema.fields):
        if field.name not in whole.names:
            raise OptionError(f"{_FIXED}: {no_such_column(field.name)}. .schema() may choose among these columns")
        if field.name in names[:number]:
            raise OptionError(f"{_FIXED}: .schema() names the column {field.name!r} twice")
        kind = whole[field.name].dataType
        if without_comments(field.dataType) != kind:
            raise OptionError(
                f"{_FIXED}: the column {field.name!r} is {kind.simpleString()}, and .schema() says"
                f" {field.dataType.simpleString()}. Convert it after load()"
            )
        if not field.nullable:
            raise OptionError(f"{_FIXED}: .schema() says that the column {field.name!r} is NOT NULL. Leave that out")
    if "columns" in options.given and names != options["columns"]:
        raise OptionError(
            f"option 'columns' ({', '.join(options['columns'])}) and .schema() ({', '.join(names)}) must name the same"
            " columns in the same order. Leave out one of the two"
        )
    added = {
        "includeHeaders": "headers" if options["includeHeaders"] else None,
        "rescuedColumn": options["rescuedColumn"],
        "badRecords": BAD_RECORD_COLUMN if options["badRecords"] == "column" else None,
    }
    for option, name in added.items():
        if name is not None and name not in names:
            raise OptionError(
                f"option {option!r} adds the column {name!r}, which .schema() does not name. Name it there, or leave "
                "out the option"
            )
    return options.with_columns(names)
