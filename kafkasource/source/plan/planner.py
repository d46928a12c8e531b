"""Plans a micro-batch: pure functions from the two offsets of a checkpoint to `OffsetRange`s.

Nothing here calls a broker: `questions` says what to ask, and `plan` takes the answers. Losses have the texts of the
JVM connector (KafkaOffsetReader.getOffsetRangesFromResolvedOffsets). Topic ids and leader epochs show two more losses:
a topic that was deleted and created again under its name, and a log that was truncated and written again. `log_view`
compares them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kafkasource.errors import KafkaSourceError
from kafkasource.kafka.fetch import loss
from kafkasource.kafka.fetch.loss import Loss
from kafkasource.kafka.network.log_view import LogView, Verdict, compare
from kafkasource.source.plan.offsets import Offsets, PartitionOffsets, StreamOffset
from kafkasource.source.plan.subscription import Assign, SubscribePattern, Subscription
from kafkasource.types import OffsetRange, TopicPartition


class Questions(NamedTuple):
    """The questions about the present logs that a plan needs answered."""

    earliest: set[TopicPartition]  # where these begin
    epochs: dict[TopicPartition, int]  # where these leader epochs end


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The non-empty ranges to read, sorted, and the losses."""

    ranges: list[OffsetRange]
    losses: list[Loss]


def recreated_topics(before: StreamOffset, now: StreamOffset) -> set[str]:
    """Topics whose name belongs to another topic now, as far as ids show it, or epochs where ids are not known."""
    by_epochs = {tp.topic for tp in other_epochs(before, now) if verdict(before, now, tp) is Verdict.ANOTHER_TOPIC}
    return topics_with_other_ids(before, now) | by_epochs


def topics_with_other_ids(before: StreamOffset, now: StreamOffset) -> set[str]:
    """Topics whose ids are known and not the same."""
    if before.topic_ids == now.topic_ids:
        return set()
    return {
        topic
        for topic, topic_id in now.topic_ids.items()
        if compare(LogView(before.topic_ids.get(topic)), LogView(topic_id)) is Verdict.ANOTHER_TOPIC
    }


def new_leaders(before: StreamOffset, now: StreamOffset) -> dict[TopicPartition, int]:
    """The epochs `before` of the partitions that have a later leader now: their logs may have been truncated."""
    return {
        tp: before.leader_epochs[tp]
        for tp in other_epochs(before, now)
        if verdict(before, now, tp) is Verdict.NEWER_LEADER
    }


def other_epochs(before: StreamOffset, now: StreamOffset) -> list[TopicPartition]:
    """Few of many: the partitions whose epochs are known and not the same."""
    known = before.leader_epochs
    if known is now.leader_epochs or known == now.leader_epochs:
        return []
    return [tp for tp, epoch in now.leader_epochs.items() if known.get(tp, epoch) != epoch]


def verdict(before: StreamOffset, now: StreamOffset, tp: TopicPartition) -> Verdict:
    """Compare the partition's log with the log known before."""
    return compare(before.view(tp), now.view(tp))


def carried(begin: StreamOffset, now: StreamOffset) -> Offsets:
    """The offsets of `begin` that are valid in the logs of `now`: those of recreated topics are not."""
    recreated = recreated_topics(begin, now)
    return (
        {tp: offset for tp, offset in begin.offsets.items() if tp.topic not in recreated}
        if recreated
        else begin.offsets
    )


