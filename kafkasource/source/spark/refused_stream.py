"""A stream reader that takes the place of one that cannot be made: its first method raises the error.

pyspark's process that plans a stream stops its reader at the end, also where it has none. An error of `streamReader`
itself then ends as `UnboundLocalError`, and the user finds ours only in the traceback before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kafkasource.errors import KafkaSourceError
from kafkasource.spark.releases import SupportsTriggerAvailableNow
from kafkasource.spark.tracebacks import without_tracebacks


@without_tracebacks("prepareForTriggerAvailableNow", "initialOffset", "latestOffset", "partitions", "read")
class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark calls one of these methods first: which one depends on its release, its trigger and the checkpoint.

    Without SupportsTriggerAvailableNow, Spark first warns that the source does not support Trigger.AvailableNow.
    """

    def __init__(self, error: KafkaSourceError) -> None:
        self._error = error

    def prepareForTriggerAvailableNow(self) -> NoReturn:
        raise self._error

    def initialOffset(self) -> NoReturn:
        raise self._error

    def latestOffset(self, *_: object) -> NoReturn:
        raise self._error

    def partitions(self, start: object, end: object) -> Sequence[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        raise self._error
