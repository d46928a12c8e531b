"""`pykafka read --group`: reads as one member of a consumer group. The other members may be any clients.

It works in steps of some thousand offsets: read, write out, flush, commit. So it commits a record after the record has
left this process. After a kill, the next member reads the uncommitted records again.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkasource.errors import CommitFailed, GivenUp
from kafkasource.kafka.group.member import GroupMember
from kafkasource.source.plan.positions import AtOffsets
from kafkasource.tools.cli.filters import Selection
from kafkasource.tools.cli.formats import Output

if TYPE_CHECKING:
    from kafkasource.reader import Reader
    from kafkasource.types import OffsetRange, TopicPartition

_STEP = 20_000  # offsets between two commits, and two looks at the group
_IDLE_S = 0.2
_LAST_COMMIT_MS = 2_000  # how long Ctrl-C waits for the coordinator
_SESSION_TIMEOUT_MS = 30_000  # the longest that Kafka 0.9 takes


def read_as_member(
    reader: Reader,
    arguments: argparse.Namespace,
    output: Output,
    rack: str | None = None,
    join: Callable[..., GroupMember] = GroupMember,
) -> None:
    """Read the assigned partitions to the ends that they had when they were assigned, or until `--count` is reached;
    with `--follow` for ever.

    Leaves the group in any case, so that the others take over at once. After Ctrl-C it commits the records that it has
    written out.
    """
    with join(
        reader.cluster,
        arguments.group,
        arguments.topics,
        session_timeout_ms=_SESSION_TIMEOUT_MS,
        rack_id=rack,
    ) as member:
        share = _Share(reader, member, arguments, output)
        try:
            while not share.ended:
                had_share = member.joined
                changed = share.look(0 if share.busy else _IDLE_S)
                share.step()
                idle = had_share and not changed and not share.busy
                if idle and not arguments.follow and not member.awaits_more():
                    return
        except KeyboardInterrupt:
            for node in reader.cluster.metadata.nodes():  # it may have come in the middle of a request
                reader.cluster.caller.disconnect(node.node_id)
            with contextlib.suppress(GivenUp), reader.cluster.caller.giving_up(after_ms=_LAST_COMMIT_MS):
                share.commit()
            raise


class _Share:
    """The partitions that this member has now, and how far it has come in each."""

    def __init__(self, reader: Reader, member: GroupMember, arguments: argparse.Namespace, output: Output) -> None:
        self._reader = reader
        self._member = member
        self._group = arguments.group
        self._follow = arguments.follow
        self._output = output
        self._selection = Selection(arguments.filter, arguments.count)
        self._positions = reader.positions()
        self._uncommitted: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}  # as they were when the partition came to this share
        self.busy = False  # did the last step find anything?

    def look(self, wait_s: float) -> bool:
        """Apply the group's changes."""
        changes = self._member.poll(wait_s)
        gone = changes.revoked | changes.lost
        self._positions.drop(gone)
        for tp in gone:
            self._uncommitted.pop(tp, None)
            self._ends.pop(tp, None)
        if changes.assigned:
            self._begin(changes.assigned)
            if sys.stderr.isatty():
                print(f"reading {', '.join(map(str, sorted(self._positions.offsets)))}", file=sys.stderr)
        return bool(changes)

    def _begin(self, assigned: frozenset[TopicPartition]) -> None:
        """The group's committed offsets; --from where it has committed none."""
        committed = self._reader.cluster.groups.committed_offsets(self._group, assigned)
        known = {tp: offset for tp, offset in committed.items() if offset is not None}
        self._positions.begin(known, AtOffsets(f"--group {self._group}", partitions=known))
        fresh = assigned - known.keys()
        self._positions.begin(fresh)
        # Kafka's consumer commits its position, too: so `pykafka lag` counts partitions that we do not reach.
        self._uncommitted.update({tp: at for tp, at in self._positions.offsets.items() if tp in fresh})

    @property
    def ended(self) -> bool:
        return self._selection.ended

    def step(self) -> None:
        """Read out at most some thousand offsets, and no more records than are wanted."""
        room = _STEP
        ranges = self._ranges()
        self.busy = bool(ranges)
        for wanted in ranges:
            if room <= 0 or self.ended:
                break
            part = replace(wanted, end_offset=min(wanted.end_offset, wanted.start_offset + room))
            room -= part.size
            self._copy(part)
        self.commit()

    def _ranges(self) -> list[OffsetRange]:
        """The ranges to read now. Without --follow they end where each log ended when it came to this share, because a
        busy topic never ends."""
        ranges = self._positions.next_ranges()
        if self._follow:
            return ranges
        now = {wanted.topic_partition: wanted.end_offset for wanted in ranges}
        for tp, position in self._positions.offsets.items():
            self._ends.setdefault(tp, now.get(tp, position))
        cut = [
            replace(wanted, end_offset=min(wanted.end_offset, self._ends[wanted.topic_partition])) for wanted in ranges
        ]
        return [wanted for wanted in cut if wanted.size > 0]

    def _copy(self, wanted: OffsetRange) -> None:
        for batch in self._reader.read([wanted]):
            part, done = self._selection.of(batch)
            if part.num_rows:
                self._output.write(part)
            self._reached(wanted.topic_partition, batch.column("offset")[done - 1].as_py() + 1)
            if self.ended:
                return
        self._reached(wanted.topic_partition, wanted.end_offset)  # behind the last record may be markers

    def _reached(self, tp: TopicPartition, position: int) -> None:
        self._positions.move({tp: position})
        self._uncommitted[tp] = position

    def commit(self) -> None:
        """Another member has these partitions now, and reads the uncommitted records again."""
        try:
            self._member.commit(self._uncommitted)
        except CommitFailed as error:
            print(f"pykafka: {error}", file=sys.stderr)
        self._uncommitted = {}
