"""What a micro-batch or a batch read reads: pure functions from offsets to `OffsetRange`s.

No broker is asked here; who calls has asked. The numbers are those of the JVM connector
(KafkaMicroBatchStream.rateLimit, KafkaOffsetReader.getOffsetRangesFromResolvedOffsets), so that a job that moves here
plans the same batches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from kafkasource.errors import KafkaSourceError
from kafkasource.source import loss
from kafkasource.source.loss import Loss
from kafkasource.source.offsets import Offsets
from kafkasource.types import OffsetRange, TopicPartition

PartitionOffsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """The non-empty ranges to read, sorted, and what cannot be read any more."""

    ranges: list[OffsetRange]
    losses: list[Loss]


def admit(start: PartitionOffsets, latest: PartitionOffsets, limit: int) -> Offsets:
    """End offsets (exclusive) of a micro-batch of about `limit` offsets, shared out by how much each partition holds.

    `start` knows all partitions of `latest`, new ones at their earliest offset. A partition that holds anything moves
    by at least one, so many partitions can exceed a small limit; rounding down can leave a batch below it. Offsets
    count, not records: holes use the limit up.
    """
    sizes = {tp: end - start[tp] for tp, end in latest.items() if tp in start and end > start[tp]}
    total = float(sum(sizes.values()))
    admitted = dict(latest)
    for tp, size in sizes.items():
        share = limit * (size / total)
        take = math.ceil(share) if share < 1 else math.floor(share)
        admitted[tp] = min(latest[tp], start[tp] + take)
    return admitted


def plan(start: PartitionOffsets, end: PartitionOffsets, earliest_of_new: PartitionOffsets) -> Plan:
    """Ranges from the offsets of a micro-batch, both as checkpointed.

    `earliest_of_new`: where the partitions that are in `end` only begin. They are read from there whatever
    `startingOffsets` said, since they did not exist when the query started; one that begins above 0 has lost records
    already, one without an answer has been deleted again.
    """
    losses: list[Loss] = []
    new = end.keys() - start.keys()
    gone = new - earliest_of_new.keys()
    if gone:
        losses.append(
            Loss(
                loss.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS,
                f"Cannot find initial offsets of {loss.describe(gone)}: deleted soon after they appeared?",
                "They are skipped.",
            )
        )
    for tp in sorted(new - gone):
        if earliest_of_new[tp] != 0:
            losses.append(
                Loss(
                    loss.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO,
                    f"Added partition {tp} starts from {earliest_of_new[tp]} instead of 0.",
                    f"It is read from {earliest_of_new[tp]}.",
                )
            )
    deleted = start.keys() - end.keys()
    if deleted:
        losses.append(
            Loss(
                loss.PARTITIONS_DELETED,
                f"Partitions {loss.describe(deleted)} have been deleted.",
                "They are not read any more.",
            )
        )
    moved = [tp for tp, until in end.items() if start.get(tp) != until and tp not in gone]  # few of many, when idle
    ranges: list[OffsetRange] = []
    for tp in sorted(moved):
        begin, until = start[tp] if tp in start else earliest_of_new[tp], end[tp]
        if until < begin:
            losses.append(
                Loss(
                    loss.PARTITION_OFFSET_CHANGED,
                    f"Partition {tp} offset was changed from {begin} to {until}: its log ends before"
                    " what was to be read next (topic recreated, log truncated, or offsets of another cluster).",
                    f"It is read on from {until}.",
                )
            )
        elif until > begin:
            ranges.append(OffsetRange(tp, begin, until))
    return Plan(ranges, losses)


def plan_batch(start: PartitionOffsets, end: PartitionOffsets) -> list[OffsetRange]:
    """Ranges of a batch read. Raises KafkaSourceError when a resolved start lies behind its end: the user's two
    options contradict each other.
    """
    for tp in sorted(start.keys() & end.keys()):
        if start[tp] > end[tp]:
            raise KafkaSourceError(
                f"The resolved start offset {start[tp]} is greater than the resolved end offset {end[tp]} "
                f"for topic {tp.topic} partition {tp.partition}: check startingOffsets and endingOffsets"
            )
    return [OffsetRange(tp, start[tp], end[tp]) for tp in sorted(start.keys() & end.keys()) if start[tp] < end[tp]]


def check_available_now(end: PartitionOffsets, frozen: PartitionOffsets, latest: PartitionOffsets) -> None:
    """Is a batch of Trigger.AvailableNow still within what was there when the run began?

    Raises KafkaSourceError when partitions or records of the frozen goal vanished meanwhile, whatever
    `failOnDataLoss` says, as the JVM connector does: going on would end the run below its goal, or never.
    """
    if end.keys() != frozen.keys():
        raise _changed(f"partitions of the batch and of the goal differ: {loss.describe(end.keys() ^ frozen.keys())}")
    beyond = [tp for tp in end if end[tp] > frozen[tp]]
    if beyond:
        raise _changed(f"the batch ends after the goal of the run: {loss.describe(beyond)}")
    lost = end.keys() - latest.keys()
    if lost:
        raise _changed(f"partitions have been deleted: {loss.describe(lost)}")
    shrunk = [tp for tp in end if end[tp] > latest[tp]]
    if shrunk:
        raise _changed(f"logs end before the batch does: {loss.describe(shrunk)}")


def _changed(what: str) -> KafkaSourceError:
    return KafkaSourceError(
        f"Some of the partitions in Kafka have been changed or lost during a query with Trigger.AvailableNow: {what}. "
        "Run the query again; its checkpoint is intact."
    )
