"""Spark imports every top-level module `pyspark_*` and registers its `DefaultSource`: no register call is needed.

One failing import would hide all other sources from Spark, so this one never raises; the reason goes to stderr.

Spark looks in the Python that PATH or PYSPARK_PYTHON names, which may see this package (by PYTHONPATH) and have none of
what it needs. Spark 4.0 and 4.1 keep the Python of a source that they have found, and refuse the one that
`kafkasource.register` names. So a Python that cannot run the source must not offer it.
"""

import importlib.util
import sys

try:
    if importlib.util.find_spec("pyarrow") is None:  # a look costs nothing; Spark's lookup need not import it
        raise ModuleNotFoundError(f"{sys.executable} has no pyarrow (kafkasource.register(spark) names another Python)")
    from kafkasource.datasource import KafkaDataSource as DefaultSource  # noqa: F401
except Exception as error:
    print(f"pyspark_pykafka: format 'pykafka' is not available: {error}", file=sys.stderr)
