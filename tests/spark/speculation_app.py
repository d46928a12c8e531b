"""A Spark whose own configuration turns speculation on writes exactly once, as a batch and as a stream.

    python speculation_app.py BOOTSTRAP SOURCE TARGET FOLDER

Prints one line of JSON: what each of the two died of, null where it was written.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from kafkasource import register


def death(write) -> str | None:
    try:
        write()
    except Exception as error:
        return str(error)[:20_000]
    return None


def main(bootstrap: str, source: str, target: str, folder: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.speculation", "true")
        .config("spark.ui.enabled", "false")
        .config("spark.local.dir", f"{folder}/local")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    register(spark)
    options = {"kafka.bootstrap.servers": bootstrap, "topic": target, "deliveryGuarantee": "exactly_once"}

    def batch() -> None:
        rows = spark.range(3).selectExpr("'v' AS value")
        rows.write.format("pykafka").options(**options, transactionalIdPrefix=target).mode("append").save()

    def stream() -> None:
        rows = spark.readStream.format("pykafka").option("kafka.bootstrap.servers", bootstrap)
        rows = rows.option("subscribe", source).option("startingOffsets", "earliest").load().select("value")
        query = rows.writeStream.format("pykafka").options(**options, checkpointLocation=f"{folder}/checkpoint")
        query.trigger(availableNow=True).start().awaitTermination(120)

    print(json.dumps({"batch": death(batch), "stream": death(stream)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
