"""Avro, Protobuf and JSON records of five fields through Spark: our typed columns, beside from_avro, from_protobuf and
from_json on the JVM connector. The first two get the bytes behind the schema's id from a projection.

`ready-made`: our read of the same topic, but columns made before stand for the decoded ones, so it costs what typed
columns cost without a decoder. `binary`: our read, not decoded. Where Maven Central gives no jar of from_protobuf, its
row says that it failed, unless KAFKASOURCE_SPARK_PROTOBUF_JARS names files (`lab.format_jars`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kafkasource.datasource import KafkaDataSource
from kafkasource.formats.avro.decode import AvroDecoder
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.formats.protobuf.decode import ProtobufDecoder
from kafkasource.formats.protobuf.schema import read_schema
from kafkasource.source.spark.schema import spark_schema
from kafkasource.writer import Writer
from lab.benchmarks.json_speed import COLUMNS, columns_of, json_records
from lab.benchmarks.lab import Lab, load, to_noop
from lab.benchmarks.results import OURS, Row
from lab.benchmarks.stages import Effort, compare
from lab.benchmarks.turns import Run, timed
from lab.benchmarks.typed_speed import (
    MOST_BYTES,
    PREFIX,
    PROTO,
    PROTO_PREFIX,
    SCHEMA,
    newer_records,
    proto_file,
    protobuf_records,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TITLE = "typed rows through Spark, 4 partitions, all columns"
RECORDS, AT_ONCE, PARTITIONS = 2_000_000, 200_000, 4
TEXTS = {"avro": json.dumps(SCHEMA), "protobuf": PROTO, "json": COLUMNS}
NAMES = {"avro": "Avro", "protobuf": "Protobuf", "json": "JSON"}
RECORDS_OF = {"avro": newer_records, "protobuf": protobuf_records, "json": json_records}


def run(lab: Lab, effort: Effort) -> Iterator[Row]:
    spark = lab.spark
    spark.dataSource.register(ReadyTyped)
    rounds = max(1, effort.rows(RECORDS) // AT_ONCE)
    for kind, records_of in RECORDS_OF.items():
        topic = filled(lab, records_of(AT_ONCE), rounds)
        yield from compare(f"{NAMES[kind]}, 5 fields", readers(lab, topic, kind), effort.turns, warm_up=2)
        lab.drop(topic)


def filled(lab: Lab, records: list[bytes], rounds: int) -> str:
    topic = lab.new_topic(PARTITIONS)
    rows = pa.table(
        {
            "value": pa.array(records, pa.binary()),
            "partition": pa.array([number % PARTITIONS for number in range(len(records))], pa.int32()),
        }
    )
    with Writer({"kafka.bootstrap.servers": lab.servers, "topic": topic}) as writer:
        for _ in range(rounds):
            writer.write(rows)
    return topic


def readers(lab: Lab, topic: str, kind: str) -> dict[str, Run]:
    spark = lab.spark
    kafka = {**lab.reach, "subscribe": topic, "startingOffsets": "earliest"}
    typed = {**kafka, "valueFormat": kind, "readerSchema": TEXTS[kind]}
    if kind != "json":
        typed["schemaRegistry"] = f"{__name__}:text_of_{kind}"

    def on_the_jvm() -> None:
        frame = load(spark, "kafka", kafka)
        to_noop(frame.withColumn("value", jvm_decoded(kind)))

    return {
        OURS: timed(lambda: to_noop(load(spark, "pykafka", typed))),
        "ready-made": timed(lambda: to_noop(load(spark, "ready_typed", {**kafka, "kind": kind}))),
        "binary": timed(lambda: to_noop(load(spark, "pykafka", kafka))),
        f"jvm from_{kind}": timed(on_the_jvm),
    }


def jvm_decoded(kind: str) -> Any:
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.functions import expr, from_json
    from pyspark.sql.protobuf.functions import from_protobuf

    if kind == "json":
        return from_json(expr("CAST(value AS STRING)"), COLUMNS)
    prefix = PREFIX if kind == "avro" else PROTO_PREFIX
    data = expr(f"substring(value, {len(prefix) + 1})")
    if kind == "avro":
        return from_avro(data, TEXTS[kind])
    return from_protobuf(data, "Sale", binaryDescriptorSet=proto_file_set())


def proto_file_set() -> bytes:
    from google.protobuf import descriptor_pb2

    return bytes(descriptor_pb2.FileDescriptorSet(file=[proto_file()]).SerializeToString())


def text_of_avro(schema_id: object) -> str:
    return TEXTS["avro"]


def text_of_protobuf(schema_id: object) -> str:
    return TEXTS["protobuf"]


@lru_cache
def ready_rows(kind: str) -> pa.Array:
    """More than a piece holds."""
    if kind == "avro":
        reader = parse_schema(TEXTS[kind])
        records = pa.array(newer_records(100_000), pa.binary())
        return AvroDecoder(reader, [reader]).decode(records, MOST_BYTES, skip_bytes=len(PREFIX)).array
    if kind == "json":
        return columns_of(json_records(100_000))
    schema = read_schema(PROTO)
    records = pa.array(protobuf_records(100_000), pa.binary())
    decoder = ProtobufDecoder(schema, schema.message_named("Sale"))
    return decoder.decode(records, MOST_BYTES, skip_bytes=len(PROTO_PREFIX)).array


class ReadyTyped(DataSource):
    """Our source, with columns that were made before in place of `value`."""

    @classmethod
    def name(cls) -> str:
        return "ready_typed"

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_type
        from pyspark.sql.types import StructField, StructType

        kind = from_arrow_type(ready_rows(self.options["kind"]).type)
        fields = spark_schema(False).fields
        return StructType([StructField("value", kind) if each.name == "value" else each for each in fields])

    def reader(self, schema: StructType) -> DataSourceReader:
        options = {name: text for name, text in self.options.items() if name != "kind"}
        return ReadyReader(KafkaDataSource(options).reader(spark_schema(False)), self.options["kind"])


class ReadyReader(DataSourceReader):
    def __init__(self, binary: DataSourceReader, kind: str) -> None:
        self.binary, self.kind = binary, kind

    def partitions(self) -> Any:
        return self.binary.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        ready = ready_rows(self.kind)
        for batch in self.binary.read(partition):
            assert isinstance(batch, pa.RecordBatch)
            assert batch.num_rows <= len(ready)
            at = batch.schema.get_field_index("value")
            yield batch.set_column(at, "value", ready.slice(0, batch.num_rows))
