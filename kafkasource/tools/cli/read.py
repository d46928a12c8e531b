"""Print records of topics, or write them to a file: all records, a part of them, or new ones as they arrive.

Records come partition by partition, each in the order of offsets. With --group the command shares the topics with the
group's other members, which may be any clients, and commits offsets after it has printed their records.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kafkasource.errors import BadRecord, OptionError
from kafkasource.options.spelling import many
from kafkasource.options.types import FORMATS
from kafkasource.source.plan.positions import check_start_before_end
from kafkasource.tools.admin.positions import PLACES, LastRecords, position
from kafkasource.tools.admin.topics import check_partitions, existing
from kafkasource.tools.cli import formats
from kafkasource.tools.cli.arguments import add_cluster, at_least, parsed_options, reach
from kafkasource.tools.cli.filters import SYNTAX, Selection, parsed
from kafkasource.tools.cli.progress import ProgressLine, progress
from kafkasource.tools.cli.registry_arguments import SCHEMA_REGISTRY_HELP, reach_registry, typed_options
from kafkasource.tools.cli.template import LETTERS, Template, format_of
from kafkasource.tools.cli.whole_file import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkasource.reader import Reader
    from kafkasource.source.plan.positions import Position

HELP = "print records, follow a topic, save one as Parquet"
EXAMPLES = """examples:
  pykafka read events                                   all there is, one value a line
  pykafka read events --last 5 -K '\\t'                  the last five of each partition, with keys
  pykafka read events --from 15m --json                 of the last quarter of an hour
  pykafka read events --filter '$.user.id=7' -n 10      the first ten with this in their JSON
  pykafka read events -o -10 -c 5 -f '%p %o %k=%s\\n'    as kcat takes it: offset, count, format
  pykafka read events --follow --group audit            what comes, shared with the group's other members
  pykafka read events --from 2026-11-21 --to day.parquet"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", nargs="+", metavar="TOPIC")
    parser.add_argument("-p", "--partitions", metavar="N,...", type=_numbers, help="only these; default: all")
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "-o",
        "--from",
        dest="start",
        type=position,
        metavar="WHERE",
        help=f"the first record: {PLACES}. Default: earliest; with --follow latest; with --group the group's committed "
        "offset, and --from only where the group has committed none. Also as kcat writes it: beginning, end, -10 (ten "
        "before the end of each partition), s@MS",
    )
    start.add_argument("--last", type=at_least(0), metavar="N", help="start N offsets before the end of each partition")
    parser.add_argument(
        "--until", type=position, metavar="WHERE", help="stop before this record; default: the current end"
    )
    parser.add_argument("-w", "--follow", action="store_true", help="continue with new records; Ctrl-C ends")
    parser.add_argument("-n", "-c", "--count", type=at_least(1), metavar="N", help="read at most N records in total")
    parser.add_argument(
        "--filter",
        action="append",
        default=[],
        type=parsed,
        metavar="PLACE=VALUE",
        help=f"only records for which this holds: {SYNTAX}, as '$.customer.id=7'. May be repeated: all must hold. "
        "--count counts the records that match",
    )
    parser.add_argument(
        "-g", "--group", metavar="GROUP", help="read as a member of this consumer group, and commit offsets"
    )
    parser.add_argument(
        "--format",
        choices=[form.name for form in formats.FORMATS],
        help="; ".join(f"{form.name}: {form.doc}" for form in formats.FORMATS)
        + ". Default: text, or the format that the end of --to names",
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    parser.add_argument(
        "-f",
        type=Template,
        dest="template",
        metavar="FORMAT",
        help=rf"kcat's format string, such as '%%t %%p %%o %%k %%s\n': {LETTERS.replace('%', '%%')}; \n \t \x1f",
    )
    parser.add_argument(
        "--value-format",
        choices=FORMATS,
        help="what values are; avro, protobuf: shown as JSON, each decoded by the schema whose id it carries; "
        "json: the columns of -X readerSchema='id BIGINT, ...', or of a JSON Schema that is "
        "registered. A record that cannot be decoded ends the command; with -X badRecords=column stderr names "
        "it, and the read goes on",
    )
    parser.add_argument("--key-format", choices=FORMATS, help="what keys are")
    parser.add_argument(
        "--schema-registry",
        metavar="URL",
        help=f"{SCHEMA_REGISTRY_HELP}, -X readerSchema=... for another schema than the topic's latest, "
        "-X messageName=... for a file of several messages",
    )
    parser.add_argument(
        "--to", metavar="FILE", help="write to a file, such as events.parquet; it appears when it is complete"
    )
    parser.add_argument(
        "-K",
        "--key-separator",
        metavar="SEP",
        help=r"in text: print the key and this separator before each value; \t is a tab",
    )
    parser.add_argument("--null", default="", metavar="TEXT", help="in text: what to print for a null key or value")
    add_cluster(parser)
    parser.set_defaults(run=_read)


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not N,N,...") from None


def unescaped(text: str) -> bytes:
    r"""A separator as a shell passes it on: `\t` is a tab."""
    return text.replace("\\t", "\t").encode()


def _read(arguments: argparse.Namespace) -> int:
    if arguments.group and (arguments.partitions or arguments.until or arguments.last is not None):
        raise OptionError(
            "--group cannot be combined with --partitions, --last or --until: the group assigns whole topics to its "
            "members"
        )
    if arguments.group and arguments.to:
        raise OptionError(
            "--group cannot be combined with --to: it commits records when they are printed, and the file of --to "
            "appears only at the end. Redirect stdout (>) instead"
        )
    if arguments.follow and arguments.until:
        raise OptionError("--follow has no end: leave out --until")
    if arguments.start is not None:
        named = {"--from": arguments.start, "--until": arguments.until}
        start, end = (place and replace(place, option=f"{name} {place.option}") for name, place in named.items())
        check_start_before_end(start, end)
    form = _format(arguments)
    options = parsed_options(arguments, "source", _selection(arguments))
    if "columns" in options.given:
        raise OptionError("option 'columns' has no effect here, as a format says what is printed: give -f or --format")
    if not form.typed and (options["valueFormat"] != "binary" or options["keyFormat"] != "binary"):
        raise OptionError(f"--format {form.name} shows bytes as they are: leave out --value-format and --key-format")
    from kafkasource.kafka.config import ClientConfig
    from kafkasource.reader import Reader

    reach(ClientConfig.from_options(options))
    reach_registry(options, arguments.topics[0])
    style = formats.Style(
        None if arguments.key_separator is None else unescaped(arguments.key_separator),
        arguments.null.encode(),
        terminal=not arguments.to and sys.stdout.isatty(),
    )
    with Reader(options, start=_start(arguments), end=arguments.until) as reader, _stream(arguments.to) as stream:
        for topic in existing(reader.cluster, arguments.topics).values():
            check_partitions(topic, arguments.partitions or ())
        output = form.open(stream, style, reader.schema)
        ends_by_ctrl_c = contextlib.suppress(KeyboardInterrupt) if arguments.follow else contextlib.nullcontext()
        with contextlib.closing(output), ends_by_ctrl_c, _next_step_after_a_bad_record():
            if arguments.group:
                from kafkasource.kafka.fetch.replicas import rack_of
                from kafkasource.tools.cli.shared_read import read_as_member

                read_as_member(reader, arguments, output, rack_of(options["kafka.client.rack"]) or None)
            else:
                _copy(reader, arguments, output)
    return 0


def _selection(arguments: argparse.Namespace) -> dict[str, str]:
    more = {"includeHeaders": "true", **typed_options(arguments)}
    if arguments.partitions:
        return {**more, "assign": json.dumps(dict.fromkeys(arguments.topics, arguments.partitions))}
    return {**more, "subscribe": ",".join(arguments.topics)}


def _start(arguments: argparse.Namespace) -> Position:
    given: Position | None = arguments.start
    if arguments.last is not None:
        return LastRecords("--last", arguments.last)
    return given or position("latest" if arguments.follow and not arguments.group else "earliest")


def _format(arguments: argparse.Namespace) -> formats.OutputFormat:
    """Raises OptionError where the format and the file do not fit."""
    by_file = formats.of_file(arguments.to) if arguments.to else None
    if arguments.template is not None:
        if by_file is not None and by_file.only_files:
            raise OptionError(f"-f prints text, unlike {by_file.name}: give --to another name, or leave out -f")
        if arguments.format or arguments.key_separator is not None:
            raise OptionError("-f says all that is printed: leave out --format, --json and --key-separator")
        return format_of(arguments.template)
    form = formats.BY_NAME[arguments.format] if arguments.format else by_file
    if form is None and arguments.to:
        known = ", ".join(suffix for form in formats.FORMATS for suffix in form.suffixes)
        raise OptionError(
            f"--to {arguments.to}: which format? End the file name with one of {known}, or give --format"
            " (--until says where the read ends)"
        )
    form = form or formats.BY_NAME["text"]
    if form.only_files and not arguments.to and sys.stdout.isatty():
        raise OptionError(f"--format {form.name} is for files: give --to FILE{form.suffixes[0]}")
    return form


@contextlib.contextmanager
def _stream(file: str | None) -> Iterator[IO[bytes]]:
    """Stdout, or a file that gets its name only when it is complete."""
    if file is None:
        yield sys.stdout.buffer
        return
    with written_whole(Path(file), f"--to {file}") as stream:
        yield stream


@contextlib.contextmanager
def _next_step_after_a_bad_record() -> Iterator[None]:
    try:
        yield
    except BadRecord as error:
        raise BadRecord(error.what, "-X badRecords=column names such records and reads on") from None


def _copy(reader: Reader, arguments: argparse.Namespace, output: formats.Output) -> None:
    selection = Selection(arguments.filter, arguments.count)
    if arguments.follow:
        if arguments.start is None and arguments.last is None and sys.stderr.isatty():
            print("waiting for new records; --from earliest shows existing ones; Ctrl-C ends", file=sys.stderr)
        with progress("records", arguments.count, shares_with=None if arguments.to else sys.stdout) as bar:
            copy_batches(reader.follow(), output, selection, bar)
        return
    ranges = reader.plan()
    total = sum(part.size for part in ranges)
    total = total if arguments.count is None or arguments.filter else min(total, arguments.count)
    with progress("records", total, shares_with=None if arguments.to else sys.stdout) as bar:
        copied = copy_batches(reader.read(ranges), output, selection, bar)
    if arguments.to:
        print(f"{many(copied, 'record')} in {arguments.to}", file=sys.stderr)
    elif not copied and sys.stderr.isatty():
        of_topics = f"of {', '.join(arguments.topics)} in that range"
        if total and arguments.filter:
            print(f"no record {of_topics} matches --filter", file=sys.stderr)
        else:
            print(f"no records {of_topics}; --follow waits for new ones", file=sys.stderr)


def copy_batches(
    batches: Iterator[pa.RecordBatch], output: formats.Output, selection: Selection, bar: ProgressLine
) -> int:
    """Write the selected records out. Returns how many it wrote."""
    copied = 0
    for batch in batches:
        part, done = selection.of(batch)
        if part.num_rows:
            output.write(part)
        copied += part.num_rows
        bar.advance(done)
        if selection.ended:
            break
    return copied
