"""Lanes: the transactions in which tasks write, what they are called, and what is recorded of one.

A lane is the transaction of one task, under a transactional id made of the query's prefix P and the task's slot (its
partition id). Slots are reused batch after batch: brokers keep every transactional id for seven days.

    P-driver   decides       P-0, P-1, ...   the lanes       P-marker   the group whose offsets are the decision record
                                                             P-kept     the group that outlives it (kept_decision)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kafkasource.errors import ProtocolError
from kafkasource.protocol.primitives import Reader, Writer
from kafkasource.types import ProducerId


@dataclass(frozen=True, slots=True)
class TransactionalIds:
    """The names that one query uses, and no other query."""

    prefix: str

    @property
    def driver(self) -> str:
        return f"{self.prefix}-driver"

    @property
    def marker_group(self) -> str:
        return f"{self.prefix}-marker"

    @property
    def kept_group(self) -> str:
        return f"{self.prefix}-kept"

    def lane(self, slot: int) -> str:
        return f"{self.prefix}-{slot}"

    def slot(self, transactional_id: str) -> int | None:
        """Of a lane; None where the id is no lane of this prefix, as one of a prefix that begins like ours."""
        match = re.fullmatch(re.escape(self.prefix) + r"-(0|[1-9]\d{0,9})", transactional_id)
        return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class WrittenLane:
    """A lane whose every record is acknowledged. `crc` is of the rows, whichever way they came in Arrow batches."""

    slot: int
    producer_id: int
    producer_epoch: int
    rows: int
    crc: int

    @property
    def producer(self) -> ProducerId:
        return ProducerId(self.producer_id, self.producer_epoch)


# A packed lane: slot less the slot before, less one (unsigned varint); producer id less the one before (zigzag
# varlong); epoch (unsigned varint); rows (varlong); crc (uint32). About 10 bytes: ids come from blocks of 1,000.


def pack_lane(lane: WrittenLane, before: WrittenLane | None) -> bytes:
    """The bytes of a lane behind another of a lower slot, or at the front."""
    writer = Writer()
    writer.unsigned_varint(lane.slot - (before.slot if before else -1) - 1)
    writer.varlong(lane.producer_id - (before.producer_id if before else 0))
    writer.unsigned_varint(lane.producer_epoch)
    writer.varlong(lane.rows)
    writer.uint32(lane.crc)
    return writer.getvalue()


def pack_lanes(lanes: Iterable[WrittenLane]) -> bytes:
    packed, before = b"", None
    for lane in lanes:
        packed += pack_lane(lane, before)
        before = lane
    return packed


def unpack_lanes(data: bytes, count: int) -> tuple[WrittenLane, ...]:
    """Exactly `count` lanes and no byte more; raises ProtocolError."""
    if not 0 <= count <= len(data):
        raise ProtocolError(f"{count} lanes cannot be in {len(data)} bytes")
    reader = Reader(data)
    lanes: list[WrittenLane] = []
    slot, producer_id = -1, 0
    for _ in range(count):
        slot += reader.unsigned_varint() + 1
        producer_id += reader.varlong()
        lane = WrittenLane(slot, producer_id, reader.unsigned_varint(), reader.varlong(), reader.uint32())
        if slot > 0x7FFFFFFF or producer_id < 0 or lane.producer_epoch > 0x7FFF or lane.rows < 1:
            raise ProtocolError(f"no lane is like this: {lane}")
        lanes.append(lane)
    reader.finish()
    return tuple(lanes)
