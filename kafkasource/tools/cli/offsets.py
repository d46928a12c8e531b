"""Show the offsets of a group or of a streaming query's checkpoint; set or delete a group's; translate a mirror's."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkasource.errors import BrokerError, KafkaSourceError, OptionError, few
from kafkasource.source.plan.offsets import StreamOffset, to_json
from kafkasource.source.plan.positions import AtOffsets
from kafkasource.tools.admin.lag import commit_offsets, committed_offsets, finished_offsets, places_of
from kafkasource.tools.admin.positions import PLACES, position
from kafkasource.tools.admin.topics import check_partitions, described_topics, existing
from kafkasource.tools.cli import tables, translate
from kafkasource.tools.cli.arguments import (
    add_cluster,
    add_group_or_checkpoint,
    add_json,
    parsed_options,
    reached_cluster,
)

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.types import TopicPartition

EXAMPLES = """examples:
  pykafka offsets show --checkpoint /checkpoints/billing
  pykafka offsets set --group billing --topic orders:0,1 --to 2h          shows what would change; --yes does it
  pykafka offsets set --group billing --to-checkpoint /checkpoints/billing --yes
  pykafka offsets translate -b west:9092 --source east --group billing --source-servers east:9092 --yes"""
HELP = "show or set a group's offsets; show a checkpoint's; translate those of a mirror's source"


def add(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    show = commands.add_parser("show", help="the next offsets to read, of a group or of a checkpoint")
    add_group_or_checkpoint(show)
    show.set_defaults(run=_show)
    change = commands.add_parser(
        "set",
        help="set a group's offsets; its members must have ended",
        description="Says what would change; --yes changes it. A streaming query of Spark's goes by its checkpoint, "
        "not by its group: to move one, start it on a new checkpoint with startingOffsets.",
    )
    to = change.add_mutually_exclusive_group(required=True)
    to.add_argument(
        "--to",
        type=position,
        metavar="WHERE",
        help=f"{PLACES}; an offset outside of a log is moved to the log's nearer end, with a warning",
    )
    to.add_argument("--to-checkpoint", metavar="LOCATION", help="the offsets that this streaming query has finished")
    change.add_argument("-y", "--yes", action="store_true", help="do it")
    change.set_defaults(run=_set)
    forget = commands.add_parser("delete", help="forget a group's offsets of topics that no member reads")
    forget.set_defaults(run=_delete)
    for command in (change, forget):
        command.add_argument("-g", "--group", required=True, metavar="GROUP", help="the group whose offsets are meant")
        command.add_argument(
            "-t",
            "--topic",
            action="append",
            default=[],
            required=command is forget,
            metavar="TOPIC[:PARTITION,...]",
            help="only these topics, or some of their partitions; may be repeated"
            + ("" if command is forget else ". Default: all topics that the group has offsets of, or the checkpoint"),
        )
    for command in (show, change, forget):
        add_cluster(command)
        add_json(command)
    translate.add(commands.add_parser("translate", help=translate.HELP, description=translate.DESCRIPTION))


def _show(arguments: argparse.Namespace) -> int:
    if arguments.checkpoint:
        return _show_checkpoint(arguments)
    with reached_cluster(arguments) as cluster:
        offsets = committed_offsets(cluster, arguments.group)
    if arguments.json:
        print(json.dumps(to_json(StreamOffset(offsets)), indent=1))
    elif offsets:
        tables.show(("topic", "partition", "offset"), [(*tp, offset) for tp, offset in sorted(offsets.items())])
    else:
        print(f"group {arguments.group} has committed nothing")
    return 0


def _show_checkpoint(arguments: argparse.Namespace) -> int:
    """Needs no broker."""
    from kafkasource.source.plan.checkpoint import read_checkpoint

    checkpoint = read_checkpoint(arguments.checkpoint)
    offsets, batch = checkpoint.done.offsets, checkpoint.done_batch
    planned, planned_batch = checkpoint.planned.offsets if checkpoint.planned else {}, checkpoint.planned_batch
    if arguments.json:
        document: dict[str, object] = {"batch": batch, "offsets": to_json(StreamOffset(offsets))}
        if planned_batch is not None:
            document |= {"planned_batch": planned_batch, "planned_offsets": to_json(StreamOffset(planned))}
        document["topic_ids"] = {topic: str(topic_id) for topic, topic_id in checkpoint.done.topic_ids.items()}
        print(json.dumps(document, indent=1))
        return 0
    done = f"micro-batch {batch} is done" if batch is not None else "no micro-batch is done"
    print(done + (f"; {planned_batch} is planned, or under way" if planned_batch is not None else ""))
    rows = [(*tp, offsets.get(tp), planned.get(tp)) for tp in sorted(offsets.keys() | planned)]
    tables.show(("topic", "partition", "offset", "planned"), rows, optional="planned")
    return 0


def _set(arguments: argparse.Namespace) -> int:
    with reached_cluster(arguments) as cluster:
        wanted = _wanted(cluster, arguments)
        before = committed_offsets(cluster, arguments.group)
        if arguments.yes:
            commit_offsets(cluster, arguments.group, wanted)
    if arguments.json:
        print(
            json.dumps(
                {"set": arguments.yes, "group": arguments.group, "offsets": to_json(StreamOffset(wanted))}, indent=1
            )
        )
    else:
        rows = [(*tp, before.get(tp), offset) for tp, offset in sorted(wanted.items())]
        tables.show(("topic", "partition", "before", "after" if arguments.yes else "would be"), rows)
        if not arguments.yes:
            print("nothing was changed: --yes does it")
    return 0


def _wanted(cluster: Cluster, arguments: argparse.Namespace) -> dict[TopicPartition, int]:
    if arguments.to_checkpoint:
        offsets = finished_offsets(arguments.to_checkpoint)
        if arguments.topic:
            offsets = _named_of(cluster, arguments, offsets)
        _check_held(cluster, offsets)
        return offsets
    from kafkasource.reader import Reader

    partitions = _partitions(cluster, arguments.topic or _topics_of_group(cluster, arguments.group))
    options = parsed_options(arguments, "source", {"subscribe": ",".join({tp.topic for tp in partitions})})
    with Reader(options, start=arguments.to) as reader:
        starts = reader.start_of(partitions)
    if isinstance(arguments.to, AtOffsets):
        _warn_of_moved(arguments.to.written(starts), starts, "is" if arguments.yes else "would be")
    return starts


def _warn_of_moved(asked: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int], verb: str) -> None:
    """Warn if a log does not hold the wanted offset, as kafka-consumer-groups.sh does: the nearest offset, which is set
    instead, skips or repeats records."""
    beyond = sorted(tp for tp, offset in asked.items() if offset > starts[tp])
    below = sorted(tp for tp, offset in asked.items() if 0 <= offset < starts[tp])
    for partitions, end, where in ((beyond, "end", "beyond"), (below, "start", "before")):
        if partitions:
            reason = f"offset {asked[partitions[0]]} is {where} the log's {end}, which {verb} set instead"
            print(f"pykafka: {reason}: {few(partitions)}", file=sys.stderr)


def _named_of(
    cluster: Cluster, arguments: argparse.Namespace, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The checkpoint's offsets of the topics and partitions of --topic. Raises KafkaSourceError if it lacks one; a
    topic without numbers may have more partitions by now."""
    named = _partitions(cluster, arguments.topic)
    topics = {tp.topic for tp in offsets}
    missing = []
    for topic, only in sorted(_numbers(arguments.topic).items()):
        missing += [topic] if only is None and topic not in topics else []
        missing += [f"{topic}-{number}" for number in sorted(only or ()) if (topic, number) not in offsets]
    if missing:
        raise KafkaSourceError(
            f"{arguments.to_checkpoint} has no offset of {', '.join(missing)}. Nothing was changed "
            "(`pykafka offsets show --checkpoint` shows its offsets)"
        )
    return {tp: offsets[tp] for tp in named & offsets.keys()}


