"""Kafka for PySpark without jars: `spark.readStream.format("pykafka")`, `df.writeStream.format("pykafka")`.

Imports nothing heavy: Spark imports this in every Python worker.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkasource.lag import lag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__version__ = "0.1.0"
__all__ = ["__version__", "lag", "register"]

if os.environ.get("KAFKASOURCE_LOG"):
    from kafkasource import logs

    logs.show(os.environ["KAFKASOURCE_LOG"])


def register(spark: SparkSession) -> None:
    """Make the format `pykafka` known to one Spark session.

    Needed where the package is not installed in the Python that Spark starts by itself: with `--py-files`, on Spark
    Connect, in a virtual environment that is not active. Elsewhere it does no harm. Runs on the driver.
    """
    from kafkasource.datasource import KafkaDataSource

    spark.dataSource.register(KafkaDataSource)
