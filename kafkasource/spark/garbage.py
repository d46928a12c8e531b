"""Spares the Python workers that Spark keeps between tasks a long garbage collection.

After each task PySpark's daemon runs a full `gc.collect()` in the worker before it can take another task. That walks
everything ever imported (pyspark, pyarrow, pandas: 50,000-150,000 objects) and finds next to nothing: 15-110 ms after a
task of 5 ms, while the next task waits for the process or for its core. `gc.freeze` hides what is alive from
the collector; reference counts still free it, and garbage made later is still found
(decision 11).
"""

from __future__ import annotations

import gc
import sys

_frozen_at = 0  # number of modules


def spare_imports_from_gc() -> None:
    """A task calls this at its start, after its imports: modules are alive then, and little else.

    It does nothing outside of PySpark's daemon, nor twice for the same imports.
    """
    global _frozen_at
    if len(sys.modules) != _frozen_at and _is_spark_worker():
        gc.freeze()
        _frozen_at = len(sys.modules)


def _is_spark_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == "pyspark.daemon"
