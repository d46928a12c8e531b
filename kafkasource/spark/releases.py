"""Pyspark's data source classes for every release, with stand-ins for classes that a release lacks.

No other module knows releases: the others import these classes from here, and ask the two constants. A constant says
whether this pyspark has a feature, not which release it is: vendors bring features of later releases to older ones.

    Spark                          4.0     4.1     from 4.2
    TELLS_START_AND_LIMIT          no      no      yes       latestOffset(start, limit); tells of Trigger.AvailableNow
    HAS_FILTERS                    no      yes     yes       pushFilters
    DataSourceStreamArrowWriter    no      yes     yes
    arrow_type                     has UTC         asks for a time zone
    CHECKPOINT_FILE_MANAGER        streaming       streaming.checkpointing
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING

from pyspark import __version__ as SPARK_VERSION
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType

__all__ = [
    "CHECKPOINT_FILE_MANAGER",
    "HAS_FILTERS",
    "SPARK_VERSION",
    "TELLS_START_AND_LIMIT",
    "DataSourceStreamArrowWriter",
    "EqualNullSafe",
    "EqualTo",
    "Filter",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "LessThan",
    "LessThanOrEqual",
    "Not",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "arrow_type",
]

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    TELLS_START_AND_LIMIT = True
except ImportError:
    TELLS_START_AND_LIMIT = False

    class ReadLimit:  # type: ignore[no-redef]
        """Stands in for pyspark's: the connector makes and reads these objects, Spark never sees them."""

    @dataclass
    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        pass

    @dataclass
    class ReadMinRows(ReadLimit):  # type: ignore[no-redef]
        min_rows: int

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        max_rows: int

    @dataclass
    class ReadMaxBytes(ReadLimit):  # type: ignore[no-redef]
        max_bytes: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands in for pyspark's. Spark does not ask for it and never calls its method."""


if hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):  # type: ignore[no-redef]
        """Spark 4.0 gives Arrow batches to each writer that is a DataSourceArrowWriter, also to that of a stream."""


if hasattr(datasource, "EqualNullSafe"):
    from pyspark.sql.datasource import (
        EqualNullSafe,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        LessThan,
        LessThanOrEqual,
        Not,
    )

    HAS_FILTERS = True
else:  # the module that uses filters is not imported then
    HAS_FILTERS = False

# A class of Spark's, by its name: 4.1, which brought filters, has moved it.
CHECKPOINT_FILE_MANAGER = (
    f"org.apache.spark.sql.execution.streaming{'.checkpointing' if HAS_FILTERS else ''}"
    ".FileSystemBasedCheckpointFileManager"
)


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type in which Spark hands over a column; the zone of a timestamp is only a name there. Raises
    PySparkException or TypeError for a type that has none."""
    from pyspark.sql.pandas.types import to_arrow_type  # imports pandas, where that is installed

    if _has_variant(kind):  # Arrow has Spark's own binary form of it, which nobody else reads
        raise TypeError("a variant within it has no Arrow type: make it a string with to_json, or cast it")
    if "timezone" in signature(to_arrow_type).parameters:
        return to_arrow_type(kind, timezone="UTC")
    return to_arrow_type(kind)


def _has_variant(kind: DataType) -> bool:
    parts = [each.dataType for each in getattr(kind, "fields", ())]
    parts += [getattr(kind, name) for name in ("elementType", "keyType", "valueType") if hasattr(kind, name)]
    return bool(kind.typeName() == "variant") or any(map(_has_variant, parts))
