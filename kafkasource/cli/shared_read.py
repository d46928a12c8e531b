"""`pykafka read --group`: as one member of a consumer group, whose other members may be any clients.

In steps of some thousand offsets: read, write out, flush, commit. So a record is committed when it has left this
process, and what a killed one had not committed is read again by whoever takes over.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkasource.cli.formats import Output
from kafkasource.errors import CommitFailed
from kafkasource.group.member import GroupMember

if TYPE_CHECKING:
    from kafkasource.reader import Reader
    from kafkasource.types import OffsetRange, TopicPartition

_STEP = 20_000  # offsets between two commits, and two looks at the group
_IDLE_S = 0.2
_SESSION_TIMEOUT_MS = 30_000  # the longest that Kafka 0.9 takes


def read_as_member(reader: Reader, arguments: argparse.Namespace, output: Output) -> None:
    """Until the assigned partitions are read to their ends, or `--count` is reached; with `--follow` for ever.

    Leaves the group in any case, so that the others take over at once.
    """
    positions: dict[TopicPartition, int] = {}
    left: int | None = arguments.count
    ranges: list[OffsetRange] = []
    with GroupMember(
        reader.cluster, arguments.group, arguments.topics, session_timeout_ms=_SESSION_TIMEOUT_MS
    ) as member:
        while left is None or left > 0:
            had_share = member.joined
            changes = member.poll(0 if ranges else _IDLE_S)
            for tp in (*changes.revoked, *changes.lost):
                positions.pop(tp, None)
            if changes.assigned:
                positions.update(_starts(reader, arguments.group, frozenset(changes.assigned)))
                _tell(positions)
            ranges = _step(reader.next_ranges(positions), left)
            for one in ranges:
                left = _copy(reader, one, output, left, positions)
            _commit(member, {one.topic_partition: positions[one.topic_partition] for one in ranges})
            if had_share and not changes and not ranges and not arguments.follow:
                return


def _commit(member: GroupMember, offsets: dict[TopicPartition, int]) -> None:
    """What is not this member's any more is read again by whoever has it now."""
    try:
        member.commit(offsets)
    except CommitFailed as error:
        print(f"pykafka: {error}", file=sys.stderr)


def _starts(reader: Reader, group: str, assigned: frozenset[TopicPartition]) -> dict[TopicPartition, int]:
    """Where the group stands; where it has committed nothing, what --from says."""
    committed = reader.cluster.fetch_offsets(group, assigned)
    known = {tp: offset for tp, offset in committed.items() if offset is not None}
    return {**known, **reader.start_of(assigned - known.keys())}


def _tell(positions: dict[TopicPartition, int]) -> None:
    if sys.stderr.isatty():
        print(f"reading {', '.join(map(str, sorted(positions)))}", file=sys.stderr)


def _step(ranges: list[OffsetRange], left: int | None) -> list[OffsetRange]:
    """As much of these as is read before the next commit."""
    room, step = _STEP, []
    for one in ranges:
        if room <= 0 or (left is not None and left <= 0):
            break
        step.append(replace(one, end_offset=min(one.end_offset, one.start_offset + room)))
        room -= step[-1].size
    return step


def _copy(
    reader: Reader, one: OffsetRange, output: Output, left: int | None, positions: dict[TopicPartition, int]
) -> int | None:
    """Read a range out and move the position behind it, or behind the last record that `left` allows."""
    tp = one.topic_partition
    for batch in reader.read([one]):
        part = batch if left is None else batch.slice(0, left)
        if part.num_rows:
            output.write(part)
            positions[tp] = part.column("offset")[-1].as_py() + 1
        if left is not None:
            left -= part.num_rows
            if left == 0:
                return left
    positions[tp] = one.end_offset
    return left
