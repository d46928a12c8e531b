"""Spark's JVM connector, `format("kafka")`, as a peer: the release of it that the installed pyspark runs."""

from __future__ import annotations

from pathlib import Path

NO_RELEASE = "the JVM connector has no release for this Spark"

# By the release of Spark. The newest of each line that Maven Central serves here.
RELEASES = {"4.0": "4.0.4", "4.1": "4.1.1", "4.2": "4.2.0", "4.3": "4.2.0"}


def release() -> str | None:
    """None: there is none."""
    import pyspark

    return RELEASES.get(".".join(pyspark.__version__.split(".")[:2]))


def jars() -> list[Path]:
    from lab.jvm_connector import jvm_connector_jars

    version = release()
    return jvm_connector_jars(version) if version else []
