"""Fills the topic, then makes mistakes that new users make, each after a line on stderr that names it.

python mistakes_app.py BOOTSTRAP TOPIC TARGET FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

import kafkasource

BOOTSTRAP, TOPIC, TARGET, FOLDER = sys.argv[1:]
SERVERS = {"kafka.bootstrap.servers": BOOTSTRAP}

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.local.dir", f"{FOLDER}/local")
    .getOrCreate()
)
kafkasource.register(spark)


def batch(**more: str) -> DataFrame:
    return spark.read.format("pykafka").options(**SERVERS, **{"subscribe": TOPIC, **more}).load()


def stream(**more: str) -> DataFrame:
    given = {**SERVERS, "subscribe": TOPIC, "startingOffsets": "earliest", **more}
    return spark.readStream.format("pykafka").options(**given).load()


def run(rows: DataFrame, name: str, sink: str = "noop", **more: str) -> None:
    writer = rows.writeStream.format(sink).options(**more).option("checkpointLocation", f"{FOLDER}/{name}")
    writer.trigger(availableNow=True).start().awaitTermination()


def batch_option() -> None:
    rows = batch(minPartition="1")
    print(rows.count() + rows.count())


def stream_option() -> None:
    unused = {"kafka.ssl.truststore.type": "PEM"}  # without TLS
    limited = {
        "maxOffsetsPerTriger": "1",
        "maxOffsetsPerTrigger": "1",
        "trigger": "availableNow",
    }  # 4.0 wants the trigger
    rows = stream(groupIdPrefix="g", pushDownPredicate="true", **limited, **unused).select("value")
    written = {"topic": TARGET, "createTopic": "partitions=1", "kafka.lingr": "1", **unused}
    run(rows, "option", "pykafka", **SERVERS, **written)


MISTAKES: dict[str, Callable[[], None]] = {
    "an option of a batch": batch_option,
    "options of a stream": stream_option,
    "an option that fails": lambda: print(batch(minPartition="1", unknownOptions="fail").count()),
    "an option that fails a stream": lambda: run(
        stream().select("value"), "fail", "pykafka", topic=TARGET, **SERVERS, lingr="1", unknownOptions="fail"
    ),
    "the topic of a stream": lambda: run(stream(subscribe=TOPIC[:-1]), "topic"),
}

spark.range(3).selectExpr("CAST(id AS STRING) AS value").write.format("pykafka").options(
    **SERVERS, topic=TOPIC, createTopic="partitions=1"
).mode("append").save()
for name, mistake in MISTAKES.items():
    print(f"-- {name}", file=sys.stderr, flush=True)
    try:
        mistake()
    except Exception as error:
        print(f"raised {error}", file=sys.stderr, flush=True)