def _topics_of_group(cluster: Cluster, group: str) -> list[str]:
    """The existing topics with committed offsets of the group. Raises OptionError if there are none."""
    topics = sorted({tp.topic for tp in committed_offsets(cluster, group)})
    existing_topics = [name for name, topic in described_topics(cluster, topics).items() if topic is not None]
    if not existing_topics:
        raise OptionError(f"group {group!r} has committed no offsets, so which topics? Give --topic TOPIC or TOPIC:0,1")
    return existing_topics


def _check_held(cluster: Cluster, offsets: dict[TopicPartition, int]) -> None:
    """Raise KafkaSourceError for an offset beyond its log (the topic was deleted, or created again), or if no broker
    knows the log's end."""
    for place in places_of(cluster, offsets):
        if place.leaderless:
            why = "has no leader now, so the end of its log is unknown"
        elif place.gone:
            why = "no longer exists"
        elif place.ahead:
            why = f"ends at {place.latest}: the topic was created again"
        else:
            continue
        raise KafkaSourceError(
            f"the checkpoint is at offset {place.consumed} of {place.tp}, which {why}. "
            "Nothing was changed. Name the other partitions with --topic TOPIC or TOPIC:0,1"
        )


def _partitions(cluster: Cluster, named: list[str]) -> set[TopicPartition]:
    """The partitions that `TOPIC` and `TOPIC:0,1` name. Raises KafkaSourceError if one does not exist."""
    wanted = _numbers(named)
    partitions = set()
    for name, topic in existing(cluster, wanted).items():
        only = wanted[name]
        check_partitions(topic, only or ())
        partitions |= {tp for tp in topic.topic_partitions if only is None or tp.partition in only}
    return partitions


def _numbers(named: list[str]) -> dict[str, set[int] | None]:
    """The named partitions by topic; None: all. The user may name a topic more than once."""
    wanted: dict[str, set[int] | None] = {}
    for text in named:
        topic, colon, numbers = text.partition(":")
        try:
            only = {int(number) for number in numbers.split(",")} if colon else None
        except ValueError:
            raise OptionError(f"--topic {text}: expected TOPIC or TOPIC:0,1") from None
        so_far = wanted.setdefault(topic, only)
        wanted[topic] = None if so_far is None or only is None else so_far | only
    return wanted


def _delete(arguments: argparse.Namespace) -> int:
    with reached_cluster(arguments) as cluster:
        gone = sorted(_partitions(cluster, arguments.topic))
        try:
            cluster.groups.delete_offsets(arguments.group, gone)
        except BrokerError as error:
            raise KafkaSourceError(f"group {arguments.group!r}: {error}") from None
    if arguments.json:
        print(json.dumps({"group": arguments.group, "deleted": list(map(str, gone))}))
    else:
        print(f"group {arguments.group}: deleted the offsets of {', '.join(map(str, gone))}")
    return 0
