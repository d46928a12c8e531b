"""The exactly-once query of a soak, a Spark application of its own, until SIGTERM.

python -m benchmarks.soak.once_app FOLDER SERVERS SOURCE TARGET SECONDS
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from benchmarks.lab import prepare_environment, spark_conf, start_with_ours
from campaign.ending import end_with_starter


def main(folder: str, servers: str, source: str, target: str, seconds: str) -> None:
    end_with_starter()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    prepare_environment()
    spark = start_with_ours(Path(folder), "local[2]", spark_conf())
    broker = {"kafka.bootstrap.servers": servers}
    rows = spark.readStream.format("pykafka").options(subscribe=source, startingOffsets="earliest", **broker).load()
    query = (
        rows.select("key", "value")
        .writeStream.format("pykafka")
        .queryName("once")
        .options(topic=target, deliveryGuarantee="exactly_once", **broker)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(processingTime=f"{seconds} seconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
