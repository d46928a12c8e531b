"""Runs PySpark's daemon with the modules of our tasks already in it: its workers, which are forks, share them.

Spark starts it instead of `pyspark.daemon` where `spark.python.daemon.module` is `kafkasource.spark.daemon`. That needs
kafkasource in the Python of Spark's workers: Spark starts the daemon before it adds `--py-files`. Decision 165 has what
it saves.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import sys
from contextlib import suppress

from kafkasource.spark import logs

# Spark's serializers import the first two in each worker of a Python data source: to write, pandas too.
MODULES = (
    "pyspark.worker",
    "pyarrow.compute",
    "pandas",
    "kafkasource.kafka.fetch.fetcher",
    "kafkasource.source.spark.input_partition",
    "kafkasource.sink.task",
)


def main() -> None:
    if sys.argv[1:2] == ["pyspark.worker"]:  # the daemons of planning and commits fork once, and need less
        _share_modules()
    logs.show()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)


def _share_modules() -> None:
    for name in MODULES:
        with suppress(ImportError):  # the worker that needs it says so
            importlib.import_module(name)
    if numpy := sys.modules.get("numpy"):
        # Workers would draw the same numbers: numpy seeds its global generator when it is imported.
        os.register_at_fork(after_in_child=numpy.random.seed)
    gc.collect()
    gc.freeze()  # else the collector of a worker writes to the pages that all share


if __name__ == "__main__":
    main()
