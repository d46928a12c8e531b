"""Write each line of stdin as a record of a topic, as it arrives. Each is stored once, in order for each key.

As text, a line is a value; with --key-separator, the text before the separator is the key. As JSON, a line is an object
as `pykafka read --format json` prints it: value (a text, or anything else, which is written as JSON), key, headers,
partition, timestamp, and value_base64, key_base64 for bytes. Its topic and offset are ignored. Lines of `kcat -J` are
taken, too: payload is the value, ts the timestamp; topic, offset and broker are ignored.

With --value-format a value is JSON as `pykafka read --value-format` prints it, and is encoded by the topic's schema.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.options import BY_NAME
from kafkasource.options.spelling import many
from kafkasource.options.types import FORMATS
from kafkasource.tools.admin.json_records import NO_RECORD, Row, as_batch, from_line
from kafkasource.tools.admin.topics import check_partitions
from kafkasource.tools.cli.arguments import add_cluster, at_least, name_and_value, parsed_options, reach
from kafkasource.tools.cli.progress import progress
from kafkasource.tools.cli.read import unescaped
from kafkasource.tools.cli.registry_arguments import SCHEMA_REGISTRY_HELP, typed_options

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.kafka.config import ClientConfig
    from kafkasource.kafka.network.metadata import TopicMetadata
    from kafkasource.options import Options
    from kafkasource.types import TopicPartition, Written
    from kafkasource.writer import Writer

HELP = "lines of stdin become records: text or JSON, with keys and headers"
EXAMPLES = """examples:
  seq 1000 | pykafka write numbers --create partitions=6
  printf 'ada:1\\nbob:\\n' | pykafka write orders -K : --null ''      bob's value is null: a tombstone
  pykafka read orders --json | pykafka write copy --format json
  kcat -b east:9092 -C -e -t orders -J | pykafka write copy --format json
  echo '{"id": 1, "item": "pen"}' | pykafka write orders --value-format avro --schema-registry http://localhost:8081"""

_READ_BYTES = 1 << 20
_MAX_LINE_BYTES = 64 << 20  # no broker takes a record of that size


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="format of the lines; json: as `pykafka read --json` or `kcat -J` prints them. Default: text",
    )
    parser.add_argument(
        "-K", "--key-separator", metavar="SEP", help=r"in text: each line is key, separator, value; \t is a tab"
    )
    parser.add_argument("--key", help="the key of all records that have none")
    parser.add_argument(
        "-H",
        "--header",
        action="append",
        default=[],
        type=name_and_value,
        metavar="NAME=VALUE",
        help="a header on all records",
    )
    parser.add_argument(
        "--partition", type=at_least(0), metavar="N", help="the partition of all records that have none"
    )
    parser.add_argument(
        "--null", metavar="TEXT", help="in text: a key or value of exactly this TEXT becomes null (a tombstone)"
    )
    parser.add_argument(
        "--create",
        nargs="?",
        const="partitions=-1",
        type=_new_topic,
        metavar="SETTINGS",
        help="create the topic if it is missing, as partitions=6,replication=3,cleanup.policy=compact",
    )
    parser.add_argument(
        "--value-format",
        choices=FORMATS,
        help="what values become; avro, protobuf, json: each is JSON, and is written by the topic's latest schema "
        "(-X writerSchema=... for another, -X messageName=... for a file of several messages)",
    )
    parser.add_argument("--key-format", choices=FORMATS, help="what keys become")
    parser.add_argument("--schema-registry", metavar="URL", help=SCHEMA_REGISTRY_HELP)
    parser.add_argument("--json", action="store_true", help="print what was written, as JSON on stdout")
    add_cluster(parser)
    parser.set_defaults(run=_write)


def _new_topic(text: str) -> str:
    """An argparse type: what the option takes, checked before a broker is asked."""
    try:
        BY_NAME["createTopic"].parse(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("option 'createTopic': ")) from None
    return text


