"""`pykafka offsets translate`: from offsets of a mirror's source to offsets at a target, by the offset map there."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from kafkasource.errors import KafkaSourceError, OptionError
from kafkasource.options.spelling import many
from kafkasource.source.plan.offsets import StreamOffset, to_json
from kafkasource.tools.admin.lag import commit_offsets, committed_offsets, finished_offsets
from kafkasource.tools.cli import tables
from kafkasource.tools.cli.arguments import (
    add_cluster,
    add_group_or_checkpoint,
    add_json,
    client_config,
    reach,
    reached_cluster,
)
from kafkasource.tools.cli.command_config import file_options
from kafkasource.types import TopicPartition

if TYPE_CHECKING:
    from kafkasource.mirror.offset_map import Translated
    from kafkasource.sink.clusters.offset_spans import OffsetMap

_SERVERS = "kafka.bootstrap.servers"

HELP = "offsets of a mirrored cluster as offsets at a target of the mirror"
DESCRIPTION = (
    "Asks the target (--bootstrap-servers) for the map that the mirror keeps there. A consumer that continues at "
    "a translated offset misses nothing; where it is not exact, some records are read twice. docs/mirror-offsets.md "
    "says why."
)


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--source", required=True, metavar="CLUSTER", help="the name of the cluster that the mirror reads from"
    )
    offsets = add_group_or_checkpoint(parser)
    offsets.add_argument(
        "-o",
        "--offset",
        action="append",
        type=_place,
        metavar="TOPIC:PARTITION:OFFSET",
        help="the next offset to read at the source; may be repeated",
    )
    parser.add_argument("--source-servers", metavar="HOST:PORT,...", help="with --group: brokers of the source cluster")
    parser.add_argument(
        "--source-command-config",
        metavar="FILE",
        help="with --group: the client.properties for the source cluster, where it has other security than the target",
    )
    parser.add_argument(
        "-y", "--yes", action="store_true", help="with --group: commit the offsets for the group at the target"
    )
    add_cluster(parser)
    add_json(parser)
    parser.set_defaults(run=run)


def _place(text: str) -> tuple[TopicPartition, int]:
    topic, partition, offset = [*text.rsplit(":", 2), "", ""][:3]
    if not topic or not partition.isdecimal() or not offset.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC:PARTITION:OFFSET")
    return TopicPartition(topic, int(partition)), int(offset)


def run(arguments: argparse.Namespace) -> int:
    from kafkasource.mirror.offset_map import OffsetMapTopic, translate
    from kafkasource.mirror.plan import offset_map_topic

    if arguments.yes and not arguments.group:
        raise OptionError("--yes needs --group: the group whose offsets are set")
    wanted = _wanted(arguments)
    config = client_config(arguments)
    reach(config)
    topic = offset_map_topic(arguments.source)
    with reached_cluster(arguments) as target:
        if target.topics.describe([topic], propagation_ms=0)[topic] is None:
            raise KafkaSourceError(
                f"there is no topic {topic!r} here. Is this cluster a target of the mirror, and does the mirror call "
                f"its source {arguments.source!r}? A flow with offset_map = false keeps no map"
            )
        with OffsetMapTopic(config, topic) as map_topic:
            offset_map = map_topic.read()
        translations = {tp: translate(offset_map, tp, offset) for tp, offset in sorted(wanted.items())}
        offsets = {there.target: there.offset for there in translations.values() if there is not None}
        if arguments.yes:
            commit_offsets(target, arguments.group, offsets)
    rows = [(*tp, wanted[tp], *_translation(tp, there, offset_map)) for tp, there in translations.items()]
    if arguments.json:
        names = ("topic", "partition", "offset", "target", "target_offset", "remark")
        document: dict[str, object] = {
            "set": arguments.yes,
            "offsets": to_json(StreamOffset(offsets)),
            "partitions": [dict(zip(names, row, strict=True)) for row in rows],
        }
        print(json.dumps(document, indent=1))
    else:
        tables.show(("topic", "partition", "offset", "target", "offset there", "remark"), rows)
        if arguments.yes:
            print(f"set the offsets of group {arguments.group} in {many(len(offsets), 'partition')}")
        elif arguments.group:
            print("nothing was changed: --yes does it")
    return 0 if all(translations.values()) else 1


def _wanted(arguments: argparse.Namespace) -> dict[TopicPartition, int]:
    if arguments.offset:
        return dict(arguments.offset)
    if arguments.checkpoint:
        return finished_offsets(arguments.checkpoint)
    of_source = {"bootstrap_servers": arguments.source_servers}
    if arguments.source_command_config:
        of_source["command_config"] = arguments.source_command_config
    elif arguments.command_config:
        file_options(arguments)  # of both clusters: read once, before the copy, as it may be a pipe
    there = argparse.Namespace(**{**vars(arguments), **of_source})
    named = file_options(there).get(_SERVERS) if arguments.source_command_config else None
    if not (arguments.source_servers or named):
        raise OptionError(
            "--group needs --source-servers: the cluster where the group committed the offsets to translate"
        )
    with reached_cluster(there) as source:
        committed = committed_offsets(source, arguments.group)
    if not committed:
        raise KafkaSourceError(
            f"group {arguments.group!r} has committed nothing at {arguments.source_servers or named}"
        )
    return committed


def _translation(
    tp: TopicPartition, there: Translated | None, offset_map: OffsetMap
) -> tuple[str | None, int | None, str]:
    """Topic and offset at the target, and how exact the offset is."""
    if there is None:
        mapped = offset_map.get(tp)
        if mapped is None:
            return None, None, "not mirrored"
        if not mapped.spans:
            why = "where its records lie is not known" if mapped.left_out is None else "the target refuses the topic"
            return mapped.target_topic, None, why
        return mapped.target_topic, None, f"before the map, which begins at {mapped.spans[0].source_first}"
    if there.behind:
        return there.target.topic, there.offset, f"the mirror is {there.behind} offsets behind"
    return there.target.topic, there.offset, "exact" if there.exact else "some before it may be read twice"
