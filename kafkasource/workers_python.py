"""The Python processes that Spark starts for a session: which interpreter they run, and what they find.

`kafkasource.register` and `kafkasource.serve_metrics` call this on the driver.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def prepare(spark: SparkSession) -> None:
    """Does nothing over Spark Connect, whose server starts them. Raises KafkaSourceError for an interpreter that the
    driver does not have."""
    context = context_of(spark)
    if context is None:
        return
    _refuse_a_python_that_is_not_here(context.pythonExec)
    _use_this_python(context)
    _show_this_zip_to_streams(context)


def context_of(spark: SparkSession) -> SparkContext | None:
    """None over Spark Connect."""
    return getattr(spark, "_sc", None)


def _refuse_a_python_that_is_not_here(python: str) -> None:
    """With `--archives` the workers' Python is a path in the archive. Spark plans on the driver with the same path."""
    if os.sep in python and not os.path.isabs(python) and not os.path.exists(python):
        folder = python.removeprefix("./").partition(os.sep)[0]
        raise KafkaSourceError(
            f"PYSPARK_PYTHON={python}: there is no such file in {os.getcwd()}, and Spark plans each read and write on "
            f"the driver with it. Let each find its own by name: PYSPARK_PYTHON={os.path.basename(python)}, with the "
            f"environment's bin in the driver's PATH, and --conf {path_of_archive(folder)}"
        )


def path_of_archive(folder: str) -> str:
    """A setting of Spark's: an executor finds the Python of an archive that is unpacked as `folder` by its name.

    Spark uses one name for the Python of a data source, on the driver to plan and on executors to read and write.
    """
    return f"spark.executorEnv.PATH=./{folder}/bin:/usr/local/bin:/usr/bin:/bin"


def _use_this_python(context: SparkContext) -> None:
    """Let the Python functions of a local session run in this interpreter, if nothing names one.

    PYSPARK_DRIVER_PYTHON does not: it names the driver's Python, and that of formats that Spark finds by their names.
    """
    if os.environ.get("PYSPARK_PYTHON"):
        return
    if context.master.split("[")[0] == "local" and context.pythonExec == "python3":
        context.pythonExec = sys.executable


def _show_this_zip_to_streams(context: SparkContext) -> None:
    """Spark's process that plans a stream sees no `--py-files`, unless the path is in its environment."""
    folder = os.path.dirname(os.path.dirname(__file__))
    if os.path.isfile(folder):  # a zip
        known = context.environment.get("PYTHONPATH", "")
        if folder not in known.split(os.pathsep):
            context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [known, folder]))
