"""Writes Arrow rows to topics from this process, without Spark, with the sink's own producer.

    with Writer({"kafka.bootstrap.servers": "localhost:9092", "topic": "events"}) as writer:
        writer.write(pa.table({"key": ["a", "b"], "value": ["1", "2"]}))
    print(writer.written)                         # {TopicPartition('events', 0): Written(records=2, ...)}

Options are those of `df.write.format("pykafka")`, in one table with them (`options`). Columns, by name: value (string
or binary); key, topic, partition (int), headers (list of key and value) and timestamp are optional. Rows of a partition
keep their order; with the default `acks=all` and idempotence each is stored once, unless this process ends and another
one writes it again. Only Spark can write exactly once over restarts (`deliveryGuarantee`), so this class refuses that
option.

With valueFormat or keyFormat the columns value and key have any type, and are encoded by a schema
(docs/typed-writing.md). The registry is asked at the first `write` of such columns.

Rows of `kafkasource.reader` with badRecords=column have the column `badRecord`. Where it is not null, the row is an
error, or with badRecords=topic:NAME a dead letter of that topic (docs/dead-letters.md), with the guarantee of the
other rows. So is a record that a broker refuses for what is in it, or that is larger than a request may be, and a row
that the writer's schema does not take, as JSON.

One thread at a time may call `write`. A thread of the writer sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

from kafkasource import options as option_table
from kafkasource.errors import OptionError
from kafkasource.kafka.producer.config import ProducerConfig
from kafkasource.kafka.producer.delivery import DeadLetterTopic, Delivery
from kafkasource.kafka.producer.producer import Producer
from kafkasource.sink.columns import checked_rows
from kafkasource.sink.dead_letters import require_topic
from kafkasource.sink.new_topic import create_missing
from kafkasource.sink.partitioner import partitioner_of
from kafkasource.sink.schema import InvalidSchema, SinkSchema, check_dead_letters, dead_letter_topic_of
from kafkasource.types import BAD_RECORD_COLUMN, TopicPartition, Written

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.formats.framing import Side
    from kafkasource.formats.writing.formats import WriteFormat
    from kafkasource.formats.writing.resolve import WantedFormats
    from kafkasource.kafka.config import ClientConfig

_COLUMNS = ("topic", "key", "value", "headers", "partition", "timestamp")


class Writer:
    """See the module. Connects at once, on its own thread. Creates no topic before the first row."""

    def __init__(
        self, options: Mapping[str, str] | option_table.Options, *, client: ClientConfig | None = None
    ) -> None:
        """`client` replaces that of the options. Raises OptionError."""
        parsed = options if isinstance(options, option_table.Options) else option_table.parse(options, "sink")
        if parsed["deliveryGuarantee"] == "exactly_once":
            raise OptionError(
                "option 'deliveryGuarantee'=exactly_once needs Spark's checkpoint, and a Writer has none: leave it out"
            )
        if parsed["commitListener"] is not None:
            raise OptionError(
                "option 'commitListener' works only with Spark's commits: leave it out, and use what `flush` returns"
            )
        self._shown = repr(parsed)
        config = ProducerConfig.from_options(parsed)
        if client is not None:
            config = replace(config, client=client)
        self._cluster_name = config.cluster_name  # in metrics
        self._topic: str | None = parsed["topic"]
        self._dead_letter_topic = dead_letter_topic_of(parsed)
        self._wanted = _wanted_formats(parsed)
        self._formats: dict[tuple[tuple[Side, pa.DataType], ...], tuple[WriteFormat, ...]] = {}  # by the columns' types
        self._create = config.client, self._topic, parsed["createTopic"]
        self._max_block_ms = config.max_block_ms
        self._trusted_ms = 0  # the first write looks whether the topics are there
        self._partitioner = partitioner_of(parsed["partitioner"], config.batch_bytes)
        self._dead_letters: DeadLetterTopic | None = None  # known from the first write on
        self._cluster_id: str | None = None
        self._producer = Producer(config)
        self._delivering: AbstractContextManager[Delivery] | None = None
        self._delivery: Delivery | None = None
        self._written: dict[TopicPartition, Written] = {}

    @property
    def written(self) -> dict[TopicPartition, Written]:
        """The acknowledged records among those that were flushed, by partition."""
        return dict(self._written)

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Hand rows over. Returns when they are in the producer's memory, and waits while that is full. The writer
        sends full record batches at once, others within `kafka.linger.ms`.

        Raises InvalidSchema and InvalidRow for rows that cannot be written, and the error that made earlier rows fail.
        """
        schema = self._schema(rows)
        if self._delivery is None:
            create_missing(*self._create, trusted_ms=self._trusted_ms)
            if self._dead_letter_topic is not None:
                from kafkasource.formats.dead_letters.makers import topic_for_records

                topic = self._dead_letter_topic
                self._cluster_id = require_topic(self._create[0], topic, trusted_ms=self._trusted_ms)
                self._dead_letters = topic_for_records(topic, self._partitioner, self._cluster_id)
            self._trusted_ms = self._max_block_ms
            self._delivering = self._producer.delivery(delivery=Delivery(dead_letters=self._dead_letters))
            self._delivery = self._delivering.__enter__()
        schema = replace(schema, cluster_id=self._cluster_id)
        for batch in [rows] if not hasattr(rows, "to_batches") else rows.to_batches():
            for part in checked_rows(schema, batch):
                self._producer.append(part, self._partitioner, self._delivery)

    def _schema(self, rows: pa.RecordBatch | pa.Table) -> SinkSchema:
        names = rows.schema.names
        if "value" not in names:
            raise InvalidSchema("Required attribute 'value' not found")
        if self._topic is None and "topic" not in names:
            raise InvalidSchema("no topic: set the option 'topic', or add a column `topic`")
        columns: tuple[str, ...] = _COLUMNS
        if self._dead_letter_topic is not None:
            check_dead_letters(names)
        if BAD_RECORD_COLUMN in names and _is_of_bad_records(rows.schema.field(BAD_RECORD_COLUMN).type):
            columns = (*_COLUMNS, "offset", BAD_RECORD_COLUMN)
        elif BAD_RECORD_COLUMN in names and self._dead_letter_topic is not None:
            raise InvalidSchema(f"column {BAD_RECORD_COLUMN!r} is not what a read with badRecords=column gives")
        positions = {name: names.index(name) for name in columns if name in names}
        return SinkSchema(
            self._topic, positions, self._dead_letter_topic, self._formats_of(rows.schema), (self._cluster_name,)
        )

    def _formats_of(self, schema: pa.Schema) -> tuple[WriteFormat, ...]:
        """May ask the schema registry, once for columns of the same types."""
        if self._wanted is None:
            return ()
        from kafkasource.formats.encoding.input import is_text

        for side in self._wanted.text:
            if side in schema.names and not is_text(schema.field(side).type):
                raise InvalidSchema(f"column {side!r} is {schema.field(side).type}; {side}Format=string writes texts")
        types = {side: schema.field(side).type for side in self._wanted.typed if side in schema.names}
        key = tuple(types.items())
        if key not in self._formats:
            self._formats[key] = self._wanted.resolved(types, option_table.log_warning)
        return self._formats[key]

    def flush(self) -> dict[TopicPartition, Written]:
        """Wait until all rows are acknowledged. Returns the records that were written since the last flush.

        Raises the error that made a row fail. Rows behind it may or may not be stored.
        """
        delivering, delivery = self._delivering, self._delivery
        self._delivering = self._delivery = None
        if delivering is None or delivery is None:
            return {}
        try:
            delivering.__exit__(None, None, None)  # waits
        finally:
            for tp, one in delivery.written.items():
                self._written[tp] = self._written[tp].merged(one) if tp in self._written else one
        return dict(delivery.written)

    def close(self) -> None:
        """Give up rows that are not acknowledged, and end. Idempotent. The end of a `with` block flushes before."""
        delivering, self._delivering, self._delivery = self._delivering, None, None
        if delivering is not None:
            with suppress(_GivenUp):
                delivering.__exit__(_GivenUp, _GivenUp(), None)
        self._producer.close()

    def __repr__(self) -> str:
        return f"Writer({self._shown})"

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()


def _wanted_formats(parsed: option_table.Options) -> WantedFormats | None:
    """None where keys and values are written as they are."""
    if parsed["valueFormat"] == parsed["keyFormat"] == "binary":
        return None
    from kafkasource.formats.writing.resolve import WantedFormats

    return WantedFormats.of(parsed, parsed["topic"])


def _is_of_bad_records(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    names = ["reason", "schemaId", "key", "value", "clusterId"]
    return types.is_struct(kind) and [each.name for each in kind] == names


class _GivenUp(Exception):
    """Ends a delivery that the writer gives up."""
