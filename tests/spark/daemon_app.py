"""Starts two workers by our daemon and prints what each has: python daemon_app.py FOLDER"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

from kafkasource.spark.launcher import start_spark

FOLDER = sys.argv[1]


def seen(_: Iterator[int]) -> Iterator[dict[str, Any]]:
    from kafkasource.spark.daemon import MODULES

    missing = [name for name in MODULES if name not in sys.modules]  # before this task imports anything
    BarrierTaskContext.get().barrier()  # so that neither worker is free for the other's task

    import logging
    import random

    import numpy as np

    yield {
        "pid": os.getpid(),
        "missing": missing,
        "random": [random.random(), np.random.random()],
        "level": logging.getLogger("kafkasource").level,
    }


spark = SparkSession(start_spark("test", "local[2]", FOLDER, {"spark.local.dir": FOLDER}))
rows = spark.range(10).selectExpr("id", "CAST(id AS STRING) AS text").toPandas()  # as pandas UDFs do
workers = spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(seen).collect()
release = spark.version
spark.stop()
print(json.dumps({"release": release, "rows": len(rows), "workers": workers}))
