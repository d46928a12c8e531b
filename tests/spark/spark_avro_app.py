"""Reads the same records by `valueFormat=avro` and by spark-avro's `from_avro`, and compares what comes out. Then
writes the rows by `valueFormat=avro` and by `to_avro`, and compares what fastavro reads of both, and what
`schemaIdIn=none` reads of both.

    python spark_avro_app.py BOOTSTRAP TOPIC SCHEMAS FOLDER JAR WRITTEN

SCHEMAS: a file of JSON, for each partition of the topic `[reader's schema, {"schema id": writer's schema}]`. WRITTEN: a
topic of as many partitions. The last line that it prints is JSON: how many rows were equal, read and written, and those
that were not, as texts.
"""

from __future__ import annotations

import copy
import io
import json
import sys
from pathlib import Path
from pprint import pformat
from typing import Any

import fastavro
from exactly_once_app import session
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.functions import expr

from kafkasource import register


def main(bootstrap: str, topic: str, schemas: str, folder: str, jar: str, written: str) -> None:
    spark = session("local[2]", folder, jar)
    register(spark)
    equal, alike, differ = 0, 0, []
    for partition, (reader, writers) in enumerate(json.loads(Path(schemas).read_text())):
        options = {"kafka.bootstrap.servers": bootstrap, "assign": json.dumps({topic: [partition]})}
        ours = read(spark, **options, **by_id(writers, folder, partition), valueFormat="avro",
                    readerSchema=json.dumps(reader))  # fmt: skip
        rows = {row.offset: text_of(row) for row in ours.collect()}
        binary = read(spark, **options)
        for number, writer in writers.items():
            of_writer = binary.where(expr(f"conv(hex(substring(value, 2, 4)), 16, 10) = '{number}'"))
            decoded = from_avro(expr("substring(value, 6)"), for_spark(writer), {"avroSchema": for_spark(reader)})
            theirs = of_writer.select("offset", decoded.alias("value"))
            found = compared(ours, rows, theirs)
            equal += found[0]
            differ += [f"{reader}\n{writer}\n{each}" for each in found[1]]
        to_written = {**options, "assign": json.dumps({written: [partition]})}
        pairs = written_by_both(spark, ours, reader, to_written)
        pairs += read_back(spark, ours, rows, reader, to_written)
        alike += sum(mine == other for mine, other in pairs)
        differ += [f"{reader}\n  ours   {mine}\n  theirs {other}" for mine, other in pairs if mine != other]
    print(json.dumps({"release": spark.version, "equal": equal, "written": alike, "differ": differ}))
    spark.stop()


def read(spark: SparkSession, **options: str) -> DataFrame:
    return spark.read.format("pykafka").options(**options).load().select("offset", "value")


def for_spark(schema: Any) -> str:
    """Spark 4.2's `from_avro` gives `time-micros` the type TIME, which Spark's SQL refuses unless a setting is on
    (decision 129). Avro ignores a logical type that it does not know."""
    return json.dumps(schema).replace('"time-micros"', '"not-of-avro"')


def by_id(writers: dict[str, Any], folder: str, partition: int) -> dict[str, str]:
    """The option for a function that knows these schemas."""
    module = f"schemas_of_partition_{partition}"
    texts = {int(number): json.dumps(writer) for number, writer in writers.items()}
    Path(folder, f"{module}.py").write_text(f"def text_of(schema_id):\n    return {texts!r}.get(schema_id)\n")
    SparkSession.builder.getOrCreate().sparkContext.addPyFile(f"{folder}/{module}.py")
    return {"schemaRegistry": f"{module}:text_of"}


def compared(ours: DataFrame, rows: dict[int, str], theirs: DataFrame) -> tuple[int, list[str]]:
    """`rows`: those of `ours`, by offset. How many rows of `theirs` are the same, and texts of the others."""
    types = [each.schema["value"].dataType.simpleString() for each in (ours, theirs)]
    if types[0] != types[1]:
        return 0, [f"types\n  ours   {types[0]}\n  theirs {types[1]}"]
    answers = [(rows[row.offset], text_of(row)) for row in theirs.collect()]
    wrong = [f"  ours   {mine}\n  theirs {other}" for mine, other in answers if mine != other]
    return len(answers) - len(wrong), wrong


def written_by_both(
    spark: SparkSession, ours: DataFrame, reader: Any, options: dict[str, str]
) -> list[tuple[str, str]]:
    """Texts of the rows that fastavro reads of our records and of `to_avro`'s."""
    ((topic, (partition,)),) = json.loads(options["assign"]).items()
    keyed = ours.selectExpr("CAST(offset AS STRING) AS key", "value", f"{partition} AS partition")
    formats = {"valueFormat": "avro", "writerSchema": json.dumps(reader), "schemaIdIn": "none"}
    keyed.write.format("pykafka").options(**options_of_a_write(options), topic=topic, **formats).mode("append").save()
    back = spark.read.format("pykafka").options(**options).load()
    mine = {int(row.key): bytes(row.value) for row in back.select("key", "value").collect()}
    theirs = ours.select("offset", to_avro("value", for_spark(reader)).alias("value")).collect()
    assert len(mine) == len(theirs)
    return [(shown(mine[row.offset], reader), shown(bytes(row.value), reader)) for row in theirs]


def read_back(
    spark: SparkSession, ours: DataFrame, rows: dict[int, str], reader: Any, options: dict[str, str]
) -> list[tuple[str, str]]:
    """Rows that `schemaIdIn=none` reads of our bare records and of `to_avro`'s. `rows`: by offset."""
    ((topic, (partition,)),) = json.loads(options["assign"]).items()
    bare = ours.select(expr("CAST(offset AS STRING) AS key"), to_avro("value", for_spark(reader)).alias("value"))
    bare = bare.withColumn("partition", expr(str(partition)))
    bare.write.format("pykafka").options(**options_of_a_write(options), topic=topic).mode("append").save()
    back = spark.read.format("pykafka").options(
        **options, valueFormat="avro", readerSchema=json.dumps(reader), schemaIdIn="none"
    )
    found = back.load().select("key", "value").collect()
    assert len(found) == 2 * len(rows)
    return [(text_of(row), rows[int(row.key)]) for row in found]


def options_of_a_write(options: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in options.items() if name != "assign"}


def shown(record: bytes, schema: Any) -> str:
    stream = io.BytesIO(record)
    found = fastavro.schemaless_reader(stream, fastavro.parse_schema(copy.deepcopy(schema)), return_record_name=True)
    return f"{pformat(found, width=10_000)} and {len(stream.read())} bytes"


def text_of(row: Row) -> str:
    """The row as text. Maps are sorted by their keys, because Java's are unordered."""
    return pformat(row.value.asDict(recursive=True), width=10_000)


if __name__ == "__main__":
    main(*sys.argv[1:])
