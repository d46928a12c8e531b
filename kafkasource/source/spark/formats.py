"""The formats of a query's keys and values: resolved by `schema()`, found again in the schema that Spark hands on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kafkasource.options import Options
    from kafkasource.source.typed.formats import RowFormats


def row_formats(options: Options, schema: StructType | None = None) -> RowFormats | None:
    """None where keys and values stay binary. Asks a registry for the schemas that `schema` does not bring.

    Raises OptionError, RegistryError.
    """
    if options["valueFormat"] == options["keyFormat"] == "binary":
        return None
    from kafkasource.source.plan.subscription import SubscribePattern, parse_subscription
    from kafkasource.source.spark.schema import known_readers
    from kafkasource.source.typed.formats import RowFormats

    subscription = parse_subscription(options)
    topics = None if isinstance(subscription, SubscribePattern) else subscription.topics
    return RowFormats.of(options, topics, None if schema is None else known_readers(schema))
