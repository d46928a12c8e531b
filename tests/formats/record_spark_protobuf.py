"""Writes spark_protobuf_rows.json: what Spark's own `from_protobuf` makes of records. The tests need neither Spark nor
its jars.

    PYTHONPATH=.:tests:tests/formats python tests/formats/record_spark_protobuf.py SPARK_PROTOBUF_JAR ...

The jars: spark-protobuf_2.13 of the release of pyspark, with protobuf-java and protobuf-java-util where it does not
have them inside.
"""

from __future__ import annotations

import base64
import json
import os
import random
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from protobuf_oracle import SCALARS, WELL_KNOWN, F, Schema, canonical, file_of, fill
from pyspark.sql import Row, SparkSession
from pyspark.sql.protobuf.functions import from_protobuf

FILE = Path(__file__).with_name("spark_protobuf_rows.json")
SEEDS, RECORDS = range(60), 3


class EachType:
    """A message with a field of each kind, in each form: single, `optional`, repeated, a map's value, of a oneof."""

    def __init__(self, syntax: str) -> None:
        self.file = descriptor_pb2.FileDescriptorProto(name="each.proto", package="p", syntax=syntax)
        self.file.dependency.extend(module.DESCRIPTOR.name for module in WELL_KNOWN)
        enum = self.file.enum_type.add(name="E")
        for number in (0, 1, -5, 2**31 - 1):
            enum.value.add(name=f"V{number}".replace("-", "_"), number=number)
        inner = self.file.message_type.add(name="Inner")
        inner.field.add(name="a", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
        inner.field.add(name="b", number=2, type=F.TYPE_STRING, label=F.LABEL_REPEATED)
        self.message = self.file.message_type.add(name="M0")
        self.message.oneof_decl.add(name="one")
        named = [".p.E", ".p.Inner", *(f".google.protobuf.{name}" for name in NAMED)]
        for number, kind in enumerate([*SCALARS, *named]):
            self._forms(10 * number + 1, f"f{number}", kind, proto3=syntax == "proto3")
        pool = descriptor_pool.DescriptorPool()
        for module in WELL_KNOWN:
            pool.Add(file_of(module))
        pool.Add(self.file)
        self.type = message_factory.GetMessageClass(pool.FindMessageTypeByName("p.M0"))

    def _forms(self, number: int, name: str, kind: Any, *, proto3: bool) -> None:
        fields = self.message.field
        forms = [fields.add(name=name, number=number, label=F.LABEL_OPTIONAL)]
        forms.append(fields.add(name=f"{name}_many", number=number + 1, label=F.LABEL_REPEATED))
        forms.append(fields.add(name=f"{name}_one", number=number + 2, label=F.LABEL_OPTIONAL, oneof_index=0))
        entry = self.message.nested_type.add(name=f"{name.upper()}MapEntry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=F.LABEL_OPTIONAL, type=F.TYPE_STRING)
        forms.append(entry.field.add(name="value", number=2, label=F.LABEL_OPTIONAL))
        fields.add(name=f"{name}_map", number=number + 3, label=F.LABEL_REPEATED, type=F.TYPE_MESSAGE,
                   type_name=f".p.M0.{entry.name}")  # fmt: skip
        for form in forms:
            if isinstance(kind, str):
                form.type = F.TYPE_ENUM if kind == ".p.E" else F.TYPE_MESSAGE
                form.type_name = kind
            else:
                form.type = kind
        if proto3 and not isinstance(kind, str):
            optional = fields.add(name=f"{name}_opt", number=number + 4, type=kind, label=F.LABEL_OPTIONAL)
            optional.proto3_optional = True
            optional.oneof_index = len(self.message.oneof_decl)
            self.message.oneof_decl.add(name=f"_{name}_opt")


NAMED = ("Timestamp", "Duration", "StringValue", "Int64Value", "BoolValue", "BytesValue", "DoubleValue")


def records_of(schema: Any, rng: random.Random) -> list[bytes]:
    records = [fill(rng, schema.type()).SerializeToString() for _ in range(RECORDS)]
    damaged = bytearray(rng.choice(records) or b"\x08")
    damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return [b"", *records, bytes(damaged), records[0] + records[1], records[2][: len(records[2]) // 2]]


def plain_of(value: Any) -> Any:
    """A value that Spark collected, as `protobuf_oracle.plain` has it: times as microseconds, a map as a dict."""
    if isinstance(value, Row):
        return {name: plain_of(each) for name, each in zip(value.__fields__, value, strict=True)}
    if isinstance(value, dict):
        return {key: plain_of(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain_of(item) for item in value]
    if isinstance(value, datetime):
        value -= datetime(1970, 1, 1)
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    return bytes(value) if isinstance(value, bytearray) else value


def rows_of(spark: SparkSession, schema: Any, records: list[bytes]) -> dict[str, Any]:
    files = descriptor_pb2.FileDescriptorSet(file=[*map(file_of, WELL_KNOWN), schema.file]).SerializeToString()
    frame = spark.createDataFrame([(n, bytearray(each)) for n, each in enumerate(records)], "n int, value binary")
    value = from_protobuf("value", "p.M0", binaryDescriptorSet=files, options={"mode": "PERMISSIVE"})
    try:
        decoded = frame.orderBy("n").select(value.alias("value"))
        kind = decoded.schema["value"].dataType.simpleString()
        # toArrow does not work: Spark makes null records of messages with required fields, and pyarrow refuses these.
        values = [plain_of(row.value) for row in decoded.collect()]
        rows = [None if value is None else repr(canonical(value)) for value in values]
    except Exception as error:
        print(str(error)[:300].splitlines()[0], file=sys.stderr)
        kind, rows = None, []
    return {
        "file": base64.b64encode(schema.file.SerializeToString()).decode(),
        "type": kind,
        "records": [base64.b64encode(record).decode() for record in records],
        "rows": rows,
    }


def main(*jars: str) -> None:
    os.environ["TZ"] = "UTC"  # in which Spark's Python collects times
    time.tzset()
    with tempfile.TemporaryDirectory() as folder:
        spark = (
            SparkSession.builder.master("local[1]")
            .config("spark.jars", ",".join(jars))
            .config("spark.ui.enabled", "false")
            .config("spark.local.dir", folder)
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
        cases = []
        for seed in SEEDS:
            rng = random.Random(seed)
            schema = Schema(rng)
            cases.append(rows_of(spark, schema, records_of(schema, rng)))
        for syntax in ("proto2", "proto3"):
            schema, rng = EachType(syntax), random.Random(syntax)
            cases.append(rows_of(spark, schema, records_of(schema, rng)))
        lines = ",\n".join(json.dumps(case) for case in cases)
        FILE.write_text(f'{{"spark": "{spark.version}", "cases": [\n{lines}\n]}}\n')
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
