"""Count and show the records of a topic of dead letters by reason, and send them back after a fix.

The sink writes dead letters with badRecords=topic:NAME (docs/dead-letters.md). Those of share groups have the
same headers.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkasource.options.spelling import many
from kafkasource.tools.cli import formats
from kafkasource.tools.cli.arguments import add_cluster, add_json, at_least, parsed_options, reach, settings_of_role
from kafkasource.tools.cli.filters import Selection
from kafkasource.tools.cli.progress import progress
from kafkasource.tools.cli.read import copy_batches
from kafkasource.tools.cli.tables import show

if TYPE_CHECKING:
    from kafkasource.reader import Reader
    from kafkasource.tools.admin.dead_letters import ReasonCount
    from kafkasource.tools.admin.replay import Replay

HELP = "dead letters: how many for which reason, which, and back to where they came from"
EXAMPLES = """examples:
  pykafka dlq list dlq.orders
  pykafka dlq show dlq.orders --reason "left over" -n 10
  pykafka dlq replay dlq.orders --dry-run"""


def add(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    kinds = commands.add_parser("list", help="how many records by topic and reason, and where the last one was read")
    kinds.set_defaults(run=_list)
    records = commands.add_parser("show", help="the records, with their bytes and headers")
    records.add_argument("-n", "--count", type=at_least(1), metavar="N", help="at most N records")
    records.set_defaults(run=_show)
    back = commands.add_parser(
        "replay",
        help="send the records back to the topics they came from, as they were, each once",
        description="Send the records of dead letters back to the topics that they came from, as they were: bytes, "
        "headers, time and partition. Each goes back once, whatever dies and however often this runs: the offsets of "
        "the groups pykafka-dlq-replay.TOPIC and pykafka-dlq-replay-kept.TOPIC say which did. One whose topic or "
        "partition is gone, or is another cluster's, stays, and the exit code is 1. Needs Kafka 0.11 or later.",
    )
    back.add_argument("--from-topic", metavar="TOPIC", help="only those that came from this topic")
    back.add_argument("--to", metavar="TOPIC", help="send all of them to this topic, by their keys")
    back.add_argument("--dry-run", action="store_true", help="only count what would be sent")
    back.set_defaults(run=_replay)
    for command in (records, back):
        command.add_argument("--reason", metavar="TEXT", default="", help="only those with this text in their reason")
    for command in (kinds, records, back):
        command.add_argument("topic", metavar="TOPIC", help="the topic of dead letters")
        add_json(command)
        add_cluster(command)


def _list(arguments: argparse.Namespace) -> int:
    from kafkasource.tools.admin.dead_letters import counts_by_reason

    with _reader(arguments) as reader:
        kinds = counts_by_reason(reader)
    if arguments.json:
        print(json.dumps([asdict(count) for count in kinds], indent=1))
        return 0
    titles = ("records", "topic", "of cluster", "reason", "last partition", "last offset", "as")
    rows = [
        (
            count.records,
            count.topic,
            count.cluster_id,
            count.reason,
            count.last_partition,
            count.last_offset,
            _form(count),
        )
        for count in kinds
    ]
    show(titles, rows)
    return 0


def _form(count: ReasonCount) -> str:
    """The form of these dead letters: the bytes of records, or rows that no schema took."""
    if count.rows == count.records:
        return "rows in JSON"
    return "records" if count.rows == 0 else "records, rows in JSON"


def _show(arguments: argparse.Namespace) -> int:
    from kafkasource.kafka.records.arrow.columns import ROW_SCHEMA_WITH_HEADERS
    from kafkasource.tools.admin.dead_letters import with_reason

    style = formats.Style(terminal=sys.stdout.isatty())
    form = formats.BY_NAME["json" if arguments.json else "hex"]
    output = form.open(sys.stdout.buffer, style, ROW_SCHEMA_WITH_HEADERS)
    with _reader(arguments) as reader, progress("records", arguments.count, shares_with=sys.stdout) as bar:
        batches = (with_reason(batch, arguments.reason) for batch in reader)
        copy_batches(batches, output, Selection(most=arguments.count), bar)
    output.close()
    return 0


def _replay(arguments: argparse.Namespace) -> int:
    from kafkasource.tools.admin.replay import Choice, Replay, source_options
    from kafkasource.tools.admin.topics import existing

    written = {"kafka.acks": "all", "kafka.enable.idempotence": "true"}
    parsed = parsed_options(settings_of_role(arguments, "sink"), "sink", written)
    with _reader(settings_of_role(arguments, "source"), source_options(arguments.topic)) as reader:
        if arguments.to is not None:
            existing(reader.cluster, [arguments.to])
        replay = Replay(reader, parsed, Choice(arguments.topic, arguments.reason, arguments.to, arguments.from_topic))
        try:
            if arguments.dry_run:
                replay.count()
            else:
                replay.run()
        finally:  # what was committed before an error is sent
            _show_replayed(replay, arguments)
    return 1 if replay.passed_over else 0


def _show_replayed(replay: Replay, arguments: argparse.Namespace) -> None:
    if arguments.json:
        counts = {"sent": replay.sent, "left": replay.left, "rows": replay.rows, "passed_over": replay.passed_over}
        print(json.dumps({**counts, "dry_run": arguments.dry_run}))
        return
    if replay.sent:
        titles = ("would be sent" if arguments.dry_run else "sent", "to topic")
        show(titles, [(count, topic) for topic, count in replay.sent.items()])
    else:
        print("nothing was sent" if not arguments.dry_run else "nothing would be sent")
    if replay.left:
        stay = "stays" if replay.left == 1 else "stay"
        print(f"{many(replay.left, 'record')} {stay}: another reason or topic, no dead letter, or from this very topic")
    for refusal, count in replay.passed_over.items():
        print(f"{many(count, 'record')} cannot go back: {refusal}")
    if replay.passed_over:
        print(
            "They stay. Make the topic or partition again, let the topic take them, or send them to another: "
            "--from-topic TOPIC --to ANOTHER"
        )
    if replay.rows:
        print(
            f"{many(replay.rows, 'row')} cannot be sent: a writer's schema did not take them, so there is no record of"
            " them. Read them with valueFormat=json, correct them, and write them again"
        )


@contextmanager
def _reader(
    arguments: argparse.Namespace, options_of_run: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Reader]:
    """A reader of all committed records, unless the options say something else."""
    from kafkasource.kafka.config import ClientConfig
    from kafkasource.reader import Reader
    from kafkasource.tools.admin.topics import existing

    more = {"subscribe": arguments.topic, "includeHeaders": "true", "startingOffsets": "earliest"}
    more = {**more, "kafka.isolation.level": "read_committed", **options_of_run}
    options = parsed_options(arguments, "source", more)
    reach(ClientConfig.from_options(options))
    with Reader(options) as reader:
        existing(reader.cluster, [arguments.topic])
        yield reader
