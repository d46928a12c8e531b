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
NOBODY = {  # a port that nothing listens at; the time that the client tries for is a minute
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.default.api.timeout.ms": "2000",
}
NOBODY_TO_WRITE_TO = {**NOBODY, "kafka.max.block.ms": "2000"}

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.local.dir", f"{FOLDER}/local")
    .getOrCreate()
)
print("-- metrics before the format is registered", file=sys.stderr, flush=True)
served = kafkasource.serve_metrics(spark)
assert served.folder is not None
kafkasource.register(spark)


def batch(**more: str) -> DataFrame:
    return spark.read.format("pykafka").options(**{**SERVERS, "subscribe": TOPIC, **more}).load()


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


def write_batch(**more: str) -> None:
    rows = spark.range(0, 3, 1, 1).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("pykafka").options(topic=TOPIC, **more).mode("append").save()


MISTAKES: dict[str, Callable[[], None]] = {
    "an option of a batch": batch_option,
    "options of a stream": stream_option,
    "an option that fails": lambda: print(batch(minPartition="1", unknownOptions="fail").count()),
    "an option that fails a stream": lambda: run(
        stream().select("value"), "fail", "pykafka", topic=TARGET, **SERVERS, lingr="1", unknownOptions="fail"
    ),
    "an option that only a stream's reader looks at": lambda: run(stream(startingOffsets="erliest"), "option-value"),
    "no broker for a batch": lambda: print(batch(**NOBODY, **{"fetchOffset.numRetries": "1"}).count()),
    "no broker for a stream": lambda: run(stream(**NOBODY, **{"fetchOffset.numRetries": "1"}), "nobody"),
    "no broker for a batch that is written": lambda: write_batch(**NOBODY_TO_WRITE_TO),
    "no broker for a stream that is written": lambda: run(
        stream().select("value"), "unwritten", "pykafka", topic=TARGET, **NOBODY_TO_WRITE_TO
    ),
    "the topic of a stream": lambda: run(stream(subscribe=TOPIC[:-1]), "topic"),
}

write_batch(**SERVERS, createTopic="partitions=1")
for name, mistake in MISTAKES.items():
    print(f"-- {name}", file=sys.stderr, flush=True)
    try:
        mistake()
    except Exception as error:
        print(f"raised {error}", file=sys.stderr, flush=True)

print("-- the end of a process that stops neither the metrics nor Spark", file=sys.stderr, flush=True)
stream().writeStream.format("noop").option("checkpointLocation", f"{FOLDER}/end").start().stop()
