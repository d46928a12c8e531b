"""PageChanges that the page makes with `--write`: a record, a group's offsets, a topic.

Each request repeats the name of the changed thing in `confirm`, as its user has confirmed it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kafkasource.reader import Reader
from kafkasource.tools.admin.json_records import NO_RECORD, as_batch, from_json
from kafkasource.tools.admin.lag import commit_offsets, committed_offsets
from kafkasource.tools.admin.topics import check_partitions, existing
from kafkasource.tools.ui.parameters import place
from kafkasource.tools.web.handler import RequestRefused
from kafkasource.types import TopicPartition
from kafkasource.writer import Writer

if TYPE_CHECKING:
    from kafkasource.kafka.cluster.cluster import Cluster
    from kafkasource.options import Options

Document = dict[str, Any]
MakeOptions = Callable[[Mapping[str, str]], "Options"]


class PageChanges:
    """Any thread may call the methods. `cluster` is the caller's."""

    def __init__(self, cluster: Cluster, read_options: MakeOptions, write_options: MakeOptions) -> None:
        self._cluster = cluster
        self._read_options = read_options
        self._write_options = write_options

    def produce(self, asked: Document) -> Document:
        """Write one record, as `pykafka write --format json` takes it; where it is then."""
        topic = confirmed(asked, "topic")
        try:
            row = from_json(asked.get("record"))
        except NO_RECORD as error:
            raise RequestRefused(400, f"record: {error}") from None
        known = existing(self._cluster, [topic])[topic]
        if row["partition"] is not None:
            check_partitions(known, [row["partition"]])
        with Writer(self._write_options({"topic": topic})) as writer:
            writer.write(as_batch([row]))
            written = writer.flush()
        return {
            "written": [{"partition": tp.partition, "offset": outcome.first_offset} for tp, outcome in written.items()]
        }

    def plan_offsets(self, asked: Document) -> Document:
        """The effect of `set_offsets`: the offsets of a place in a topic, beside the committed offsets."""
        group, topic, to = (text(asked, name) for name in ("group", "topic", "to"))
        numbers = asked.get("partitions") or []
        if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
            raise RequestRefused(400, "partitions: give a list of numbers")
        known = existing(self._cluster, [topic])[topic]
        check_partitions(known, numbers)
        partitions = [tp for tp in known.topic_partitions if not numbers or tp.partition in numbers]
        with Reader(self._read_options({"subscribe": topic}), start=place(to, "to")) as reader:
            wanted = reader.start_of(partitions)
        before = committed_offsets(self._cluster, group)
        return {
            "offsets": [
                {"partition": tp.partition, "before": before.get(tp), "after": offset}
                for tp, offset in sorted(wanted.items())
            ]
        }

    def set_offsets(self, asked: Document) -> Document:
        """Commit exactly these offsets, which `plan_offsets` gave and the user has seen."""
        group, topic = confirmed(asked, "group"), text(asked, "topic")
        given = asked.get("offsets")
        if not isinstance(given, dict) or not given:
            raise RequestRefused(400, 'offsets: give {"partition": offset}')
        known = existing(self._cluster, [topic])[topic]
        offsets = {}
        for number, offset in given.items():
            if not (number.isascii() and number.isdigit() and type(offset) is int and 0 <= offset < 1 << 63):
                raise RequestRefused(
                    400, f"offsets: {json.dumps({number: offset})[:60]} is not a partition with its offset"
                )
            offsets[TopicPartition(topic, int(number))] = offset
        check_partitions(known, [tp.partition for tp in offsets])
        commit_offsets(self._cluster, group, offsets)
        return {"set": len(offsets)}

    def create_topic(self, asked: Document) -> Document:
        name = confirmed(asked, "name")
        settings = asked.get("settings") or {}
        if not isinstance(settings, dict) or not all(isinstance(text, str) for text in settings.values()):
            raise RequestRefused(400, 'settings: give {"name": "value"}')
        partitions, replication = (number(asked, name) for name in ("partitions", "replication"))
        self._cluster.topics.create([name], partitions=partitions, replication_factor=replication, configs=settings)
        return {"created": name}

    def delete_topic(self, asked: Document) -> Document:
        name = confirmed(asked, "name")
        existing(self._cluster, [name])
        self._cluster.topics.delete([name])
        return {"deleted": name}


def document(body: bytes | None) -> Document:
    try:
        value = json.loads(body or b"")
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise RequestRefused(400, "send an object in JSON")
    return value


def text(asked: Document, name: str) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not value:
        raise RequestRefused(400, f"{name}: it is missing")
    return value


def confirmed(asked: Document, name: str) -> str:
    """The name of what is changed. Raises RequestRefused unless `confirm` repeats it."""
    value = text(asked, name)
    if asked.get("confirm") != value:
        raise RequestRefused(400, f"confirm: it must repeat the {name} that is changed")
    return value


def number(asked: Document, name: str) -> int:
    """-1, the broker's default, where it is not given."""
    value = asked.get(name)
    if value is None:
        return -1
    if type(value) is not int or not 1 <= value <= 100_000:
        raise RequestRefused(400, f"{name}: give a number from 1 to 100,000")
    return value
