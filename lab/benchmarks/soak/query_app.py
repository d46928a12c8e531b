"""A query of a soak from topic to topic, a Spark application of its own, until SIGTERM.

python -m lab.benchmarks.soak.query_app FOLDER SERVERS SOURCE TARGET SECONDS FORMAT

`FORMAT` is `pykafka`, which writes exactly once, or `kafka`, the JVM connector, which cannot: the control.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from lab.benchmarks.lab import prepare_environment, spark_conf, start_with_ours
from lab.campaign.ending import end_with_starter
from lab.jvm_connector import jvm_connector_jars

OF_THE_SINK = {"pykafka": {"deliveryGuarantee": "exactly_once"}, "kafka": {}}


def main(folder: str, servers: str, source: str, target: str, seconds: str, format_name: str) -> None:
    end_with_starter()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    prepare_environment()
    jars = {"spark.jars": ",".join(map(str, jvm_connector_jars()))} if format_name == "kafka" else {}
    spark = start_with_ours(Path(folder), "local[2]", {**spark_conf(), **jars})
    broker = {"kafka.bootstrap.servers": servers}
    rows = spark.readStream.format(format_name).options(subscribe=source, startingOffsets="earliest", **broker).load()
    query = (
        rows.select("key", "value")
        .writeStream.format(format_name)
        .options(topic=target, **OF_THE_SINK[format_name], **broker)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(processingTime=f"{seconds} seconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
