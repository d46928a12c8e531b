"""Runs the Python blocks of the documents as they are written, each document with variables of its own.

    python documents_app.py BOOTSTRAP FOLDER DOCUMENT...

A comment `<!-- not run: REASON -->` above a block leaves it out. What documents take as given is in `given`. Addresses,
ports, folders and the topic `events` are replaced. A streaming query that a block starts must process what there is.
Prints `ran FILE:LINE` for each, `left out FILE:LINE`, or `failed FILE:LINE` with the error.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import kafkasource
from kafkasource.kafka import ClientConfig, Cluster

BOOTSTRAP, FOLDER, *DOCUMENTS = sys.argv[1:]
ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^(<!-- not run: [^\n]+ -->\n)?```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
ADDRESS = re.compile(r"\b(localhost|e1|e2|w1):9092\b")
NUMBERS, EVENTS = f"numbers-{os.getpid()}", f"events-{os.getpid()}"  # the broker may be shared
KAFKA = {"kafka.bootstrap.servers": BOOTSTRAP}

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.local.dir", f"{FOLDER}/local")
    .getOrCreate()
)


def given() -> dict[str, object]:
    stream = spark.readStream.format("pykafka").options(**KAFKA, subscribe=NUMBERS, startingOffsets="earliest")
    rows = stream.load().selectExpr(f"'{EVENTS}' AS topic", "value")
    counts = rows.groupBy("topic").count().selectExpr("topic", "CAST(count AS STRING) AS value")
    return {
        "kafkasource": kafkasource,
        "pa": pa,
        "spark": spark,
        "df": spark.range(3),
        "stream": stream,
        "rows": rows,
        "counts": counts.select("topic", "value"),
        "query": rows.writeStream.format("noop").trigger(availableNow=True).start(),
        "served": kafkasource.serve_metrics(spark),
    }


def run(text: str, place: str, variables: dict[str, object]) -> None:
    with Cluster(ClientConfig.of(BOOTSTRAP)) as cluster:
        if "topics.create(" in text:
            cluster.topics.delete([EVENTS])
    folder = f"{FOLDER}/{place.replace('/', '-')}"
    text = ADDRESS.sub(BOOTSTRAP, text).replace('"/checkpoints', f'"{folder}').replace("port=9404", "port=0")
    text = text.replace('"events"', f'"{EVENTS}"')
    exec(compile(text, place, "exec"), variables)
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()


with Cluster(ClientConfig.of(BOOTSTRAP)) as made:
    made.topics.create([NUMBERS, EVENTS, f"east.{EVENTS}"], partitions=1)
numbers = spark.range(3).selectExpr("CAST(id AS STRING) AS value").write.format("pykafka")
numbers.options(**KAFKA, topic=NUMBERS).mode("append").save()

done: set[str] = set()
shared = given()
for name in DOCUMENTS:
    document = (ROOT / name).read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(document))
    variables = {**shared, "kafka": dict(KAFKA)}
    for block in blocks:
        place = f"{name}:{document[: block.start(2)].count(chr(10))}"
        if block[1] or block[2] in done:
            print(f"left out {place}", flush=True)
            continue
        done.add(block[2])
        try:
            run(block[2], place, variables)
            print(f"ran {place}", flush=True)
        except Exception:
            print(f"failed {place}\n{traceback.format_exc()}", flush=True)