def advanced(
    begin: StreamOffset, ends: Offsets, listed: StreamOffset, cut: Collection[TopicPartition] = ()
) -> StreamOffset | None:
    """The end of a micro-batch from `begin` to `ends`, in the logs as `listed`. None: nothing is new.

    Epochs are those of the listing. But a partition that does not move keeps its own, so that the driver checks its log
    when it moves; and no partition gets an older epoch, because records below its offset may have its own. `cut`:
    partitions that do not move, but whose logs were truncated and have grown to the same offset: they get the epoch of
    the listing. If only offsets have changed, the result shares the ids and epochs of `begin`: of 100,000 partitions,
    the idle ones then cost nothing.
    """
    recreated = recreated_topics(begin, listed)
    cut = {tp for tp in cut if tp in ends and begin.leader_epochs.get(tp) != listed.leader_epochs.get(tp)}
    if ends == begin.offsets and not recreated and not cut:
        return None
    if (
        listed.leader_epochs == begin.leader_epochs
        and listed.topic_ids == begin.topic_ids
        and ends.keys() == begin.offsets.keys()
    ):
        return StreamOffset(ends, begin.topic_ids, begin.leader_epochs, cluster_id=listed.cluster_id)
    epochs = {tp: epoch for tp, epoch in listed.leader_epochs.items() if tp in ends}
    for tp, epoch in begin.leader_epochs.items():
        if tp not in ends or tp.topic in recreated or tp in cut:
            continue
        if ends[tp] == begin.offsets.get(tp) or epochs.get(tp, epoch) < epoch:
            epochs[tp] = epoch
    topics = {tp.topic for tp in ends}
    known = {**begin.topic_ids, **listed.topic_ids}
    topic_ids = {topic: topic_id for topic, topic_id in known.items() if topic in topics}
    return StreamOffset(ends, topic_ids, epochs, cluster_id=listed.cluster_id)


def questions(begin: StreamOffset, until: StreamOffset) -> Questions:
    """A partition under a later leader than at `begin` may have lost the records read last (KIP-320)."""
    start, end = carried(begin, until), until.offsets
    epochs = {tp: epoch for tp, epoch in new_leaders(begin, until).items() if tp in start and tp in end}
    return Questions(earliest=end.keys() - start.keys(), epochs=epochs)


def unseen_topics(begin: StreamOffset, until: StreamOffset, there: Collection[TopicPartition]) -> set[str]:
    """Topics that lost their last partition in `until`, and topics with new partitions but none in `there`."""
    after = {tp.topic for tp in until.offsets}
    lost = {tp.topic for tp in begin.offsets if tp.topic not in after}
    new = until.offsets.keys() - begin.offsets.keys()
    return lost | ({tp.topic for tp in new if tp not in there} - {tp.topic for tp in there})


def plan(
    begin: StreamOffset,
    until: StreamOffset,
    earliest: PartitionOffsets,
    epoch_ends: PartitionOffsets | None = None,
    *,
    subscription: Subscription | None = None,
    deleted: Collection[str] = (),
    seen_ends: PartitionOffsets | None = None,
) -> ReadPlan:
    """The ranges between the two offsets of a micro-batch, both as checkpointed, with the answers to `questions`.

    A partition that `begin` does not have is read from its earliest offset, whatever `startingOffsets` said, because it
    did not exist when the query started. If it begins above 0, it has lost records already; if it has no answer, it was
    deleted again. The same holds for partitions of a recreated topic. A truncated log is read from its cut.

    `subscription`: what the query reads now, where `begin` may be the checkpoint of another query. `deleted`: topics
    that certainly do not exist any more. `seen_ends`: ends of logs before they were gone.
    """
    recreated = recreated_topics(begin, until)
    start, end = carried(begin, until), until.offsets
    new = end.keys() - start.keys()
    cut = {tp: offset for tp, offset in (epoch_ends or {}).items() if tp in start and tp in end and offset < start[tp]}
    losses = [
        *_recreated(recreated, begin, until),
        *_new(new, earliest, recreated, deleted),
        *_absent({tp: start[tp] for tp in start.keys() - end.keys()}, subscription, deleted, seen_ends or {}),
        *_truncated(cut, begin, until),
    ]
    ranges: list[OffsetRange] = []
    moved = {tp for tp, offset in end.items() if start.get(tp) != offset}  # few of many, when idle
    for tp in sorted(moved | cut.keys()):
        if tp in new and tp not in earliest:
            continue
        first = cut[tp] if tp in cut else start[tp] if tp in start else earliest[tp]
        if first < end[tp]:
            ranges.append(
                OffsetRange(
                    tp,
                    first,
                    end[tp],
                    leader_epoch=until.leader_epochs.get(tp),
                    topic_id=until.topic_ids.get(tp.topic),
                )
            )
        elif first > end[tp] and tp not in cut:
            losses.append(_changed(tp, first, end[tp]))
    return ReadPlan(ranges, losses)


