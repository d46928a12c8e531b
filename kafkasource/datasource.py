"""The class that Spark sees. It hands out the four roles: thin, picklable, without Kafka logic or heavy imports.

Spark makes an instance in a Python process of its own for every planning step. The instance checks its options each
time, on the driver, before it contacts a broker.
"""

from __future__ import annotations

import sys
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from kafkasource import options
from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.kafka.process import PerProcess, Recent
from kafkasource.kafka.security import shipped_files
from kafkasource.options import canonical
from kafkasource.spark.tracebacks import without_tracebacks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from kafkasource.formats.reading.formats import RowFormats
    from kafkasource.sink.writer import BatchWriter, StreamWriter
    from kafkasource.source.spark.batch import BatchReader
    from kafkasource.source.spark.refused_stream import RefusedStream
    from kafkasource.source.spark.stream import StreamReader


@without_tracebacks("schema", "reader", "writer", "streamReader", "streamWriter")
class KafkaDataSource(DataSource):
    """`format("pykafka")`."""

    # `register` sets these in a subclass.
    secrets_are_hidden = False  # whether Spark Connect hides options with secrets, as far as it could see
    registered_name = "pykafka"
    registered_options: Mapping[str, str] = MappingProxyType({})  # those that a statement does not give itself

    def __init__(self, options: dict[str, str]) -> None:
        given = {canonical(key).lower() for key in options}
        mine = {key: text for key, text in self.registered_options.items() if canonical(key).lower() not in given}
        super().__init__(mine | options)
        self._registered_keys = frozenset(key.lower() for key in mine)  # Spark's dict of options has them so
        self._shipped_files = shipped_files.folder_of_spark()  # pickled to the process that plans a stream

    @classmethod
    def name(cls) -> str:
        return cls.registered_name

    def schema(self) -> StructType:
        from kafkasource.source.spark.formats import row_formats
        from kafkasource.source.spark.schema import schema_of

        self._warn_of_secrets()
        parsed = options.parse(self._options_for("source"), "source")
        return schema_of(parsed, row_formats(parsed))

    # Spark calls these four with keywords: the parameter names are part of the interface.

    def reader(self, schema: StructType) -> BatchReader:
        from kafkasource.source.spark.batch import BatchReader

        parsed, formats = self._source_options(schema, warn=True)
        if parsed["pushDownPredicate"]:
            from kafkasource.spark import releases

            if not releases.HAS_FILTERS:
                raise OptionError(
                    f"option 'pushDownPredicate': Spark {releases.SPARK_VERSION} gives no filters to a Python data"
                    " source. Leave the option out, or use Spark 4.1 or newer"
                )
            from kafkasource.source.spark.pushdown import FilteringBatchReader

            return FilteringBatchReader(parsed, formats)
        return BatchReader(parsed, formats)

    def streamReader(self, schema: StructType) -> StreamReader | RefusedStream:
        from kafkasource.source.spark.refused_stream import RefusedStream

        try:
            return self._stream_reader(schema)
        except KafkaSourceError as error:
            if not _runs("python_streaming_source_runner"):
                raise
            return RefusedStream(error)

    def _stream_reader(self, schema: StructType) -> StreamReader:
        from kafkasource.source.spark.stream import StreamReader
        from kafkasource.source.spark.unaided_stream import UnaidedStreamReader
        from kafkasource.spark import releases

        shipped_files.remember_folder(self._shipped_files)
        first = not _runs("plan_data_source_read")  # Spark asks there once more
        parsed, formats = self._source_options(schema, warn=first)
        if parsed["pushDownPredicate"] and first:
            options.log_warning("option 'pushDownPredicate' has no effect on a stream")
        reader = StreamReader if releases.TELLS_START_AND_LIMIT else UnaidedStreamReader
        return reader(parsed, formats=formats)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from kafkasource.mirror.offset_map import OffsetMapTopic
        from kafkasource.sink.clusters import targets
        from kafkasource.sink.writer import BatchWriter

        if overwrite:
            raise OptionError('Save mode Overwrite not allowed for Kafka. Allowed save mode is append: mode("append")')
        self._warn_of_secrets()
        return BatchWriter(targets.parse(self._options_for("sink")), schema, OffsetMapTopic)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        # overwrite is Spark's word for output mode complete: each result is appended whole, as the JVM connector does.
        from kafkasource.mirror.offset_map import OffsetMapTopic
        from kafkasource.sink.clusters import targets
        from kafkasource.sink.writer import StreamWriter

        self._warn_of_secrets()
        warn = options.log_warning if _is_new_stream(self.options) else options.no_warning
        parsed = targets.parse(self._options_for("sink"), warn=warn)
        return StreamWriter(parsed, schema, OffsetMapTopic)

    def _options_for(self, role: options.Role) -> dict[str, str]:
        """The options, without those that `register` got for the other role: one format is read and written."""
        others = self._registered_keys
        return {
            key: text
            for key, text in self.options.items()
            if key.lower() not in others or not options.is_others(key, role)
        }

    def _warn_of_secrets(self) -> None:
        if not self.secrets_are_hidden:
            options.warn_of_secrets_as_text(self.options)

    def _source_options(self, schema: StructType, *, warn: bool) -> tuple[options.Options, RowFormats | None]:
        """The options for rows of this schema. `warn`: where `.schema()` has spared Spark the call of `schema`, which
        else warns in a process of its own."""
        from kafkasource.source.spark.formats import row_formats
        from kafkasource.source.spark.schema import with_columns_of

        written = self._options_for("source")
        parsed = options.parse(written, "source", warn=options.no_warning)
        formats = row_formats(parsed, schema)
        chosen = with_columns_of(schema, parsed, formats)
        if warn and chosen["columns"] != parsed["columns"]:
            self._warn_of_secrets()
            options.parse(written, "source")
        return chosen, formats and formats.with_columns(chosen["columns"])


def _runs(module: str) -> bool:
    """Whether Spark started this process to run the module."""
    return any(argument.endswith(module) for argument in sys.orig_argv)


_streams_seen: PerProcess[Recent[int, bool]] = PerProcess(lambda: Recent(1_000))  # hashes, as options hold secrets


def _is_new_stream(written: Mapping[str, str]) -> bool:
    """Whether this is the first plan of a streaming write: Spark asks for a writer twice in each micro-batch.

    It asks in two processes, which it keeps: one plans the tasks, the other commits.
    """
    if _runs("python_streaming_sink_runner"):
        return False  # the process that commits
    key = hash(frozenset(written.items()))
    return _streams_seen.get().put(key, True) is None


def of_session(
    spark: SparkSession, name: str | None = None, written: Mapping[str, object] | None = None
) -> type[KafkaDataSource]:
    """The class to register with a session, under a name with these options. It knows whether the session's server
    hides secrets. For the driver. Raises OptionError."""
    attributes: dict[str, object] = {}
    if options.hides_secrets(spark.conf.get(options.REDACTION, None)):
        attributes["secrets_are_hidden"] = True
    if name is not None or written is not None:
        own_name, texts = options.registered(name, written)
        attributes |= {"registered_name": own_name, "registered_options": texts}
    # A class that is not a name in a module: Spark then ships it by value, with the attributes.
    return type("KafkaDataSource", (KafkaDataSource,), attributes) if attributes else KafkaDataSource
