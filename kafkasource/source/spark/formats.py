"""The formats of a query's keys and values: resolved by `schema()`, found again in the schema that Spark hands on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kafkasource.formats.framing import Side
    from kafkasource.formats.reading.formats import RowFormats
    from kafkasource.formats.schema_source import RegisteredSchema
    from kafkasource.options import Options


def row_formats(options: Options, schema: StructType | None = None) -> RowFormats | None:
    """None where keys and values stay binary. Asks a registry for the schemas that `schema` does not bring.

    Raises OptionError, RegistryError.
    """
    if options["valueFormat"] == options["keyFormat"] == "binary":
        return None
    from kafkasource.formats.reading.formats import RowFormats
    from kafkasource.source.plan.subscription import SubscribePattern, parse_subscription
    from kafkasource.source.spark.schema import known_readers, known_types

    subscription = parse_subscription(options)
    topics = None if isinstance(subscription, SubscribePattern) else subscription.topics
    known = {} if schema is None else {**_given_types(options, schema), **known_readers(schema)}
    return RowFormats.of(options, topics, known, () if schema is None else known_types(schema))


def _given_types(options: Options, schema: StructType) -> dict[Side, RegisteredSchema]:
    """Take the JSON columns' types from `.schema(...)`, if no option gives them. Raises OptionError."""
    from pyspark.sql.types import AtomicType

    from kafkasource.errors import OptionError, SchemaError
    from kafkasource.formats.json.types_of import column_type
    from kafkasource.formats.schema_options import READER_OPTIONS
    from kafkasource.formats.schema_source import JSON, RegisteredSchema

    found = {}
    for side, option in READER_OPTIONS.items():
        if options[f"{side}Format"] != "json" or options[option] is not None or side not in schema.names:
            continue
        if not isinstance(schema[side].dataType, AtomicType):
            found[side] = RegisteredSchema(JSON, schema[side].dataType.json())
            try:
                column_type(found[side])
            except SchemaError as error:
                raise OptionError(f".schema(), the column {side!r}: {error}") from None
    return found