def _recreated(topics: Collection[str], begin: StreamOffset, until: StreamOffset) -> Iterator[Loss]:
    for topic in sorted(topics):
        before, now = begin.topic_ids.get(topic), until.topic_ids.get(topic)
        if before is not None and now is not None:
            shown = f"its id was {before} and is {now} now"
        else:
            fell = [tp for tp in other_epochs(begin, until) if verdict(begin, until, tp) is Verdict.ANOTHER_TOPIC]
            tp = min(tp for tp in fell if tp.topic == topic)
            shown = (
                f"the leader epoch of {tp} was {begin.leader_epochs[tp]} and is {until.leader_epochs[tp]} now, and it"
                " never falls within one topic"
            )
        yield Loss(
            loss.TOPIC_RECREATED,
            f"Topic {topic} has been deleted and created again: {shown}. What had not been read of the old one is"
            f" gone.{_of_another_cluster(begin, until)}",
            "The new one is read from its earliest offsets.",
        )


def _of_another_cluster(begin: StreamOffset, until: StreamOffset) -> str:
    before, now = begin.cluster_id, until.cluster_id
    if before is None or now is None or before == now:
        return ""
    return (
        f" The checkpoint is of cluster {before}, and cluster {now} has answered: if that one keeps the offsets of the"
        f" first (Cluster Linking and the like), set the option 'failedOverTo' to {now}."
    )


def _new(
    new: Collection[TopicPartition],
    earliest: PartitionOffsets,
    recreated: Collection[str],
    deleted: Collection[str],
) -> Iterator[Loss]:
    for certain, gone in _divided([tp for tp in new if tp not in earliest], deleted):
        yield Loss(
            loss.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS,
            f"Cannot find initial offsets for partitions {loss.describe(gone)}."
            f" They {'have' if certain else 'may have'} been deleted.",
            "They are skipped.",
            deleted=certain,
        )
    for tp in sorted(new):
        if earliest.get(tp, 0) != 0 and tp.topic not in recreated:
            yield Loss(
                loss.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO,
                f"Added partition {tp} starts from {earliest[tp]} instead of 0.",
                f"It is read from {earliest[tp]}.",
                skipped={tp.topic: earliest[tp]},
            )


def _divided(
    partitions: Collection[TopicPartition], deleted: Collection[str]
) -> Iterator[tuple[bool, list[TopicPartition]]]:
    """Divide into partitions of topics that are certainly deleted, and the others."""
    for certain in (True, False):
        found = [tp for tp in partitions if (tp.topic in deleted) is certain]
        if found:
            yield certain, found


def _absent(
    read: PartitionOffsets, subscription: Subscription | None, deleted: Collection[str], seen_ends: PartitionOffsets
) -> Iterator[Loss]:
    """Describe the loss of these partitions. Some were deleted; others may exist, but the query does not read them (any
    more)."""
    others = [tp for tp in read if subscription is not None and not subscription.covers(tp)]
    unseen = f" {loss.UNSEEN}." if subscription is None or isinstance(subscription, SubscribePattern) else ""
    for certain, partitions in _divided(read.keys() - frozenset(others), deleted):
        names = loss.describe(partitions)
        if certain:
            text = f"Partitions {names} have been deleted with their topics. {_unread(partitions, read, seen_ends)}"
        else:
            text = f"Partitions {names} have been deleted.{unseen}"
        skipped: Counter[str] = Counter()
        for tp in partitions:
            skipped[tp.topic] += max(0, seen_ends.get(tp, 0) - read[tp])
        yield Loss(loss.PARTITIONS_DELETED, text, "They are not read any more.", deleted=certain, skipped=+skipped)
    if subscription is not None and others:
        names = loss.describe(others)
        add = names if isinstance(subscription, Assign) else ", ".join(sorted({tp.topic for tp in others})[:20])
        yield Loss(
            loss.PARTITIONS_DELETED,
            f"The checkpoint is of a query that read {names}, and this one reads {subscription}: give it a"
            f" checkpointLocation of its own, or let it read {add}, too (option {subscription.option!r}).",
            "They are not read any more.",
            cause="the query does not read all that its checkpoint has",
        )