def _write(arguments: argparse.Namespace) -> int:
    from kafkasource.kafka.config import ClientConfig
    from kafkasource.writer import Writer

    more = {"topic": arguments.topic, **typed_options(arguments)}
    if arguments.create:
        more["createTopic"] = arguments.create
    options = parsed_options(arguments, "sink", more)
    config = ClientConfig.from_options(options)
    reach(config)
    arguments.known = _Topic(config, arguments.topic, may_be_missing=bool(arguments.create))
    if arguments.partition is not None:
        arguments.known.check_partition(arguments.partition)
    arguments.types = _types(options)
    if sys.stdin.isatty():
        print(f"each line becomes a record of {arguments.topic}; Ctrl-D ends", file=sys.stderr)
    writer = Writer(options)
    ended_by = _copy(arguments, writer)
    _report(arguments, writer.written)
    if ended_by is not None:
        raise ended_by
    return 0


def _copy(arguments: argparse.Namespace, writer: Writer) -> BaseException | None:
    """Write the lines, and wait until they are acknowledged. Returns the error that ended it early: the caller reports
    the written records before it raises the error."""
    rows_of = _text_rows if arguments.format == "text" else _json_rows
    ended_by: BaseException | None = None
    last = 0
    try:
        with writer, progress("records", None, shares_with=sys.stdin) as bar:
            try:
                for first, lines in _lines(sys.stdin.fileno()):
                    rows, bad_line = rows_of(lines, first, arguments)
                    last = first + len(lines) - 1
                    if rows:
                        with _naming(first, last):
                            writer.write(_batch(rows, arguments))
                        bar.advance(len(rows))
                    if bad_line is not None:
                        raise bad_line
            except (KafkaSourceError, KeyboardInterrupt) as error:
                ended_by = error  # the lines before it are written
    except KafkaSourceError as error:  # a broker's
        ended_by = error
    if isinstance(ended_by, KafkaSourceError) and not isinstance(ended_by, _BadLine) and last:
        return KafkaSourceError(f"not all lines up to {last} are written: {ended_by}")
    return ended_by


@contextlib.contextmanager
def _naming(first: int, last: int) -> Iterator[None]:
    """Raise _BadLine for what the client itself refuses of these lines."""
    from kafkasource.kafka.producer.accumulator import RecordTooLarge
    from kafkasource.kafka.producer.rows import InvalidRow

    try:
        yield
    except (InvalidRow, RecordTooLarge) as error:
        which = f"line {first}" if first == last else f"one of lines {first} to {last}"
        raise _BadLine(f"{which} cannot be written: {error}") from None


def _types(options: Options) -> dict[str, pa.DataType]:
    """The types of keys and values that are not bytes. May ask the schema registry."""
    if options["valueFormat"] == options["keyFormat"] == "binary":
        return {}
    from kafkasource.formats.writing.resolve import WantedFormats

    return WantedFormats.of(options, options["topic"]).column_types()


class _Topic:
    """The topic as it exists. Fails at once instead of after `max.block.ms`, because the command does not wait for
    another program to create the topic or its partitions."""

    def __init__(self, config: ClientConfig, name: str, may_be_missing: bool) -> None:
        """Raises KafkaSourceError where it is missing."""
        self._config = config
        self._name = name
        self._known = self._described()
        if self._known is None and not may_be_missing:
            raise KafkaSourceError(f"there is no topic {name!r}: create it with --create or `pykafka topics create`")

    def check_partition(self, number: int) -> None:
        """Raise KafkaSourceError for a partition that the topic lacks. A topic that will be created accepts all."""
        if self._known is not None and number not in self._known.partitions:
            self._known = self._described() or self._known  # it may have grown since
            check_partitions(self._known, [number])

    def _described(self) -> TopicMetadata | None:
        from kafkasource.kafka.cluster.cluster import Cluster

        with Cluster(self._config) as cluster:
            return cluster.topics.describe([self._name], propagation_ms=0)[self._name]


