"""Spark imports every top-level module `pyspark_*` and registers its `DefaultSource`: no register call is needed.

One failing import would hide all other sources from Spark, so this one never raises; the reason goes to stderr.
"""

try:
    from kafkasource.datasource import KafkaDataSource as DefaultSource  # noqa: F401
except Exception as error:
    import sys

    print(f"pyspark_pykafka: format 'pykafka' is not available: {error}", file=sys.stderr)
