"""The columns of a row, exactly the JVM connector's: names, order, types, all nullable.

`kafkasource.records.batches.ROW_SCHEMA` is the same in Arrow; Spark compares the two batch by batch.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


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