def _report(arguments: argparse.Namespace, written: dict[TopicPartition, Written]) -> None:
    total = sum(outcome.records for outcome in written.values())
    where = f"{many(len(written), 'partition')} of {arguments.topic}" if written else arguments.topic
    print(f"{many(total, 'record')} written to {where}", file=sys.stderr)
    if arguments.json:
        rows = [
            {"topic": tp.topic, "partition": tp.partition, **outcome._asdict()}
            for tp, outcome in sorted(written.items())
        ]
        print(json.dumps(rows))


class _BadLine(KafkaSourceError):
    """A line that cannot become a record; the text has its number."""


def _lines(fd: int) -> Iterator[tuple[int, list[bytes]]]:
    """Lines as they come, without their ends, and the number of the first, from 1. It never waits for more lines."""
    begun, begun_bytes, number = [b""], 0, 1  # the pieces of a line that has not ended: joined once, however many
    while data := os.read(fd, _READ_BYTES):
        if b"\n" in data:
            *lines, rest = b"".join([*begun, data]).split(b"\n")
            yield number, [line.removesuffix(b"\r") for line in lines]
            number += len(lines)
            begun, begun_bytes = [rest], len(rest)
        else:
            begun.append(data)
            begun_bytes += len(data)
        if begun_bytes > _MAX_LINE_BYTES:
            raise _BadLine(f"line {number} is longer than {_MAX_LINE_BYTES >> 20} MiB")
    if begun_bytes:
        yield number, [b"".join(begun).removesuffix(b"\r")]


Rows = tuple[list[Row], _BadLine | None]  # up to a bad line


def _text_rows(lines: list[bytes], first: int, arguments: argparse.Namespace) -> Rows:
    null = None if arguments.null is None else arguments.null.encode()
    key: bytes | None = None if arguments.key is None else arguments.key.encode()
    separator = unescaped(arguments.key_separator) if arguments.key_separator else None
    rows: list[Row] = []
    for number, line in enumerate(lines, first):
        start, value = key, line
        if separator is not None:
            start, has_separator, value = line.partition(separator)
            if not has_separator:
                return rows, _BadLine(f"line {number} has no key separator {arguments.key_separator!r}")
        row = {"key": None if start == null else start, "value": None if value == null else value}
        try:
            rows.append(_typed(row, arguments.types))
        except ValueError as error:
            return rows, _BadLine(f"line {number} cannot be encoded: {error}")
    return rows, None


def _typed(row: Row, types: Mapping[str, pa.DataType]) -> Row:
    """ValueError for what is no value of its type."""
    if not types:
        return row
    from kafkasource.tools.cli.json_columns import value_of

    for name, data_type in types.items():
        if row[name] is not None:
            try:
                row[name] = value_of(row[name], data_type)
            except ValueError as error:
                raise ValueError(f"the {name}, {error}") from None
    return row


def _json_rows(lines: list[bytes], first: int, arguments: argparse.Namespace) -> Rows:
    rows: list[Row] = []
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        try:
            row = from_line(line)
        except (*NO_RECORD, argparse.ArgumentTypeError) as error:
            return rows, _BadLine(f"line {number} is not a record in JSON: {error}")
        if row["partition"] is not None:
            try:
                arguments.known.check_partition(row["partition"])
            except KafkaSourceError as error:
                return rows, _BadLine(f"line {number} cannot be written: {error}")
        if row["key"] is None and arguments.key is not None:
            row["key"] = arguments.key.encode()
        try:
            rows.append(_typed(row, arguments.types))
        except ValueError as error:
            return rows, _BadLine(f"line {number} cannot be encoded: {error}")
    return rows, None


def _batch(rows: list[Row], arguments: argparse.Namespace) -> pa.RecordBatch:
    more = [{"key": name, "value": value.encode()} for name, value in arguments.header]
    partition = arguments.partition
    if more or partition is not None:
        rows = [
            {
                **row,
                "headers": [*row.get("headers", ()), *more],
                "partition": partition if row.get("partition") is None else row["partition"],
            }
            for row in rows
        ]
    return as_batch(rows, arguments.types)
