"""The jars of Spark's JVM connector, `format("kafka")`: a peer in tests and benchmarks.

Its POM wants a token provider of its own version, which cannot be resolved for 4.2.0; 4.0.0 works with it. lz4, snappy
and zstd are left out because pyspark has them.
"""

from __future__ import annotations

from pathlib import Path

from kafkasource.testing.broker import cache_dir, resolve_jars

BESIDE_IT = (
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0!",
    "org.apache.kafka:kafka-clients:3.9.2!",
    "org.apache.commons:commons-pool2:2.12.1!",
)


def jvm_connector_jars(version: str = "4.2.0") -> list[Path]:
    """The jars that `spark.jars` needs for the JVM connector."""
    connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}!"
    return resolve_jars(connector, *BESIDE_IT, dest=cache_dir() / f"spark-sql-kafka-{version}")
