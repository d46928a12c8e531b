"""The folder of Spark's temporary files on the driver's host, as Spark gives it to its Python processes.

Such a process answers: planning a read starts one, and the schema of the data source below is its answer. We do not
ask Spark's JVM, because Py4J then looks at all methods of the class, and those of SparkEnv 4.3 name a class that does
not exist, which ends the connection. This way also works over Connect.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("kafkasource.metrics")


class LocalDir(DataSource):
    """A data source without rows: the name of its column is the folder."""

    @classmethod
    def name(cls) -> str:
        return "kafkasource_local_dir"

    def schema(self) -> StructType:
        folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        return StructType([StructField(folder or "unknown", StringType())])


def local_dir(spark: SparkSession) -> Path | None:
    """None where it is not known, or on another host (Connect)."""
    try:
        spark.dataSource.register(LocalDir)
        folder = Path(spark.read.format(LocalDir.name()).load().schema.names[0])
    except Exception as error:
        log.warning("cannot show the metrics of tasks: Spark does not report its local folder (%s)", error)
        return None
    return folder if folder.is_absolute() and folder.is_dir() else None
