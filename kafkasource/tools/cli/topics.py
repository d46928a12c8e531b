"""List, describe, create, alter and delete topics: partitions, replicas, settings, first and last offsets, bytes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError
from kafkasource.options.spelling import many, size
from kafkasource.tools.admin.topics import (
    Bounds,
    bounds_of,
    described_topics,
    existing,
    health,
    logs,
    settings_of,
    totals,
)
from kafkasource.tools.cli import tables
from kafkasource.tools.cli.arguments import add_cluster, add_json, at_least, name_and_value, reached_cluster

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.log_dirs import LogSizes
    from kafkasource.kafka.cluster.topics import Setting
    from kafkasource.kafka.network.metadata import TopicMetadata
    from kafkasource.types import TopicPartition

EXAMPLES = """examples:
  pykafka topics create events --partitions 6 --set cleanup.policy=compact
  pykafka topics describe events
  pykafka topics alter events --partitions 12 --unset cleanup.policy"""
HELP = "list, describe, create, alter, delete topics"


def add(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    show = commands.add_parser("list", help="all topics with their partitions and how many offsets and bytes they hold")
    show.add_argument("--internal", action="store_true", help="show Kafka's internal topics too")
    show.set_defaults(run=_list)
    describe = commands.add_parser(
        "describe", help="leaders, replicas, offsets and bytes of each partition, and settings"
    )
    describe.add_argument("topics", nargs="+", metavar="TOPIC")
    describe.add_argument("--all-settings", action="store_true", help="show settings with default values too")
    describe.set_defaults(run=_describe)
    create = commands.add_parser("create", help="make topics; ready to be written to when the command returns")
    create.add_argument("topics", nargs="+", metavar="TOPIC")
    create.add_argument("-p", "--partitions", type=at_least(1), default=-1, metavar="N", help="default: the broker's")
    create.add_argument(
        "-r",
        "--replication",
        type=at_least(1),
        default=-1,
        metavar="N",
        help="copies of each partition; default: the broker's",
    )
    create.add_argument("--if-missing", action="store_true", help="no error if the topic exists already")
    create.set_defaults(run=_create)
    alter = commands.add_parser("alter", help="change settings, add partitions")
    alter.add_argument("topics", nargs=1, metavar="TOPIC")
    alter.add_argument(
        "-p",
        "--partitions",
        type=at_least(1),
        metavar="N",
        help="the new number of partitions; it cannot become smaller",
    )
    alter.add_argument(
        "--unset", action="append", default=[], metavar="NAME", help="set this setting back to the broker's default"
    )
    alter.set_defaults(run=_alter)
    for command in (create, alter):
        command.add_argument(
            "-s",
            "--set",
            action="append",
            default=[],
            type=name_and_value,
            metavar="NAME=VALUE",
            help="a setting, such as cleanup.policy=compact; may be repeated",
        )
    delete = commands.add_parser("delete", help="delete topics with all their records")
    delete.add_argument("topics", nargs="+", metavar="TOPIC")
    delete.add_argument("--if-exists", action="store_true", help="no error if the topic does not exist")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")
    delete.set_defaults(run=_delete)
    for command in (show, describe, create, alter, delete):
        add_cluster(command)
        add_json(command)


def _list(arguments: argparse.Namespace) -> int:
    with reached_cluster(arguments) as cluster:
        topics = [topic for topic in cluster.topics.list() if arguments.internal or not topic.internal]
        bounds = bounds_of(cluster, topics)
        sizes = cluster.log_sizes(tp for topic in topics for tp in topic.topic_partitions)
    rows = [totals(topic, bounds, sizes) for topic in sorted(topics, key=lambda topic: topic.name)]
    if arguments.json:
        print(json.dumps(rows, indent=1))
    elif rows:
        titles = ("topic", "partitions", "replicas", "offsets", "bytes", "health")
        tables.show(titles, [[*({**row, "bytes": _bytes(row["bytes"])}).values()] for row in rows])
        _say_why_unknown("bytes", sizes.unknown)
    else:
        print("no topics: create one with `pykafka topics create NAME`")
    return 0


def _describe(arguments: argparse.Namespace) -> int:
    with reached_cluster(arguments) as cluster:
        topics = list(existing(cluster, arguments.topics).values())
        bounds = bounds_of(cluster, topics)
        sizes = cluster.log_sizes(tp for topic in topics for tp in topic.topic_partitions)
        settings = settings_of(cluster, arguments.topics)
    if arguments.json:
        print(
            json.dumps(
                [_as_json(topic, bounds, sizes, settings.by_topic.get(topic.name)) for topic in topics], indent=1
            )
        )
        return 0
    for number, topic in enumerate(topics):
        if number:
            print()
        _print_topic(topic, bounds, sizes, settings.by_topic.get(topic.name), arguments.all_settings)
    _say_why_unknown("bytes", sizes.unknown)
    _say_why_unknown("settings", settings.unknown)
    return 0


def _bytes(count: int | None) -> tables.Bytes | None:
    return None if count is None else tables.Bytes(count)


def _say_why_unknown(what: str, why: str | None) -> None:
    if why is not None:
        print(f"pykafka: {what} are not shown: {why}", file=sys.stderr)


def _print_topic(
    topic: TopicMetadata,
    bounds: dict[TopicPartition, Bounds],
    sizes: LogSizes,
    settings: Sequence[Setting] | None,
    everything: bool,
) -> None:
    total = sum(bounds[tp].offsets or 0 for tp in topic.topic_partitions)
    on_disk = sizes.total(topic.topic_partitions)
    parts = [many(len(topic.partitions), "partition"), many(total, "offset")]
    parts += [size(on_disk)] if on_disk is not None else []
    parts += [health(topic), *([f"id {topic.topic_id}"] if topic.topic_id else [])]
    print(f"{topic.name}: {', '.join(parts)}")
    for setting in settings or ():
        if everything or setting.source == "topic":
            print(f"  {setting.name}={setting.value}" + (f"  ({setting.source})" if everything else ""))
    tables.show(
        ("partition", "leader", "replicas", "in sync", "earliest", "latest", "offsets", "bytes"),
        [
            (
                number,
                partition.leader_id,
                ",".join(map(str, partition.replicas)),
                ",".join(map(str, partition.in_sync_replicas)),
                *bounds[tp],
                bounds[tp].offsets,
                _bytes(sizes.sizes.get(tp)),
            )
            for tp in topic.topic_partitions
            for number, partition in [(tp.partition, topic.partitions[tp.partition])]
        ],
    )


def _as_json(
    topic: TopicMetadata,
    bounds: dict[TopicPartition, Bounds],
    sizes: LogSizes,
    settings: Sequence[Setting] | None,
) -> dict[str, object]:
    return {
        "topic": topic.name,
        "topic_id": str(topic.topic_id) if topic.topic_id else None,
        "internal": topic.internal,
        "partitions": logs(topic, bounds, sizes),
        "settings": None
        if settings is None
        else {setting.name: {"value": setting.value, "source": setting.source} for setting in settings},
    }


def _create(arguments: argparse.Namespace) -> int:
    from kafkasource.errors import TopicAlreadyExists

    created = []
    with reached_cluster(arguments) as cluster:
        for name in arguments.topics:
            try:
                cluster.topics.create(
                    [name],
                    partitions=arguments.partitions,
                    replication_factor=arguments.replication,
                    configs=dict(arguments.set),
                )
                created.append(name)
            except TopicAlreadyExists:
                if not arguments.if_missing:
                    raise KafkaSourceError(
                        f"topic {name!r} exists already (`pykafka topics describe {name}`); --if-missing makes this "
                        "no error"
                    ) from None
        counts = {name: len(topic.partitions) for name, topic in cluster.topics.describe(created).items() if topic}
    return _say(
        arguments, "created", [(name, f"{name} with {many(counts.get(name, 0), 'partition')}") for name in created]
    )


def _alter(arguments: argparse.Namespace) -> int:
    (name,) = arguments.topics
    changes: dict[str, str | None] = {**dict(arguments.set), **dict.fromkeys(arguments.unset)}
    if not changes and arguments.partitions is None:
        raise KafkaSourceError("nothing to change: give --set NAME=VALUE, --unset NAME or --partitions N")
    with reached_cluster(arguments) as cluster:
        existing(cluster, [name])
        if changes:
            cluster.topics.change_settings(name, changes)
        if arguments.partitions is not None:
            cluster.topics.add_partitions({name: arguments.partitions})
    return _say(arguments, "changed", [(name, name)])


def _delete(arguments: argparse.Namespace) -> int:
    with reached_cluster(arguments) as cluster:
        described = described_topics(cluster, arguments.topics)
        missing = [name for name, topic in described.items() if topic is None]
        if missing and not arguments.if_exists:
            raise KafkaSourceError(f"no topic {', '.join(map(repr, missing))}; --if-exists makes this no error")
        topics = [topic for topic in described.values() if topic is not None]
        if topics and not arguments.yes:
            offsets = [bounds.offsets for bounds in bounds_of(cluster, topics).values()]
            total = f"{sum(count or 0 for count in offsets):,} offsets of records"
            unknown = offsets.count(None)
            more = f", and those of {many(unknown, 'partition')} whose offsets are not known" if unknown else ""
            _confirm(f"delete {', '.join(topic.name for topic in topics)} with {total}{more}?")
        if topics:
            cluster.topics.delete([topic.name for topic in topics])
    return _say(arguments, "deleted", [(topic.name, topic.name) for topic in topics])


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise KafkaSourceError(f"{question} Nobody can answer here: give --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise KafkaSourceError("nothing was deleted")


def _say(arguments: argparse.Namespace, done: str, names: list[tuple[str, str]]) -> int:
    if arguments.json:
        print(json.dumps({done: [name for name, _ in names]}))
    for _, text in names if not arguments.json else ():
        print(f"{done} {text}")
    return 0