def _unread(partitions: Collection[TopicPartition], read: PartitionOffsets, seen_ends: PartitionOffsets) -> str:
    missing = {
        tp: f"{seen_ends[tp] - read[tp]} offsets from {read[tp]} on"
        for tp in partitions
        if seen_ends.get(tp, read[tp]) > read[tp]
    }
    unknown = {tp: f"up to offset {read[tp]}" for tp in partitions if tp not in seen_ends}
    parts = []
    if missing:
        parts.append(f"Not read of them: {loss.describe(missing, missing)}.")
    elif len(unknown) < len(partitions):
        parts.append("All records of them that were seen had been read.")
    if unknown:
        parts.append(f"Read, and not known whether there was more: {loss.describe(unknown, unknown)}.")
    return " ".join(parts)


def _truncated(cut: PartitionOffsets, begin: StreamOffset, until: StreamOffset) -> Iterator[Loss]:
    for tp, offset in sorted(cut.items()):
        yield Loss(
            loss.LOG_TRUNCATED,
            f"The log of {tp} was truncated to offset {offset} (an unclean leader election): records of leader epoch"
            f" {begin.leader_epochs[tp]} up to {begin.offsets[tp]} had been read, and the leader of epoch"
            f" {until.leader_epochs[tp]} has others, or none, in [{offset}, {begin.offsets[tp]}).",
            f"It is read on from {offset}.",
        )


def _changed(tp: TopicPartition, before: int, now: int) -> Loss:
    return Loss(
        loss.PARTITION_OFFSET_CHANGED,
        f"Partition {tp} offset was changed from {before} to {now}: its log ends before what was to be read next"
        " (topic recreated, log truncated, or offsets of another cluster).",
        f"It is read on from {now}.",
    )


def check_available_now(
    end: PartitionOffsets, frozen: PartitionOffsets, latest: PartitionOffsets, deleted: Collection[str] = ()
) -> None:
    """Raise KafkaSourceError unless a batch of Trigger.AvailableNow stays within the run's `frozen` end offsets.

    Partitions or records below the frozen end offsets may have vanished since the run began. That is an error whatever
    `failOnDataLoss` says, as in the JVM connector, whose conditions these are: the run would end too early, or never.
    `deleted`: topics that the query may go on without.
    """
    if end.keys() != frozen.keys():
        raise _changed_during_run(
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED",
            "the batch and the end offsets of the run (pre-fetched offset) should have the same topic partitions",
            end.keys() ^ frozen.keys(),
        )
    beyond = [tp for tp in end if end[tp] > frozen[tp]]
    if beyond:
        raise _changed_during_run(
            "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED",
            "the batch ends after the end offsets of the run (pre-fetched offset)",
            beyond,
        )
    lost = {tp for tp in end.keys() - latest.keys() if tp.topic not in deleted}
    if lost:
        raise _changed_during_run(
            "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
            "topic partitions have been lost",
            lost,
            f" {loss.UNSEEN}.",
        )
    shrunk = [tp for tp in end if tp in latest and end[tp] > latest[tp]]
    if shrunk:
        raise _changed_during_run(
            "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW",
            "logs report an available offset which is less than the end of the batch",
            shrunk,
        )


def _changed_during_run(
    condition: str, what: str, partitions: Collection[TopicPartition], hint: str = ""
) -> KafkaSourceError:
    return KafkaSourceError(
        f"[{condition}] Partitions in Kafka have changed during running query with Trigger.AvailableNow: {what}:"
        f" {loss.describe(partitions)}. The error could be transient - restart your query: its checkpoint is intact."
        + hint
    )
